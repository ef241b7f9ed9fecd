"""Exports stored runs to an archive, and imports those of another installation."""

import io
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TypeVar

from spmd_core.base import RequestError, UnreadableRun, bytes_text, refuse, shorten
from spmd_core.lab import container, examples
from spmd_core.lab.archive.contents import (
    ArchivedRun,
    archive_of,
    read_collection,
    read_run,
    read_search,
    read_texts,
    run_json,
    with_archive,
)
from spmd_core.lab.collections import Gated
from spmd_core.lab.store.archived import Incoming
from spmd_core.lab.store.limits import COMMAND_LINE, Asker, check_may_act
from spmd_core.lab.store.rows import columns_at_end, result_body
from spmd_core.runs import COLLECTION_ID, EXAMPLES, lane_of_target
from spmd_core.search import KeptSearch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refused:
    """A run of an archive that was not taken, and why in a sentence."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the runs of an archive: imported, here before, refused."""

    imported: tuple[str, ...]
    present: tuple[str, ...]
    refused: tuple[Refused, ...]

    def to_json(self) -> dict[str, object]:
        """The fields as `import --json` prints them."""
        return asdict(self)


class Archives(Gated):
    """The archives of a data folder."""

    def every(self) -> tuple[str, ...]:
        """Ids of all runs that are over, oldest first, and of all collections and searches."""
        kept = self._store.collections()
        own = (each.id for each in kept if not (each.origin and each.origin.is_example))
        searches = (each.id for each in self._store.kept_searches())
        return (*self._store.every_finished(), *own, *searches)

    def export(
        self, runs: Sequence[str], file: IO[bytes], installation: str = ""
    ) -> tuple[str, ...]:
        """Write an archive of runs, and of collections and searches with their runs; ids of those
        that this version cannot read, and left out.

        `installation`: where they are from, else this data folder. RequestError where a run is not
        stored, is not over, or the archive would be too large.
        """
        unread: list[str] = []
        members = self._members(tuple(dict.fromkeys(runs)), unread)
        mark = installation or self._store.installation()
        container.write(file, mark, time.time(), members)
        return tuple(unread)

    def page(self, page: str, runs: Sequence[str], name: str | None = None) -> str:
        """Returns a page of HTML that carries an archive of runs, for a file that opens anywhere.

        `name`: whoever sends it, as typed. RequestError as of `export`, and where the archive is too
        large or the name is none. Without a name, the page as it is in place of these.
        """
        if name and (not container.RUN_ID.fullmatch(name) or name == EXAMPLES):
            rule = "may have at most 64 letters, digits, hyphens and underscores"
            raise refuse(f"the name {shorten(name)}", rule, "use a name such as ana-v5e")
        file = io.BytesIO()
        try:
            self.export(runs, file, name or "")
            return with_archive(page, file.getvalue())
        except RequestError:
            if name is None:
                return page
            raise

    def _members(self, names: Sequence[str], unread: list[str]) -> Iterator[tuple[str, bytes]]:
        collections = [
            self._store.collection(name) for name in names if COLLECTION_ID.fullmatch(name)
        ]
        searches = [each for name in names for each in self._store.kept_searches(name)]
        others = {each.id for each in (*collections, *searches)}
        runs = [name for name in names if name not in others]
        named = {run for each in (*collections, *searches) for run in each.runs} - set(runs)
        for run in (*runs, *sorted(self._over(named))):
            try:
                fields, result = next(self._store.exported((run,)))
                texts = self._store.every_text(run)
            except UnreadableRun:
                unread.append(run)
                continue
            yield f"runs/{run}.json", run_json(fields, result)
            if texts:
                text = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
                yield f"texts/{run}.json", text.encode()
        for each in collections:
            data = json.dumps(each.to_json(), ensure_ascii=False, separators=(",", ":"))
            yield f"collections/{each.id}.json", data.encode()
        for search in searches:
            yield f"searches/{search.id}.json", search.model_dump_json().encode()

    def _over(self, runs: Iterable[str]) -> Iterator[str]:
        """Those that are stored and over: what a collection names may be deleted, or at work."""
        for run in runs:
            status = self._store.status(run)
            if status is not None and status.is_over:
                yield run

    def take_examples(self) -> tuple[str, ...]:
        """Import the results that came with the program into a data folder; their ids. Never twice:
        who deletes them has done with them.
        """
        name = examples.ARCHIVE.name
        if not self._settings.examples or not self._store.wants_examples(name):
            return ()
        with examples.ARCHIVE.open("rb") as file:
            return self.import_file(file, name).imported

    def import_file(
        self, file: IO[bytes], name: str = "the archive", asker: Asker = COMMAND_LINE
    ) -> Imported:
        """Import the runs of an archive as foreign ones, all in one transaction.

        RequestError, and nothing written, where the archive is bad or `asker` may not import;
        StorageError, and nothing written, where the disk is full.
        """
        check_may_act(self._settings, asker)
        archive = container.Archive(archive_of(file, name), name)
        here = self._store.present(archive.manifest.ids())
        present: list[str] = []
        refused: list[Refused] = []
        incoming: list[tuple[Incoming, str]] = []
        for run, data, texts in archive.members():
            try:
                read = read_run(run, data)
                packed = _packed(run, texts)
            except RequestError as error:
                refused.append(Refused(run, str(error)))
                continue
            if run not in here:
                origin = read.origin or archive.manifest.installation
                incoming.append((_incoming(read, packed), origin))
            elif here[run] == (read.experiment.id, read.submitted_at):
                present.append(run)
            else:
                refused.append(Refused(run, f"run {run} is another run here: rename neither"))
        mark = archive.manifest.installation
        collections = _taken(archive.each("collections"), read_collection, mark, refused)
        searches = _taken(archive.each("searches"), read_search, mark, refused)
        searches = [each for each in searches if not self._is_own(each, present)]
        pages_bytes = sum(len(str(each)) for each in (*collections, *searches))
        self._check_room(asker, pages_bytes + sum(each.size_bytes for each, _ in incoming))
        stored = self._store.import_runs(incoming, collections, searches)
        self._allow(asker, "import", Path(name).name[:100])  # notes what was done
        pages = (each.id for each in (*collections, *searches))
        names = (*(each.run for each, _ in incoming), *pages)
        present += [name for name in names if name not in set(stored)]
        return Imported(stored, tuple(present), tuple(refused))

    def _is_own(self, kept: KeptSearch, present: list[str]) -> bool:
        """Whether a search of an archive is of this data folder, and is then added to `present`."""
        own = kept.origin == self._store.installation() and any(
            each.digest == kept.digest for each in self._store.kept_searches(kept.search)
        )
        present += [kept.search] * own
        return own

    def _check_room(self, asker: Asker, size: int) -> None:
        """RequestError where a viewer's import would pass what this server stores."""
        if asker.viewer is None:
            return
        free = self._settings.stored_most_bytes - self._store.used_bytes()
        if size > free:
            raise refuse(
                f"an import of {bytes_text(size)}",
                f"is more than this server has room for ({bytes_text(max(0, free))})",
                "delete runs on History, or import fewer",
            )


def _taken(
    members: Iterable[tuple[str, bytes]],
    read: Callable[[str, bytes, str], T],
    installation: str,
    refused: list[Refused],
) -> list[T]:
    """What members hold; those that cannot be taken are added to `refused`."""
    taken = []
    for name, data in members:
        try:
            taken.append(read(name, data, installation))
        except RequestError as error:
            refused.append(Refused(name, str(error)))
    return taken


def _packed(run: str, texts: bytes | None) -> tuple[tuple[str, str, bytes], ...]:
    return tuple(
        (strategy, name, zlib.compress(text.encode(errors="replace")))
        for strategy, named in (read_texts(run, texts) if texts else {}).items()
        for name, text in named.items()
    )


def _incoming(read: ArchivedRun, texts: tuple[tuple[str, str, bytes], ...]) -> Incoming:
    """A run as rows. What it is by is made here of what it holds: ids, lane, medians."""
    experiment, result = read.experiment, read.result
    columns = {
        "state": read.state,
        "submitted_at": read.submitted_at,
        "started_at": read.started_at,
        "finished_at": read.finished_at,
        "stderr_tail": read.stderr_tail,
        "batch": read.batch,
        "compile_only": int(read.compile_only),
        "owner_name": read.owner_name,
        "lane": lane_of_target(experiment.target, read.compile_only),
        **columns_at_end(result, read.error),
    }
    return Incoming(
        read.run,
        experiment,
        columns,
        read.labels.labels(),
        result and result_body(result),  # pyrefly: ignore[bad-argument-type]
        texts,
    )

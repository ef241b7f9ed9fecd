"""One run of an archive as a value, and as JSON; an archive inside of a page."""

import io
import json
import time
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from typing import IO, Any, Literal

import numpy as np
from pydantic import ValidationError

from spmd_core.advice import in_words
from spmd_core.base import Frozen, bytes_text, refuse, shorten
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.fields import load_json
from spmd_core.results import Failure, Result, csv_text, json_text
from spmd_core.runs import (
    COLLECTION_ID,
    Collection,
    CollectionItem,
    Labels,
    Origin,
    checked_name,
    checked_note,
    checked_tags,
    checked_title,
)
from spmd_core.search import KeptSearch, read_kept
from spmd_core.terms import experiment_words
from spmd_core.words import run_headline

MOST_BYTES = 24 * 2**20  # of an archive that a page carries
_MOST_PAGE_BYTES = 2 * MOST_BYTES  # with its block, which is a third longer than the archive
_BEGIN, _END = b"<!--spmd-lab-archive:", b"-->"


def with_archive(page: str, archive: bytes) -> str:
    """Returns a page of HTML that carries an archive and shows the same as before. RequestError
    where the archive is too large.
    """
    if len(archive) > MOST_BYTES:
        rule = f"is more than a page carries ({bytes_text(MOST_BYTES)})"
        raise refuse(f"an archive of {bytes_text(len(archive))}", rule, "send the archive itself")
    return f"{page}{_BEGIN.decode()}{b64encode(archive).decode()}{_END.decode()}\n"


def archive_of(file: IO[bytes], name: str) -> IO[bytes]:
    """Returns the archive that a file is, or that it carries at its end. Nothing is parsed: the
    block is what follows the last marker. RequestError where that is no base64 or too long.
    """
    page = file.read(_MOST_PAGE_BYTES + 1)
    at = page.rfind(_BEGIN)
    if page.startswith(b"PK") or at < 0 or len(page) > _MOST_PAGE_BYTES:
        file.seek(0)
        return file
    block, closed, _ = page[at + len(_BEGIN) :].partition(_END)
    try:
        archive = b64decode(block, validate=True)
    except (Error, ValueError):
        archive = b""
    if not closed or not archive or len(archive) > MOST_BYTES:
        fix = "save the page again, and transfer the file unchanged"
        raise refuse(f"page {shorten(name)}", "carries an archive that is damaged", fix)
    return io.BytesIO(archive)


Over = Literal["succeeded", "failed", "cancelled", "timed_out", "crashed", "interrupted"]
_LAST_MOMENT_S = 2.0**33  # in the year 2242
_MOST_TAIL = 2**16  # characters of what a worker wrote before it ended
# a foreign result must not cost a screen later: whatever its sentences and tables raise, it is
# refused here
_UNSHOWN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Added(Frozen):
    """What people added to the run."""

    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False

    def labels(self) -> Labels:
        """As it is stored; RequestError where a text is too long."""
        tags = checked_tags(self.tags)
        return Labels(checked_name(self.name), checked_note(self.note), tags, self.pinned)


class ArchivedRun(Frozen):
    """A run that is over, without its program texts. Moments are in seconds since the epoch."""

    run: str
    experiment: Experiment
    state: Over
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    error: Failure | None = None
    stderr_tail: str | None = None
    batch: str | None = None
    compile_only: bool = False
    owner_name: str | None = None
    origin: str | None = None  # installation of a run that was foreign where it was exported
    labels: Added = Added()
    result: Result | None = None


def run_json(fields: Mapping[str, Any], result: str | None) -> bytes:
    """The JSON of a run; `result` is a JSON text already, and not parsed for this."""
    text = json.dumps(dict(fields), ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"result":{result or "null"}}}'.encode()


def read_run(run: str, data: bytes) -> ArchivedRun:
    """The run that a member holds; RequestError where this version cannot take it, with why."""
    fields = load_json(data)
    if isinstance(fields, dict) and isinstance(spec := fields.get("experiment"), dict):
        parse_experiment(spec)  # its refusals are sentences
    try:
        read = ArchivedRun.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:4])
        rule = f"cannot be read by this version ({place}: {shorten(first['msg'], 100)})"
        raise refuse(f"run {run}", rule, "import it with the version that exported it") from error
    except RecursionError as error:
        raise refuse(f"run {run}", "is nested too deep", "export it again") from error
    _check(run, read)
    return read


def _check(run: str, read: ArchivedRun) -> None:
    """RequestError where the parts of a run do not belong together, or cannot be shown."""
    result = read.result
    moments = (read.submitted_at, read.started_at or 0.0, read.finished_at or 0.0)
    if read.run != run or (
        result and (result.run, result.experiment.id) != (run, read.experiment.id)
    ):
        raise refuse(f"run {run}", "is not the run that its member is named for", "export it again")
    if not all(0 <= moment < _LAST_MOMENT_S for moment in moments):
        raise refuse(f"run {run}", "has a moment that no calendar has", "export it again")
    if len(read.stderr_tail or "") > _MOST_TAIL or len(read.owner_name or "") > 200:
        raise refuse(f"run {run}", "has a text that is too long", "export it again")
    read.labels.labels()
    try:  # NumPy, which otherwise warns and goes on, refuses times that no clock measures
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            _show(read)
    except _UNSHOWN as error:
        rule = f"has a result that cannot be shown ({shorten(str(error), 60)})"
        raise refuse(f"run {run}", rule, "export it again") from error


def _show(read: ArchivedRun) -> None:
    experiment_words(read.experiment)
    if read.result:
        shown = in_words(read.result)
        run_headline(shown)
        csv_text(shown)
        json_text(shown)


class _ArchivedItem(Frozen):
    id: str
    kind: Literal["text", "run", "search"]
    text: str
    about: str = ""


class _ArchivedCollection(Frozen):
    collection: str
    title: str
    owner_name: str = ""
    created_at: float
    updated_at: float
    origin: str | None = None
    items: tuple[_ArchivedItem, ...] = ()


def read_collection(collection: str, data: bytes, installation: str) -> Collection:
    """The collection that a member holds, as a foreign one; RequestError where it is none."""
    try:
        read = _ArchivedCollection.model_validate(load_json(data))
    except (ValidationError, RecursionError) as error:
        rule = "cannot be read by this version"
        fix = "import it with the version that exported it"
        raise refuse(f"collection {shorten(collection)}", rule, fix) from error
    moments = (read.created_at, read.updated_at)
    items = tuple(CollectionItem(**each.model_dump()).checked() for each in read.items)
    if (
        read.collection != collection
        or not COLLECTION_ID.fullmatch(collection)
        or not all(0 <= moment < _LAST_MOMENT_S for moment in moments)
        or len(read.owner_name) > 200
        or len({each.id for each in items}) < len(items)
    ):
        rule = "is not the collection that its member is named for"
        raise refuse(f"collection {shorten(collection)}", rule, "export it again")
    origin = Origin(read.origin or installation, time.time())
    empty = Collection(collection, checked_title(read.title), (), read.owner_name, *moments, origin)
    return empty.with_items(items)


def read_search(search: str, data: bytes, installation: str) -> KeptSearch:
    """The search that a member holds, as a foreign one; RequestError where it is none."""
    read = read_kept(data, f"search {search}")
    if read.id != search:
        rule = "is not the search that its member is named for"
        raise refuse(f"search {search}", rule, "export it again")
    return read.model_copy(update={"origin": read.origin or installation})


def read_texts(run: str, data: bytes) -> dict[str, dict[str, str]]:
    """Program texts by strategy and name; RequestError where they are none."""
    texts = load_json(data)
    strategies = texts.values() if isinstance(texts, dict) else [None]
    if not all(
        isinstance(named, dict) and all(isinstance(text, str) for text in named.values())
        for named in strategies
    ):
        raise refuse(f"run {run}", "has program texts that are none", "export it again")
    return texts

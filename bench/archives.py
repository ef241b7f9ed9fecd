"""Archives: export and import of many runs, what is equal after a round trip, and archives that are
doctored in 200 ways: `python -m bench.archives [RUNS]`.
"""

import io
import json
import random
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from bench.values import result, strategy
from spmd_core.base import LabError
from spmd_core.lab import Lab, Searches, container
from spmd_core.reports import (
    Subject,
    html_text,
    markdown_text,
    report_document,
    search_document,
)
from spmd_core.results import Result
from spmd_core.search import read_question
from spmd_core.trials import Search

RUNS, DOCTORED = 1000, 200
FOREIGN = (
    "<script>alert(1)</script>",
    "![p](http://evil.example/x.png)",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    "javascript:alert(1)",
    '"><img src=x onerror=alert(1)>',
    "'); DROP TABLE runs; --",
    "{{7*7}}",
)
Change = Callable[[dict[str, bytes], random.Random], dict[str, bytes]]


def filled(folder: Path, count: int) -> Lab:
    """A data folder with so many runs, each with its texts."""
    lab = Lab.open(folder, serve=False)
    store = lab._store
    for number in range(count):
        run = f"run-{number:05}"
        timed = {"auto": strategy(1e-5 * (1 + number / count)), "single": strategy(2e-5)}
        found = result(timed, run=run)
        store.submit(run, found.experiment)
        store.start(run)
        texts = {"auto": {"hlo": f"HloModule m{number}\n" * 50}}
        store.finish(run, "succeeded", result=found, texts=texts)
    return lab


def members(data: bytes) -> dict[str, bytes]:
    """Every member of an archive by its name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def signed(changed: dict[str, bytes]) -> bytes:
    """An archive of these members, with a manifest that fits them."""
    file = io.BytesIO()
    kept = ((name, data) for name, data in changed.items() if name != container.MANIFEST)
    container.write(file, "elsewhere", 1.0, kept)
    return file.getvalue()


def zipped(changed: dict[str, bytes]) -> bytes:
    """A zip of these members as they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in changed.items():
            archive.writestr(name, data)
    return file.getvalue()


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Path and value of every leaf of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        if isinstance(each, dict | list) and each:
            yield from leaves(each, (*path, key))
        else:
            yield (*path, key), each


def with_leaf(fields: Any, path: tuple, value: Any) -> Any:
    """A JSON value with another leaf."""
    copy = json.loads(json.dumps(fields))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def doctored(data: bytes, count: int, folder: str = "runs") -> Iterator[tuple[str, bytes]]:
    """Archives that are damaged, swollen, renamed, or whose texts are hostile, in their first member
    of a folder.
    """
    generator, whole = random.Random(0), members(data)
    run = next(name for name in whole if name.startswith(f"{folder}/"))
    fields = json.loads(whole[run])
    places = [path for path, _ in leaves(fields)]
    texts = [path for path, value in leaves(fields) if isinstance(value, str)]
    odd = [None, -1, 1e308, [], {}, "x" * 100_000, True, 2**70, [[[[]]]]]
    for number in range(count):
        kind = number % 8
        if kind == 0:
            at = generator.randrange(len(data))
            yield "a byte is another", data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        elif kind == 1:
            yield "cut short", data[: generator.randrange(len(data))]
        elif kind == 2:
            name = generator.choice(["../../a", "/etc/passwd", "runs/../a.json", "runs/a b.json"])
            yield f"a member {name}", zipped(whole | {name: b"{}"})
        elif kind == 3:
            size = generator.choice([20, 80]) * 2**20
            yield "a bomb", zipped(whole | {run: whole[run] + b" " * size})
        elif kind == 4:
            path, value = generator.choice(texts), generator.choice(FOREIGN)
            changed = json.dumps(with_leaf(fields, path, value)).encode()
            yield f"{path} is {value}", signed(whole | {run: changed})
        elif kind == 5:
            path, value = generator.choice(places), generator.choice(odd)
            changed = json.dumps(with_leaf(fields, path, value)).encode()
            yield f"{path} is {str(value)[:20]}", signed(whole | {run: changed})
        elif kind == 6:
            added = {name: generator.choice(FOREIGN) for name in ("name", "note")}
            labels = added | {"tags": ["<b>"], "pinned": True}
            changed = json.dumps(fields | {"labels": labels, "owner_name": FOREIGN[0]}).encode()
            yield "hostile labels", signed(whole | {run: changed})
        else:
            manifest = json.loads(whole[container.MANIFEST]) | generator.choice(
                [{"schema": 99}, {"schema": "1"}, {"sha256": {}}, {"format": 1}, {"more": 1},
                 {"installation": FOREIGN[0]}, {"exported_at": None}]
            )  # fmt: skip
            changed = json.dumps(manifest).encode()
            yield "another manifest", zipped(whole | {container.MANIFEST: changed})


def harm(lab: Lab, archive: bytes) -> str | None:
    """What a doctored archive does that it may not; None where it is refused or held harmless."""
    before = {each.run for each in lab.history(limit=100_000)}
    try:
        taken = lab.archives.import_file(io.BytesIO(archive))
    except LabError as error:
        after = {each.run for each in lab.history(limit=100_000)}
        long = "a sentence of more than a line" if len(str(error)) > 400 else None
        return "written though refused" if after != before else long
    stored = {each.run: each for each in lab.history(limit=100_000)}
    runs = [run for run in taken.imported if run in stored]
    for search in set(taken.imported) - set(runs):
        kept = lab.searches.find(search)
        if kept.origin is None or lab.searches.has(kept.search):
            return "a foreign search that is not marked"
        text = html_text(search_document(kept, {})) + markdown_text(search_document(kept, {}))
        if "<script" in text or "<img" in text or "\u202e" in text:
            return "markup of a foreign text"
        lab.searches.delete(search)
    for run in runs:
        if stored[run].origin is None or lab.latest(stored[run].experiment) == run:
            return "a foreign run that is not marked"
        document = report_document([Subject(stored[run], lab.result(run))])
        text = html_text(document) + markdown_text(document)
        if "<script" in text or "<img" in text or "\u202e" in text:
            return "markup of a foreign text"
    lab.delete(runs)
    return None


def main(options: Asked, figures: Figures) -> None:
    count = options.runs
    with tempfile.TemporaryDirectory() as folder:
        there, here = (
            filled(Path(folder) / "there", count),
            Lab.open(Path(folder) / "here", serve=False),
        )
        file, began = io.BytesIO(), time.perf_counter()
        there.archives.export(there.archives.every(), file)
        figures.add(f"export {count:,} runs", time.perf_counter() - began, "s", most=10)
        began = time.perf_counter()
        here.archives.import_file(io.BytesIO(file.getvalue()))
        figures.add(f"import {count:,} runs", time.perf_counter() - began, "s", most=20)
        figures.add("runs that differ after it", differing(there, here), most=0)
        small = io.BytesIO()
        there.archives.export(there.archives.every()[:2], small)
        empty = Lab.open(Path(folder) / "empty", serve=False)
        searched = io.BytesIO()
        there.archives.export([search(there)], searched)
        for file, folder_in, noun in (
            (small, "runs", "archives"),
            (searched, "searches", "searches"),
        ):
            harmful = [
                (what, found)
                for what, archive in doctored(file.getvalue(), DOCTORED, folder_in)
                if (found := harm(empty, archive))
            ]
            for what, found in harmful[:10]:
                print(f"  {what}: {found}")
            figures.add(f"doctored {noun} of {DOCTORED} that do harm", len(harmful), most=0)


def search(lab: Lab) -> str:
    """The id of a search of a small model, carried out here by its estimates."""
    asked = {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["full"]}
    return Search(lab, Searches(lab.folder), read_question(asked), None).run().question.id


def differing(there: Lab, here: Lab) -> int:
    """Runs whose result, texts or experiment are not the same in two data folders."""
    runs = there.archives.every()
    return sum(_stored(there, run) != _stored(here, run) for run in runs)


def _stored(lab: Lab, run: str) -> tuple[Result | None, dict, object]:
    return lab.facts(run), lab.every_text(run), lab.status(run).finished_at


if __name__ == "__main__":
    measure(main, __doc__, runs={"place": True, "type": int, "nargs": "?", "default": RUNS})

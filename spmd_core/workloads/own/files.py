"""The user's own workloads: files named in SPMD_LAB_WORKLOADS, loaded by a child process that
describes them; no code of theirs runs here.
"""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from spmd_core.base import (
    RequestError,
    default_data_folder,
    held_folder,
    own_path,
    plugins,
    refuse,
)
from spmd_core.machine import added_targets
from spmd_core.plan import added_models
from spmd_core.workloads.own.description import Description, describe
from spmd_core.workloads.workload import Workload

VARIABLE = "SPMD_LAB_WORKLOADS"
HASH_DIGITS = 16
SHOWN_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file as a child process described it: its workloads by name, or a sentence why there are
    none.
    """

    path: Path
    source: str = ""  # hash of its text
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    problem: str | None = None
    is_late: bool = False  # it is still being loaded


_guard = threading.Lock()
# by path, time of the last change, and size
_loading: dict[tuple[Path, int, int], Future[Loaded]] = {}
_kept: dict[str, tuple[str, dict[str, Workload]]] = {}  # hash -> text and workloads


def paths() -> tuple[Path, ...]:
    """The files named in the environment of this process, and those of installed packages."""
    named = (
        own_path(VARIABLE, part).absolute()
        for part in os.environ.get(VARIABLE, "").split(os.pathsep)
        if part
    )
    return (*named, *_of_packages()[0].values())


@cache
def _of_packages() -> tuple[Mapping[str, Path], tuple[str, ...]]:
    """The files of the modules that packages name; no code of theirs runs for this."""

    def read(each: EntryPoint) -> Path:
        top, *inner = each.module.split(".")
        spec = find_spec(top)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        files = [Path(folder, *inner).with_suffix(".py") for folder in folders if inner]
        files += [Path(spec.origin)] if spec and spec.origin and not inner else []
        for file in files:
            if file.is_file():
                return file.absolute()
        raise refuse(f"module {each.module}", "has no file", "install the package again")

    return plugins("workload", read)


def fingerprint() -> str:
    """A hash of the files' texts, which hosts of a run compare; empty where no file is named."""
    texts = list[bytes]()
    for path in paths():
        try:
            texts.append(path.read_bytes())
        except OSError as error:
            texts.append(str(error).encode())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:SHOWN_DIGITS] if texts else ""


def workloads(wait_s: float | None = None) -> dict[str, Workload]:
    """Workloads of the files as they are now, by name; those of a file that takes longer than
    `wait_s` to load come later.
    """
    workloads_by_name: dict[str, Workload] = {}
    for loaded in _files(wait_s):
        workloads_by_name = {**loaded.workloads, **workloads_by_name}
    return workloads_by_name


def problems(wait_s: float | None = None) -> tuple[str, ...]:
    """A sentence for each file that could not be loaded; those of a file that takes longer than
    `wait_s` come later.
    """
    files = _files(wait_s)
    sentences = [loaded.problem for loaded in files if loaded.problem]
    sentences += [*_of_packages()[1], *added_models()[1], *added_targets()[1]]
    names = [name for loaded in files for name in loaded.workloads]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    sentences += [
        f"workload {name} is declared by two files of {VARIABLE}: the first one counts"
        for name in twice
    ]
    return tuple(sentences)


def late(wait_s: float) -> tuple[str, ...]:
    """The names of the files that take longer than this to load."""
    return tuple(loaded.path.name for loaded in _files(wait_s) if loaded.is_late)


def find(name: str, source: str | None) -> Workload | None:
    """The workload of that name: of the file with that hash, where one is given, even if the file
    has changed since.
    """
    if source is None:
        return workloads().get(name)
    known = _kept.get(source) or _read_kept(source)
    return known[1].get(name) if known else None


def why_missing(name: str, source: str | None) -> str:
    """The end of the sentence for an unknown workload, which may be one of the user's own."""
    if source is not None:
        return f" here in the version {source} of its file, which is to be named in {VARIABLE}"
    sentences = problems()
    return f" ({'; '.join(sentences)})" if sentences else ""


def newer(workload: Workload, wait_s: float | None = None) -> Workload | None:
    """The workload as its file declares it now, where that is another version of the file."""
    if workload.source is None:
        return None
    now = workloads(wait_s).get(workload.name)
    return None if now is None or now.source == workload.source else now


def version_words(source: str) -> str:
    """A version of a file, short enough to be read out."""
    return f"version {source[:SHOWN_DIGITS]} of its file"


def check_present(workload: Workload) -> None:
    """RequestError where no file declares a workload of the user's own any longer, or declares it
    otherwise since it was described.
    """
    if workload.source is None:
        return
    if workload.name not in workloads():
        reasons = "; ".join(problems())
        raise refuse(
            f"workload {workload.name}",
            f"is declared by no file of {VARIABLE}{f' ({reasons})' if reasons else ''}",
            "correct its file, or name it there when the server is started",
        )
    if newer(workload):
        raise refuse(
            f"workload {workload.name}",
            f"was declared by another version of its file ({workload.source})",
            "leave source out of its options, so that the version of now is run",
        )


def source_text(source: str) -> str:
    """The text of the file with that hash; RequestError where it is not kept here."""
    known = _kept.get(source) or _read_kept(source)
    if known is None:
        raise refuse(f"file version {source}", "is not kept here", f"name the file in {VARIABLE}")
    return known[0]


def _files(wait_s: float | None) -> list[Loaded]:
    started = [(path, _start(path)) for path in paths()]
    files = []
    for path, loading in started:
        try:
            files.append(loading.result(wait_s))
        except TimeoutError:
            files.append(Loaded(path, is_late=True))
    return files


def _start(path: Path) -> Future[Loaded]:
    """Load a file in a thread, unless its current version is loaded or being loaded."""
    try:
        stat = path.stat()
        version = (path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        version = (path, 0, 0)
    with _guard:
        loading = _loading.get(version)
        if loading is None:
            loading = _loading[version] = Future()
            threading.Thread(
                target=_load, args=(path, loading), name="own workloads", daemon=True
            ).start()
    return loading


def _load(path: Path, loading: "Future[Loaded]") -> None:
    try:
        text = path.read_text("utf-8")
        source = hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
        described = describe(path, text)
        kept = {description.name: description.workload(source) for description in described}
        _kept[source] = (text, kept)
        _keep(source, text, described)
        loading.set_result(Loaded(path, source, kept))
    except RequestError as error:
        loading.set_result(Loaded(path, problem=str(error)))
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        loading.set_result(Loaded(path, problem=f"{path} of {VARIABLE} cannot be read: {words}"))
    except BaseException as error:
        loading.set_exception(error)  # waiting threads get the error instead of blocking
        raise


# Kept by hash, so that stored runs stay readable after the file has changed, and a worker knows
# them without loading the file ----------


def _folder() -> Path:
    return default_data_folder() / "workloads"


def _keep(source: str, text: str, described: tuple[Description, ...]) -> None:
    folder = _folder()
    held_folder.make(folder)
    body = json.dumps(
        {
            "text": text,
            "workloads": [description.model_dump(mode="json") for description in described],
        }
    )
    new = folder / f".{source}.{os.getpid()}.{threading.get_ident()}"
    new.write_text(body, "utf-8")
    new.replace(folder / f"{source}.json")


def _read_kept(source: str) -> tuple[str, dict[str, Workload]] | None:
    path = _folder() / f"{source}.json"
    if not (source.isalnum() and path.exists()):
        return None
    body = json.loads(path.read_text("utf-8"))
    described = [Description.model_validate(part) for part in body["workloads"]]
    _kept[source] = (
        body["text"],
        {description.name: description.workload(source) for description in described},
    )
    return _kept[source]

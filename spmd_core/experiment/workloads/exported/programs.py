"""The programs that a data folder holds, each by the hash of the file that was taken."""

import hashlib
import os
import re
import threading
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from spmd_core.base import RequestError, ask_child, default_data_folder, refuse, shorten
from spmd_core.experiment.workloads.exported.description import Described

MOST_BYTES = 64 * 2**20  # of one file
MOST_BYTES_HELD = 2 * 2**30  # of all files of a data folder
MOST_HELD = 200
MOST_OF_VIEWER = 20
MOST_NAME = 100
PARSE_S = 60.0
PARSE_BYTES = 4 * 2**30  # of memory that the parser may hold
HOW = "docs/your_program.md shows the lines that write one"
_PARSER = "spmd_core.engine.exported.describe"
_HASH = re.compile(r"[0-9a-f]{64}")
_taking = threading.Lock()


def take(data: bytes, name: str = "", viewer: str = "") -> Described:
    """Hold a program that somebody gives, and describe it; `viewer` is who, where they have limits.
    RequestError, in one sentence, where it is none, is too large, or needs what is not allowed;
    nothing is held then.
    """
    if len(data) > MOST_BYTES:
        raise refuse(
            f"a program of {len(data)} bytes",
            f"is larger than {MOST_BYTES}",
            "pass large arrays as arguments, so that they are no constants of the program",
        )
    program = hashlib.sha256(data).hexdigest()
    name = " ".join(name.split())[:MOST_NAME] or program[:12]
    with _taking:
        described = _described(program)
        if described is None or not _path(program, "jaxexport").exists():
            _check_room(len(data), viewer)
            described = _parse(program, data).model_copy(update={"viewer": viewer})
        described = described.model_copy(update={"name": name})
        _write(_path(program, "json"), described.model_dump_json().encode())
    return described


def find(program: str) -> Described:
    """The program of that hash, also one that was deleted: its runs are read by its description.
    RequestError where this data folder never held it.
    """
    if not _HASH.fullmatch(program):
        raise refuse(f"program {shorten(program)}", "is no sha256 of a file", "name 64 hex digits")
    if (described := _described(program)) is None:
        raise _not_held(program)
    return described


def check_held(program: str) -> None:
    """RequestError where the file of a program is not here, so that nothing can be compiled of it."""
    if not _path(find(program).program, "jaxexport").exists():
        raise _not_held(program)


def _not_held(program: str) -> RequestError:
    return refuse(
        f"program {program[:12]}…",
        "is not held here",
        "take its file: drop it on Programs, or run `python -m spmd_core program FILE`",
    )


def held() -> tuple[Described, ...]:
    """Every program that is held, the one taken last first."""
    files = [_path(file.stem, "json") for file in folder().glob("*.jaxexport")]
    files = sorted(filter(Path.exists, files), key=lambda file: -file.stat().st_mtime)
    return tuple(each for file in files if (each := _described(file.stem)))


def delete(program: str) -> None:
    """Let go of a program's file; its description stays, by which its runs are read."""
    check_held(program)
    _path(program, "jaxexport").unlink(missing_ok=True)


def artifact(program: str) -> bytes:
    """The file that is held: that which was taken, with short source paths."""
    check_held(program)
    return _path(program, "jaxexport").read_bytes()


def folder() -> Path:
    """Where programs are held."""
    return default_data_folder() / "programs"


def _path(program: str, kind: str) -> Path:
    return folder() / f"{program}.{kind}"


def _check_room(size: int, viewer: str) -> None:
    if viewer and sum(each.viewer == viewer for each in held()) >= MOST_OF_VIEWER:
        raise refuse(f"{MOST_OF_VIEWER} programs of yours", "are held already", "delete some first")
    files = list(folder().glob("*.jaxexport"))
    if len(files) >= MOST_HELD:
        raise refuse(f"{len(files)} programs", "are held already", "delete some first")
    if sum(file.stat().st_size for file in files) + size > MOST_BYTES_HELD:
        raise refuse(
            f"{size} bytes", f"exceed the {MOST_BYTES_HELD} that programs may take", "delete some"
        )


def _parse(program: str, data: bytes) -> Described:
    environ = {"PATH": os.environ.get("PATH", ""), "JAX_PLATFORMS": "cpu"}
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder()) as work:
        given, kept = Path(work) / "given", Path(work) / "kept"
        given.write_bytes(data)
        answer = ask_child(_PARSER, [str(given), str(kept)], environ, PARSE_S, PARSE_BYTES)
        if answer.stopped or not answer.text:
            limit = f"{PARSE_S:g} s" if answer.stopped == "time" else f"{PARSE_BYTES} bytes"
            rule = (
                f"takes more than {limit} to be read"
                if answer.stopped
                else "ends the process that reads it, so it is damaged"
            )
            raise refuse("this file", rule, HOW)
        if answer.text.startswith("!"):
            raise RequestError(answer.text[1:])
        described = Described.model_validate_json(answer.text).model_copy(
            update={"program": program, "bytes": len(data)}
        )
        _write(_path(program, "jaxexport"), kept.read_bytes())
    return described


def _write(path: Path, data: bytes) -> None:
    new = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    new.write_bytes(data)
    new.replace(path)


@lru_cache(maxsize=32)
def _read(path: Path, changed_ns: int) -> Described:
    return Described.model_validate_json(path.read_bytes())


def _described(program: str) -> Described | None:
    path = _path(program, "json")
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (FileNotFoundError, ValidationError):  # described by another version: take it again
        return None

"""The programs that a data folder holds, each by the hash of the file that was taken."""

import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from spmd_core.base import (
    MOST_OUTPUT_BYTES,
    RequestError,
    Spare,
    StorageError,
    default_data_folder,
    held_folder,
    refuse,
    shorten,
)
from spmd_core.workloads.exported.description import Described, Listed

MOST_BYTES = 64 * 2**20  # of one file
MOST_BYTES_HELD = 2 * 2**30  # of all files of a data folder
MOST_HELD = 200
MOST_OF_VIEWER = 20
MOST_OF_ADDRESS = 60  # of all viewers of one network address: each may call itself another
MOST_NAME = 100
PARSE_S = 60.0  # of a core: a busy machine refuses no good program
LEFT_S = 3600.0  # after which what a process that was killed has left behind is cleared away
PARSE_BYTES = 4 * 2**30  # of memory that the parser may hold
GPUS = ("cuda", "rocm")  # as a file calls them
HOW = (
    "write the bytes of `jax.export.export(jax.jit(step))(*args).serialize()`, or let "
    '`spmd_lab.explain(step)(…).save("step.jaxexport")` do it'
)
_DELETE = "delete some on Programs, under Open your step"
_HASH = re.compile(r"[0-9a-f]{64}")
_READING = "reading-"
_KINDS = (".json", ".jaxexport", ".listed", ".sources")
_taking = threading.Lock()
_parser = Spare(
    "spmd_core.engine.exported.describe",
    {"PATH": os.environ.get("PATH", ""), "JAX_PLATFORMS": "cpu"},
)


def prepare() -> None:
    """Have a parser ready for the next program: about 170 MB, for as long as a spare waits."""
    _parser.prepare()


@contextmanager
def lent(data: bytes, name: str) -> Iterator[Described]:
    """Holds a program while something is computed of it, beyond the limits on what is held; nothing
    is left of one that was not held before, and that no other process took since.
    """
    program = hashlib.sha256(data).hexdigest()
    is_held = _path(program, "jaxexport").exists()
    described = take(data, find(program).name if is_held else name, has_limit=False)
    taken_ns = _path(program, "json").stat().st_mtime_ns
    try:
        yield described
    finally:
        with suppress(FileNotFoundError):  # deleted meanwhile
            if not is_held and _path(program, "json").stat().st_mtime_ns == taken_ns:
                for kind in _KINDS:
                    _path(program, kind[1:]).unlink(missing_ok=True)


def take(
    data: bytes, name: str = "", viewer: str = "", address: str = "", has_limit: bool = True
) -> Described:
    """Hold a program that somebody gives, and describe it; `viewer` is who, where they have limits,
    and `address` from where. RequestError, in one sentence, where it is none, is too large, or
    needs what is not allowed; nothing is held then. StorageError where the folder cannot hold it.
    One that another viewer handed in keeps the name that it has.
    """
    if not data:
        raise refuse("this file", "is empty", HOW)
    if len(data) > MOST_BYTES:
        raise refuse(
            f"a program of {len(data)} bytes",
            f"is larger than {MOST_BYTES}",
            "pass large arrays as arguments, so that they are no constants of the program",
        )
    program = hashlib.sha256(data).hexdigest()
    name = " ".join(name.split())[:MOST_NAME] or program[:12]
    with _taking, _in_folder():
        described = _described(program)
        if described is None or not _path(program, "jaxexport").exists():
            _clear_left()
            if has_limit:
                _check_room(len(data), viewer, address)
            given = {"viewer": viewer, "address": address, "name": name}
            described = _parse(program, data).model_copy(update=given)
        elif described.named_axes is None:
            held = described.model_dump(
                include={"viewer", "address", "name"}
            )  # by an older version
            described = _parse(program, data).model_copy(update=held)
        if viewer in ("", described.viewer):
            described = described.model_copy(update={"name": name})
        _write(_path(program, "json"), described.model_dump_json().encode())
        _write(_path(program, "listed"), described.listed.model_dump_json().encode())
    return described


def hold(described: Described, data: bytes) -> None:
    """Hold a program of this process's own: one that is described already."""
    held_folder.make(folder())
    _write(_path(described.program, "jaxexport"), data)
    _write(_path(described.program, "json"), described.model_dump_json().encode())


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


def check_platform(described: Described, platform: str) -> None:
    """RequestError where a program was not exported for `tpu`, `gpu` or `cpu`."""
    if not {platform, *(GPUS if platform == "gpu" else ())} & set(described.platforms):
        name = GPUS[0] if platform == "gpu" else platform
        raise refuse(
            f"platform {name}",
            f"is none that this program was exported for ({', '.join(described.platforms)})",
            f'export it with platforms=["{name}", …]',
        )


def _not_held(program: str) -> RequestError:
    return refuse(
        f"program {program[:12]}…",
        "is not held here",
        "take its file: drop it on Programs, or run `python -m spmd_core program FILE`",
    )


def held() -> tuple[Listed, ...]:
    """Every program that is held, the one taken last first."""
    files = [file.stem for file in folder().glob("*.jaxexport")]
    listed = [(_changed_ns(_path(each, "json")), _listed(each)) for each in files]
    listed.sort(key=lambda each: each[0], reverse=True)
    return tuple(each for _, each in listed if each)


def taken_at(program: str) -> float | None:
    """Returns when a program was taken last, in seconds of the clock; None where it is not held."""
    changed_ns = _changed_ns(_path(program, "json"))
    return changed_ns / 1e9 if changed_ns else None


def delete(program: str) -> None:
    """Let go of a program's file; its description stays, by which its runs are read."""
    check_held(program)
    with _in_folder():
        for kind in ("jaxexport", "sources"):
            _path(program, kind).unlink(missing_ok=True)


def artifact(program: str) -> bytes:
    """The file that is held: that which was taken, with short source paths."""
    check_held(program)
    try:
        return _path(program, "jaxexport").read_bytes()
    except OSError:  # another process has just let go of it
        raise _not_held(program) from None


def folder() -> Path:
    """Where programs are held."""
    return default_data_folder() / "programs"


def _path(program: str, kind: str) -> Path:
    return folder() / f"{program}.{kind}"


@contextmanager
def _in_folder() -> Iterator[None]:
    """Has a folder that is full, not ours or in pieces end in a sentence."""
    held_folder.check(folder().parent)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f"programs in {folder()} cannot be held ({reason}): free space there, or correct "
            "SPMD_LAB_DATA"
        ) from error


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # another process has just let go of it
        return 0


def _clear_left() -> None:
    """Clear away what a process left behind that was killed while it took a program: it would take
    room that nobody can free.
    """
    for path in list(folder().glob("*")):
        if time.time() - 1e-9 * _changed_ns(path) < LEFT_S:
            continue
        if path.name.startswith(_READING):
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix not in _KINDS or not path.with_suffix(".json").exists():
            with suppress(OSError):
                path.unlink()


def _check_room(size: int, viewer: str, address: str) -> None:
    others = held() if viewer else ()
    if viewer and sum(each.viewer == viewer for each in others) >= MOST_OF_VIEWER:
        raise refuse(f"{MOST_OF_VIEWER} programs of yours", "are held already", _DELETE)
    if address and sum(each.address == address for each in others) >= MOST_OF_ADDRESS:
        raise refuse(f"{MOST_OF_ADDRESS} programs from your address", "are held already", _DELETE)
    files = list(folder().glob("*.jaxexport"))
    if len(files) >= MOST_HELD:
        raise refuse(f"{len(files)} programs", "are held already", _DELETE)
    if sum(file.stat().st_size for file in files) + size > MOST_BYTES_HELD:
        raise refuse(
            f"{size} bytes", f"exceed the {MOST_BYTES_HELD} that programs may take", _DELETE
        )


def _parse(program: str, data: bytes) -> Described:
    held_folder.make(folder())
    with TemporaryDirectory(dir=folder(), prefix=_READING) as work:
        given, kept = Path(work) / "given", Path(work) / "kept"
        given.write_bytes(data)
        answer = _parser.ask((str(given), str(kept)), PARSE_S, PARSE_BYTES)
        if answer.stopped or not answer.text:
            limits = {
                "time": f"{PARSE_S:g} s of a core",
                "memory": f"{PARSE_BYTES} bytes",
                "output": f"{MOST_OUTPUT_BYTES} bytes of text",
            }
            rule = (
                f"takes more than {limits[answer.stopped]} to be read"
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
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=32)
def _read(path: Path, changed_ns: int) -> Described:
    return Described.model_validate_json(path.read_bytes())


@lru_cache(maxsize=2 * MOST_HELD)
def _read_listed(path: Path, changed_ns: int) -> Listed:
    return Listed.model_validate_json(path.read_bytes())


def _listed(program: str) -> Listed | None:
    """What a list has of a program: its description may be of megabytes, and is read only where
    another version wrote it.
    """
    path, changed_ns = _path(program, "listed"), _changed_ns(_path(program, "json"))
    with suppress(OSError, ValidationError):
        if changed_ns and (own_ns := path.stat().st_mtime_ns) >= changed_ns:
            return _read_listed(path, own_ns)
    if (described := _described(program)) is None:
        return None
    with suppress(OSError):  # of a folder that is full, or another's
        _write(path, described.listed.model_dump_json().encode())
    return described.listed


def _described(program: str) -> Described | None:
    path = _path(program, "json")
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValidationError):  # described by another version: take it again
        return None

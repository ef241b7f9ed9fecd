"""A file that a command writes beside its answer: checked before anything runs, written atomically."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from spmd_core.base import LabError, RequestError, refuse, shorten

# how the files begin that commands write, from a byte on: these may be replaced
_OURS = (
    (0, b'{"displayTimeUnit":'),
    (0, b'{\n "baseline":'),
    (0, b"<!doctype html><!-- SPMD Lab report -->"),
    (0, b"<!-- SPMD Lab report -->"),
    (30, b"runs/"),  # of the first member of an archive
    (30, b"collections/"),
    (30, b"searches/"),
    (30, b"manifest.json"),
)
FORCE = "replace a file that is there, whatever it holds"


def check_output(option: str, path: str, force: bool) -> None:
    """RequestError where a command may not write this file: it is none, a link, somebody else's
    (but with `force`), or in no folder that can be written to; and for `-`, which means standard
    output to other programs, and would be a file that few can remove.
    """
    file, what = Path(path), f"{option} {shorten(path)}"
    if path == "-":
        raise refuse(what, "names no file", "name one, for example ./answer")
    try:
        mode = _mode(file)
        if mode is not None and not stat.S_ISREG(mode):
            raise refuse(what, "is not a plain file", "name a new file")
        if mode is not None and not force and not _is_ours(file):
            raise refuse(what, "holds something else", "name a new file, or add --force")
        handle, beside = tempfile.mkstemp(prefix=".spmd-lab-", dir=file.parent)
        os.close(handle)
        os.unlink(beside)
    except (OSError, ValueError) as error:  # also a name too long, or with a NUL
        if isinstance(error, RequestError):
            raise
        raise _unwritable(what, error) from None


def write_output(option: str, path: str, content: str | Callable[[IO[bytes]], object]) -> None:
    """Write a file that was checked: beside its place first, so that it is never there in part.

    `content`: a text, or what writes bytes into an open file.
    """
    file, beside = Path(path), ""
    try:
        handle, beside = tempfile.mkstemp(prefix=".spmd-lab-", dir=file.parent)
        with os.fdopen(handle, "w+b") as out:
            out.write(content.encode()) if isinstance(content, str) else content(out)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, file)
    except LabError:
        Path(beside).unlink(missing_ok=True) if beside else None
        raise
    except OSError as error:
        Path(beside).unlink(missing_ok=True) if beside else None
        raise _unwritable(f"{option} {shorten(path)}", error) from None


def _mode(file: Path) -> int | None:
    """What kind of thing has this name, links not followed; None where nothing has it."""
    try:
        return file.lstat().st_mode
    except FileNotFoundError:
        return None


def _is_ours(file: Path) -> bool:
    with file.open("rb") as held:
        begins = held.read(max(at + len(each) for at, each in _OURS))
    return not begins or any(begins[at : at + len(each)] == each for at, each in _OURS)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _unwritable(what: str, error: Exception) -> RequestError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return refuse(what, f"cannot be written ({reason.lower()})", "name a file in another folder")

"""What others wrote, on its way in and out: files that are read without end, text that would steer
a terminal.
"""

import errno
import os
import re
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from os import PathLike
from typing import Any, BinaryIO

from spmd_core.base.errors import refuse, shorten

# Control characters, lone surrogates, and marks that turn the direction of reading
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str, keep: str = "") -> str:
    """A text with control characters, and marks that turn the direction of reading, by their
    number, but for those of `keep`.

    >>> visible("a\\u202eb")
    'a\\\\u202eb'
    """
    return _UNSEEN.sub(lambda at: at[0] if at[0] in keep else f"\\u{ord(at[0]):04x}", text)


PIPE_S = 30.0  # that a pipe is waited for: what writes to it may have to compute first
CLEAR = "\r\x1b[K"  # to the beginning of the line, and erase it


def read_file(path: str | PathLike[str], most_bytes: int, pipe_s: float = PIPE_S) -> bytes:
    """The first bytes of a file, as `open_file` opens it."""
    with open_file(path, pipe_s) as file:
        return file.read(most_bytes)


def read_named(what: str, path: str, most_bytes: int, fix: str) -> bytes:
    """The same of a file that a user names; RequestError where it cannot be read."""
    try:
        return read_file(path, most_bytes)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"cannot be read ({reason.lower()})"
        raise refuse(f"{what} {shorten(path)}", rule, fix) from None


@contextmanager
def open_file(path: str | PathLike[str], pipe_s: float = PIPE_S) -> Iterator[BinaryIO]:
    """A file to be read. OSError where it cannot be, also a pipe to which nobody writes within
    `pipe_s`; ValueError for a name that none can have.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if stat.S_ISFIFO(os.fstat(handle).st_mode):
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            if not waiting.poll(1e3 * pipe_s):
                raise OSError(errno.ETIMEDOUT, f"nobody wrote to this pipe within {pipe_s:g} s")
        os.set_blocking(handle, True)
        yield file


class _Plain:
    """A stream of text that lets nothing through to a terminal but text, and `CLEAR`."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(CLEAR.join(visible(part, "\n\t") for part in text.split(CLEAR)))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def plain_streams(out: Any, err: Any) -> Iterator[None]:
    """Standard output and error through which text of others steers no terminal."""
    with redirect_stdout(_Plain(out)), redirect_stderr(_Plain(err)):
        yield

"""Catches what the compiler writes on file descriptor 2, and passes it through."""

import fcntl
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_LOG_PREFIX = re.compile(
    r"^(?:[WEIF]\d{4} [\d:.]+\s+\d+ |\d{4}-\d\d-\d\d [\d:.]+: [WEIF] )?(?:[\w/.-]+:\d+\] )?"
)
_KNOWN = (
    (
        re.compile(r"Involuntary full rematerialization"),
        "The compiler found no efficient way from one sharding to another and replicates the "
        "array (involuntary full rematerialization)",
    ),
    (re.compile(r"Very slow compile"), "The compiler reports a very slow compile"),
    (
        re.compile(r"exceeds? .{0,40}memory", re.IGNORECASE),
        "The compiler reports a shortage of memory",
    ),
)
MAX_WARNING_CHARACTERS = 600
MOST_BYTES = 2**20  # of a log, the last of which are read: what is traced may print as well


@contextmanager
def captured() -> Iterator[list[str]]:
    """The text written on descriptor 2 meanwhile, as the one element of the list that is filled at
    the end.

    Where descriptor 2 is a regular file, it is read from there and nothing is redirected: the last
    words of a crash stay in it.
    """
    sys.stderr.flush()
    text: list[str] = []
    if (
        stat.S_ISREG(os.fstat(2).st_mode)
        and fcntl.fcntl(2, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    ):
        before = os.fstat(2).st_size
        try:
            yield text
        finally:
            sys.stderr.flush()
            size = os.fstat(2).st_size
            start = before if before <= size else 0  # its owner has truncated it
            start = max(start, size - MOST_BYTES)
            text.append(os.pread(2, size - start, start).decode(errors="replace"))
        return
    saved = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield text
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            aside.seek(max(0, os.fstat(aside.fileno()).st_size - MOST_BYTES))
            data = aside.read()
            if data:
                os.write(2, data)
            text.append(data.decode(errors="replace"))


def compiler_warnings(text: str) -> tuple[str, ...]:
    """Each line of a compiler's log once, in order, led by a sentence where its meaning is known."""
    warnings: dict[str, None] = {}
    for line in text.splitlines():
        words = _LOG_PREFIX.sub("", line.strip())
        if not words or "All log messages before absl::InitializeLog" in words:
            continue
        sentence = next((meaning for pattern, meaning in _KNOWN if pattern.search(words)), None)
        shown = (
            words
            if len(words) <= MAX_WARNING_CHARACTERS
            else words[: MAX_WARNING_CHARACTERS - 1] + "…"
        )
        warnings[f"{sentence}: {shown}" if sentence else shown] = None
    return tuple(warnings)

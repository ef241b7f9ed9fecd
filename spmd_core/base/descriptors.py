"""Descriptors of open files and connections: the limit, what is left of it, and waiting for input."""

import errno
import math
import os
import resource
import select
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

Source = TypeVar("Source", bound=Any)
# of the limit, kept for the queue: a worker takes 10 while it starts, each thread with the store 3
RESERVE = 128
_MOST = 65_536  # a limit that is raised further makes no room that memory has


def raise_limit() -> None:
    """Raise this process's soft limit as far as its hard limit allows, up to 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def left() -> int:
    """Returns how many descriptors this process may still open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return _MOST
    try:
        return soft - len(os.listdir("/dev/fd"))
    except OSError as error:
        return 0 if error.errno in (errno.EMFILE, errno.ENFILE) else _MOST


def readable(sources: Iterable[Source], timeout_s: float | None) -> list[Source]:
    """Returns those of the sources, descriptors or what has one, that can be read within the time.
    Unlike `select.select`, it takes descriptors of 1,024 and more.
    """
    waiting, by_number = select.poll(), {}
    for source in sources:
        number = source if isinstance(source, int) else source.fileno()
        by_number[number] = source
        waiting.register(number, select.POLLIN)
    wait_ms = None if timeout_s is None else math.ceil(max(0.0, timeout_s) * 1000)
    return [by_number[number] for number, _ in waiting.poll(wait_ms)]

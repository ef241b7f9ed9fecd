"""A child that is started before it is needed, so that nobody waits for what it imports."""

import os
import select
import sys
import threading
from collections.abc import Mapping

from spmd_core.base.child import AnsweringChild, ChildAnswer

WAIT_S = 900.0  # that a child waits for its question before it ends by itself
_SURE_S = 30.0  # before that it is used no more
_SEPARATOR = "\0"


class Spare:
    """At most one child that is ready. Each is asked once: what a question does to it cannot reach
    the next. The children call `asked`.
    """

    def __init__(self, module: str, environ: Mapping[str, str]) -> None:
        self._module, self._environ = module, environ
        self._child: AnsweringChild | None = None
        self._guard = threading.Lock()

    def prepare(self) -> None:
        """Start one where none is ready. It ends once it waited WAIT_S, or with this process."""
        with self._guard:
            self._child = self._taken() or AnsweringChild(self._module, (), self._environ)

    def ask(self, question: tuple[str, ...], seconds: float, most_bytes: int) -> ChildAnswer:
        """The answer of the one that is ready, else of a new one; limits as of `AnsweringChild.ask`."""
        with self._guard:
            child = self._taken()
        child = child or AnsweringChild(self._module, (), self._environ)
        return child.ask(_SEPARATOR.join(question).encode(), seconds, most_bytes)

    def _taken(self) -> AnsweringChild | None:
        """The one that is ready, which is not kept any more."""
        child, self._child = self._child, None
        if child is None or (child.is_there and child.age_s < WAIT_S - _SURE_S):
            return child
        child.end()
        return None


def asked() -> list[str]:
    """In the child: the question, once there is one. The process ends where none comes."""
    if not select.select([sys.stdin], [], [], WAIT_S)[0] or not (text := sys.stdin.read()):
        os._exit(0)
    return text.split(_SEPARATOR)

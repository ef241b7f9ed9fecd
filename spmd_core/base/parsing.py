"""Parses Python source in one thread at a time."""

import ast
import threading
from typing import Literal, overload

_lock = threading.Lock()


@overload
def parsed(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def parsed(source: str, mode: Literal["eval"]) -> ast.Expression: ...


def parsed(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.mod:
    """Returns the syntax tree of a source; raises what `ast.parse` raises.

    CPython 3.11 counts the depth of its recursion once for all threads: two parses at a time end in
    SystemError, "AST constructor recursion depth mismatch", where a garbage collection lets one run
    into the other.
    """
    with _lock:
        return ast.parse(source, mode=mode)

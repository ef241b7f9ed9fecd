"""The source files of a program, where its author's process handed it in: lines of them are quoted."""

import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from spmd_core.workloads.exported import programs
from spmd_core.workloads.exported.description import Described

MOST_BYTES = 2**20  # of all files of a program
EDITED = "(edited since it was imported)"  # in place of each line of a file that was


def keep(described: Described) -> None:
    """Keeps the text of a program's files, as far as this process has imported them: none of a name
    that several have, nor a file that exceeds what is left of the limit.
    """
    modules = [*sys.modules.values()]
    paths = {Path(file) for each in modules if (file := getattr(each, "__file__", None))}
    texts, left = dict[str, str](), MOST_BYTES
    for name in described.files:
        path, *others = [each for each in paths if each.as_posix().endswith(f"/{name}")] or [None]
        with suppress(OSError, UnicodeDecodeError):
            if path is not None and not others and (size := path.stat().st_size) <= left:
                left -= size
                text = path.read_text("utf-8")
                texts[name] = (
                    text if is_as_imported(path) else "\n".join([EDITED] * len(text.split("\n")))
                )
    if texts:  # else those that another process kept stay
        with suppress(OSError):
            _path(described.program).write_text(json.dumps(texts))


def lines(program: str, file: str) -> Sequence[str]:
    """Returns the lines of a program's file, by its last two parts or its name; () if none is kept."""
    path = _path(program)
    texts = _read(path, path.stat().st_mtime_ns) if path.exists() else {}
    named = [name for name in texts if file in (name, name.rpartition("/")[2])]
    return texts[named[0]] if len(named) == 1 else ()


def is_as_imported(path: Path) -> bool:
    """Returns False if the functions that this process imported from a file are not those of its text."""
    module = _module_of(str(path))
    # a loader that rewrites what it reads, as pytest's does, has other code than the text
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader or not path.exists():
        return True
    written = _written(path, path.stat().st_mtime_ns)
    members = [*vars(module).values()]
    members += [each for one in members if isinstance(one, type) for each in vars(one).values()]
    with suppress(Exception):  # objects of the author's that raise where they are looked at
        imported = [getattr(inspect.unwrap(each), "__code__", None) for each in members if callable(each)]  # fmt: skip
        own = (each for each in imported if each is not None and each.co_filename == str(path))
        return all(each in written for each in own)
    return True


@lru_cache(maxsize=64)
def _module_of(path: str) -> Any:
    modules = (each for each in [*sys.modules.values()] if getattr(each, "__file__", None) == path)
    return next(modules, None)


@lru_cache(maxsize=64)
def _written(path: Path, changed_ns: int) -> frozenset[CodeType]:
    with suppress(SyntaxError, ValueError):
        return frozenset(_codes(compile(path.read_bytes(), path, "exec", dont_inherit=True)))
    return frozenset()


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _path(program: str) -> Path:
    return programs.folder() / f"{program}.sources"


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int) -> Mapping[str, tuple[str, ...]]:
    with suppress(OSError, ValueError, AttributeError):
        texts = json.loads(path.read_text("utf-8"))
        return {str(name): tuple(str(text).split("\n")) for name, text in texts.items()}
    return {}

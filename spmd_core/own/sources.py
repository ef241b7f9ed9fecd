"""Source lines of a step: the path relative to its repository, and the text of the line."""

import linecache
import os
import sys
from functools import lru_cache
from pathlib import Path

from spmd_core.workloads import sources

_MARKS = (".git", "pyproject.toml", "setup.py")  # of a repository's root
_CHARACTERS = 160  # of a line


def line_of(source: str | None) -> tuple[str | None, str]:
    """Returns `path:line` relative to the repository, and the text of that line; "" where it cannot
    be read, and a sentence where the file was edited since it was imported. `source` has the full path.
    """
    path, _, number = (source or "").rpartition(":")
    if not path or not number.isdigit():
        return source, ""
    is_own = sources.is_as_imported(Path(path))
    text = linecache.getline(path, int(number)).strip() if is_own else sources.EDITED
    return f"{relative(path)}:{number}", text[:_CHARACTERS]


@lru_cache(maxsize=1024)
def relative(path: str) -> str:
    """A path relative to its repository, else to the folder that Python imports it from, else its
    last two parts; a name that is no path, such as a notebook's cell, as it is.
    """
    if not os.path.isabs(path):
        return path
    file = Path(path)
    roots = [each for each in file.parents if any((each / mark).exists() for mark in _MARKS)][:1]
    imported = (Path(each).absolute() for each in (os.getcwd(), *sys.path) if each)
    roots += sorted((each for each in imported if each in file.parents), key=lambda each: -len(each.parts))  # fmt: skip
    return file.relative_to(roots[0]).as_posix() if roots else "/".join(file.parts[-2:])

"""The source files of a program, where its author's process handed it in: lines of them are quoted."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from spmd_core.experiment.workloads.exported import programs
from spmd_core.experiment.workloads.exported.description import Described

MOST_BYTES = 2**20  # of all files of a program


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
                texts[name] = path.read_text("utf-8")
    if texts:  # else those that another process kept stay
        with suppress(OSError):
            _path(described.program).write_text(json.dumps(texts))


def lines(program: str, file: str) -> Sequence[str]:
    """Returns the lines of a program's file, by its last two parts or its name; () if none is kept."""
    path = _path(program)
    texts = _read(path, path.stat().st_mtime_ns) if path.exists() else {}
    named = [name for name in texts if file in (name, name.rpartition("/")[2])]
    return texts[named[0]] if len(named) == 1 else ()


def _path(program: str) -> Path:
    return programs.folder() / f"{program}.sources"


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int) -> Mapping[str, tuple[str, ...]]:
    with suppress(OSError, ValueError, AttributeError):
        texts = json.loads(path.read_text("utf-8"))
        return {str(name): tuple(str(text).split("\n")) for name, text in texts.items()}
    return {}

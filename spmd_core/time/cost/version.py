"""What a prediction was made by: versions of jax and libtpu, hashes of the cost model and of the
program that is compiled.
"""

import ast
import hashlib
from functools import cache, lru_cache
from pathlib import Path

from spmd_core.base import package_version, parsed
from spmd_core.machine import plugin_version

_ROOT = Path(__file__).resolve().parents[2]
# How programs are written, and how compiled modules are read and timed.
_SOURCES = (
    "machine/**/*.py",
    "plan/**/*.py",
    "program/**/*.py",
    "script/*.py",
    "time/**/*.py",
)
_PROGRAMS = ("script/programs/**/*.py",)
_version = cache(package_version)  # screens ask again and again


def versions(program: str | None = None) -> dict[str, str | None]:
    """What a prediction of a program, given by its text, is made with; a stored one replaces a
    new one where these are the same. Without a program: of all program files. None: not installed.
    """
    return {
        **{name: _version(name) for name in ("jax", "jaxlib", "libtpu")},
        "cuda_plugin": plugin_version(),
        "cost_model": cost_version(),
        "program": tree_hash(program) if program is not None else hash_of(_ROOT, _PROGRAMS),
    }


def cost_version() -> str:
    """Hash of the sources that a prediction depends on, but for the program (12 hex digits)."""
    return hash_of(_ROOT, _SOURCES)


@cache
def hash_of(root: Path, patterns: tuple[str, ...]) -> str:
    """Hash of the syntax trees of files: their names, comments and formatting change nothing."""
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return _digest("".join(tree_hash(path.read_text("utf-8")) for path in paths))


@lru_cache(maxsize=1024)
def tree_hash(source: str) -> str:
    """Hash of what a source does: of its syntax tree without docstrings."""
    tree = parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                each
                for each in node.body
                if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return _digest(ast.dump(tree))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]

"""Words of the old voice in docstrings, comments, names and documents, and the lines that have them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.layers import ROOT, nodes, source_files

# What docstrings, comments, names and docs/ may still say, each with the field's word.
OLD_WORDS = {
    r"wholly|whole(?! numbers?\b)": "full, complete, unsharded, replicated",
    r"says?|said|saying|unsaid": "states, reports, returns",
    r"(?<!cannot )tells?|told|telling": "names, shows, determines",  # `cannot tell` is a verdict
    r"(?<!short)cuts?|cutting|uncut": "sharded, split",
    r"lies?|lay|lain": "is on, is placed",
    r"stands? (for|still)|as (it|they) stands?": "means, waits, unchanged",
    r"asked|asks": "requested, queries",
    r"befalls?|befell|at hand|once more|what of|makes of it|hush\w*|bell": "plain words",
    r"found": "the noun of what it is",
}
OLD_NAMES = frozenset(
    {
        "whole",
        "says",
        "said",
        "told",
        "cut",
        "cuts",
        "uncut",
        "hush",
        "bell",
        "unwritten",
        "occupy",
        "twin",
        "twins",
        "fate",
        "classic",
        "tryout",
        "found",
    }
)


def prose_of_document(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of the lines of a document, but for its code."""
    in_code = False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        in_code ^= line.startswith("```")
        if not in_code:
            yield number, line


def prose_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring and comment of a source."""
    for node in nodes(source):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from enumerate(node.value.value.splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every definition, parameter and assigned name of a source."""
    for node in nodes(source):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


_OLD_WORDS = re.compile(rf"\b({'|'.join(OLD_WORDS)})\b", re.I)
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def old_voice(path: Path) -> set[int]:
    """Lines of a source or a page with an old word in its prose or its names."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return {line for line, prose in prose_of_document(path) if _OLD_WORDS.search(prose)}
    prose = {line for line, each in prose_of_python(text) if _OLD_WORDS.search(each)}
    return prose | {
        line
        for line, name in names_of_python(text)
        if not {part.lower() for part in _NAME_PARTS.findall(name)}.isdisjoint(OLD_NAMES)
    }


def wing(path: Path) -> str:
    """Where a file is: `spmd_core/time`, `ui`, `docs`."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] == "spmd_core" else parts[0]


def read_for_voice() -> list[Path]:
    """Every file whose words are counted: the program and the documents."""
    sources = [
        path for path in source_files() if "programs" not in path.relative_to(ROOT).parts
    ]  # text of users'
    return [*sources, ROOT / "README.md", *(ROOT / "docs").glob("*.md")]

"""Figures of the house, which notes quote: `python -m tests.house.figures` prints them.

`--way COMMAND …` prints how many modules and functions of the program a command of
`python -m spmd_core` runs, once all that it imports is there:
`python -m tests.house.figures --way predict --estimate --model llama-3.1-8b --target tpu:v5e:4x4 --mesh fsdp=16 --batch-per-device 1`
"""

import ast
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from tests.layers import ROOT, circles_of_siblings, imports, nodes, room_of, source_files
from tests.voice import old_voice, read_for_voice

LONGEST = 40  # lines of a function
COLUMNS = 100
FACE = 60  # names of a wing that other wings import


def statements(paths: Iterable[Path]) -> int:
    """How many statements files have: they do not depend on how a file is formatted."""
    return sum(
        isinstance(node, ast.stmt) for path in paths for node in nodes(path.read_text("utf-8"))
    )


_UNCOUNTED = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def tokens(paths: Iterable[Path]) -> int:
    """How many tokens files have, without comments, ends of lines and indents."""
    count = 0
    for path in paths:
        with path.open("rb") as file:
            count += sum(each.type not in _UNCOUNTED for each in tokenize.tokenize(file.readline))
    return count


def faces() -> dict[str, set[str]]:
    """Wing of `spmd_core` -> the names of its face that other wings import."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in source_files():
        relative = path.relative_to(ROOT)
        own = room_of(".".join(relative.with_suffix("").parts))
        for _, name in imports(path.read_text("utf-8"), ".".join(relative.parent.parts)):
            house, wing, *inside = (*name.split("."), "", "")
            if house == "spmd_core" and room_of(name) != own and inside[0]:
                found[wing].add(inside[0])
    return found


def arrows() -> Counter[tuple[str, str]]:
    """(importing wing, imported wing) -> imports; wings: packages of `spmd_core`, `ui`, screens."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in source_files():
        relative = path.relative_to(ROOT)
        own = room_of(".".join(relative.with_suffix("").parts))
        for _, name in imports(path.read_text("utf-8"), ".".join(relative.parent.parts)):
            other = room_of(name)
            if own and other and own != other:
                counts[own, other] += 1
    return counts


def chained(tree: Iterable[ast.AST]) -> list[int]:
    """Lines of conditional expressions whose alternative is another: `a if b else c if d else e`."""
    return [
        node.lineno
        for node in tree
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.IfExp)
    ]


def long_functions(tree: Iterable[ast.AST]) -> list[str]:
    """Functions of more than `LONGEST` lines, from their `def` to their last line."""
    return [
        node.name
        for node in tree
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST
    ]


def any_values(tree: Iterable[ast.AST]) -> list[int]:
    """Lines of `dict[str, Any]`."""
    return [
        node.lineno
        for node in tree
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
    ]


_CACHES = {"cached_property", "lru_cache", "cache"}
_CHANGED = {"dict", "list", "set"}


def cached_changeable(tree: Iterable[ast.AST]) -> list[str]:
    """Cached functions that say they return what a caller may change for all others."""
    return [
        node.name
        for node in tree
        if isinstance(node, ast.FunctionDef) and node.returns is not None
        if _CACHES & {name for each in node.decorator_list for name in _names(each)}
        if _CHANGED & set(_names(node.returns))
    ]


def _names(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr


def in_program(count) -> list[str]:
    """`file:what` for each occurrence in the program."""
    return [
        f"{path.relative_to(ROOT)}:{each}"
        for path in source_files()
        for each in count(nodes(path.read_text("utf-8")))
    ]


def once() -> list[str]:
    """`file:name` of private functions of at most three statements that are called once."""
    found = []
    for path in source_files():
        tree = nodes(path.read_text("utf-8"))
        named = Counter(
            getattr(node, "id", getattr(node, "attr", ""))
            for node in tree
            if isinstance(node, ast.Name | ast.Attribute)
        )
        found += [
            f"{path.relative_to(ROOT)}:{node.name}"
            for node in tree
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("_")
            and not node.name.endswith("__")
            and named[node.name] == 1
            and sum(isinstance(each, ast.stmt) for each in ast.walk(node)) <= 1 + 3
        ]
    return found


def figures() -> dict[str, float]:
    """Name -> figure of the tree as it is now."""
    program = source_files()
    checks = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    lines = [line for path in program for line in path.read_text("utf-8").splitlines()]
    between, faced = arrows(), {wing: len(names) for wing, names in faces().items()}
    largest = max(faced, key=lambda wing: faced[wing])
    return {
        "statements of the program": statements(program),
        "tokens of the program": tokens(program),
        "modules of the program": len(program),
        "statements of tests and bench": statements(checks),
        "wings": len({wing for pair in between for wing in pair}),
        "arrows between wings": len(between),
        f"names that other wings import of the largest face, {largest}": faced[largest],
        f"faces of more than {FACE} such names": sum(count > FACE for count in faced.values()),
        "circles of folders": len(circles_of_siblings()),
        "private helpers called once": len(once()),
        "chained ternaries": len(in_program(chained)),
        "dict[str, Any]": len(in_program(any_values)),
        f"functions over {LONGEST} lines": len(in_program(long_functions)),
        f"lines over {COLUMNS} columns, %": round(
            100 * sum(len(line) > COLUMNS for line in lines) / len(lines), 2
        ),
        "lines of the old voice": sum(len(old_voice(path)) for path in read_for_voice()),
    }


def way(words: Sequence[str], before: Sequence[str]) -> dict[str, float]:
    """Modules and named functions of the program that a command runs; `before` is a like command,
    which imports what both need."""
    from spmd_core.__main__ import main

    called = set[tuple[str, int]]()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<"):
            called.add((code.co_filename, code.co_firstlineno))

    main(before)
    sys.setprofile(look)
    main(words)
    sys.setprofile(None)
    ours = set(map(str, source_files()))
    on_the_way = [each for each in called if each[0] in ours]
    return {
        "modules on the way": len({file for file, _ in on_the_way}),
        "functions on the way": len(on_the_way),
        "modules of the program that are imported": sum(
            name.partition(".")[0] in ("spmd_core", "spmd_lab") for name in sys.modules
        ),
    }


def _printed() -> dict[str, float]:
    if sys.argv[1:2] != ["--way"]:
        return figures()
    like = [word.replace("llama-3.1-8b", "llama-3.1-70b") for word in sys.argv[2:]]
    return way(sys.argv[2:], like)


if __name__ == "__main__":
    for name, figure in _printed().items():
        print(f"{figure:>8,} {name}")

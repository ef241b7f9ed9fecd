"""Reads the texts of a program - Python, jaxpr, StableHLO, compiled HLO - into sections that fold,
and searches them; those of a jaxpr here.
"""

import re
from collections.abc import Callable

from spmd_core.program.hlo.module import Frame
from spmd_core.program.ir.hlo import read_hlo
from spmd_core.program.ir.stablehlo import read_stablehlo
from spmd_core.program.ir.text import Op, ProgramText, Section, innermost

COLLECTIVES = frozenset(
    (
        "psum",
        "psum2",
        "psum_invariant",
        "pmax",
        "pmin",
        "pmax_invariant",
        "pmin_invariant",
        "all_gather",
        "all_gather_invariant",
        "all_gather_reduced",
        "unreduced_psum",
        "reduce_scatter",
        "psum_scatter",
        "unreduced_reduce_scatter",
        "all_to_all",
        "ragged_all_to_all",
        "ppermute",
        "pgather",
    )
)
_BRACE = re.compile(r"\{ lambda|\{|\}")
_EQUATION = re.compile(r"(?:^|\s)(\w+):[^=]* = ([a-z_]\w*)(?=[\[ ]|$)")
_PRIMITIVE = re.compile(r"(?:^|[ =])([a-z_]\w*)\[\s*$")
_OPENING = re.compile(r"([\w.]+)\s?=\s?\(?$")
_NAME = re.compile(r"\bname=([^\s\]]+)")
_COMMENT = re.compile(
    r"(?<!\s)\s+# ?(?:(?P<file>[^#]*?):(?P<line>\d+)(?::\d+)?(?: \((?P<function>[^#()]*)\))?)?$"
)
# so far a line, the lines before it and nesting are looked at: others' texts may have no end
_LOOKED_AT, _LINES_BACK, _DEEPEST = 2000, 2000, 100


def read_jaxpr(text: str) -> ProgramText:
    """The jaxprs of a text, the outermost first; one inside another is a section of its own."""
    lines = tuple(text.splitlines())
    ranges = _ranges(lines)
    owners = innermost([each[:2] for each in ranges], lines)
    ops: list[list[Op]] = [[] for _ in ranges]
    for at, line in enumerate(lines):
        number, match = owners[at], _EQUATION.search(quiet(line)[:_LOOKED_AT])
        if match and number is not None:
            ops[number].append(Op(at, match[1], match[2], _frames(line), match[2] in COLLECTIVES))
    entry = max((number for number, each in enumerate(ranges) if each[2] == 0), default=None)
    sections = [
        Section("The program", start, stop, tuple(ops[number]), is_entry=True)
        if number == entry
        else Section(name, start, stop, tuple(ops[number]), note)
        for number, (start, stop, _, name, note) in enumerate(ranges)
    ]
    sections.sort(key=lambda section: (not section.is_entry, section.start))
    return ProgramText("jaxpr", lines, tuple(sections), quiet)


def _ranges(lines: tuple[str, ...]) -> list[tuple[int, int, int, str, str]]:
    """(start, stop, depth, name, note) of every jaxpr, as written; of several on one line only the
    outermost.
    """
    ranges, braces = list[tuple[int, int, int, str, str]](), list[int | None]()
    depth = 0
    for at, full in enumerate(lines):
        line = quiet(full)
        for match in _BRACE.finditer(line):
            if match[0] == "}":
                opened = braces.pop() if braces else None
                if opened is not None:
                    start, _, depth, name, note = ranges[opened]
                    ranges[opened] = (start, at + 1, depth, name, note)
            elif match[0] == "{ lambda" and depth < _DEEPEST and (not ranges or ranges[-1][0] < at):
                parameter = _OPENING.search(line[max(0, match.start() - 200) : match.start()])
                inside = _use(lines, at)
                name = (
                    inside[1]
                    or (parameter[1] if parameter and not inside[0] else inside[0])
                    or "jaxpr"
                )
                note = (
                    f"{parameter[1] if parameter else 'jaxpr'} of {inside[0]}"
                    if inside[0]
                    else "shared"
                )
                braces.append(len(ranges))
                ranges.append((at, len(lines), depth, name, note))
                depth += 1
            else:
                braces.append(None)
    return ranges


def _use(lines: tuple[str, ...], at: int) -> tuple[str, str]:
    """The primitive whose parameter opens a jaxpr on this line, and the name that it gives; empty
    where there is none.
    """
    indent, name = len(lines[at]) - len(lines[at].lstrip()), ""
    for line in reversed(lines[max(0, at - _LINES_BACK) : at]):
        if not line.strip() or len(line) - len(line.lstrip()) > indent:
            continue
        if len(line) - len(line.lstrip()) == indent:
            primitive = _NAME.match(line.strip())
            name = primitive[1] if primitive else name
            continue
        match = _PRIMITIVE.search(quiet(line))
        return (match[1], name) if match else ("", "")
    return "", ""


def _frames(line: str) -> tuple[Frame, ...]:
    match = _COMMENT.search(line)
    return (
        (Frame(match["file"].strip(), int(match["line"]), match["function"] or ""),)
        if match and match["file"]
        else ()
    )


def quiet(line: str) -> str:
    """A line without the comment that gives its source."""
    return _COMMENT.sub("", line) if " #" in line else line.rstrip()


# of a text that is not what JAX writes, as in an archive that was doctored
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _as_it_is(text: str, kind: str = "program", name: str = "The program") -> ProgramText:
    lines = tuple(text.splitlines())
    return ProgramText(kind, lines, (Section(name, 0, len(lines), is_entry=True),))


_READERS: dict[str, Callable[[str], ProgramText]] = {
    "program": _as_it_is,
    "jaxpr": read_jaxpr,
    "stablehlo": read_stablehlo,
    "hlo": read_hlo,
}


def read_text(text: str, kind: str) -> ProgramText:
    """A text of a program by its kind: program, jaxpr, stablehlo or hlo. One that cannot be read as
    that has its lines alone.
    """
    try:
        return _READERS[kind](text)
    except _UNREADABLE:
        return _as_it_is(text, kind, "The text, which is not as JAX writes it")


def spans_of(line: str, wanted: str) -> tuple[tuple[int, int], ...]:
    """(start, stop) of each case-insensitive match of a text in a line; none for an empty text."""
    return (
        tuple(match.span() for match in re.finditer(re.escape(wanted), line, re.IGNORECASE))
        if wanted
        else ()
    )

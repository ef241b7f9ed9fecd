"""Compares two program texts and shows only real differences: ops are matched by what they do, not
by their names.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from spmd_core.program.hlo.module import HloError
from spmd_core.program.hlo.replica_groups import parse_groups
from spmd_core.program.ir.text import ProgramText

# lines of each text that are matched one by one; beyond, the time would be quadratic
MOST_LINES = 3000
_EXACT_LINES = 400  # up to here the minimal difference is computed
_CONTEXT = 3
_HLO_NAME = re.compile(r"%([\w.\-]+)")
_HLO_PARAMETER = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = .* parameter\((\d+)\)")
_HLO_SIGNATURE = re.compile(r"[\w.\-]+: ")
_NUMBER = re.compile(r"(\.(clone|remat\d*|\d+))+$")
_DEVICES = re.compile(r"(num_partitions|replica_count)=(\d+)")
_GROUPS = re.compile(r" replica_groups=(.+?)(?=, [\w]+=(?!\()|$)")
_CHANNEL = re.compile(r"(channel_id=|handle = )\d+")
_MLIR_NAME = re.compile(r"%[\w$.\-]+|@[\w$.\-]+")
_BINDER = re.compile(r"(\w+):\S+")
_JAXPR_NAME = re.compile(r"(?<![\w'\".=:\-@])([a-z]{1,4})(?![\w'\"(=\[.])")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A row of the comparison: the index of the line in the one and in the other text; None where a
    side has no such line.
    """

    left: int | None
    right: int | None
    same: bool


@dataclass(frozen=True)
class TextDifference:
    """The differences between two texts. `hunks` are runs of rows with unchanged context lines.

    `left_out` counts the lines of both texts that were too many to be matched line by line.
    """

    left_opcodes: Mapping[str, int]
    right_opcodes: Mapping[str, int]
    left_collectives: Mapping[str, int]
    right_collectives: Mapping[str, int]
    hunks: tuple[tuple[DiffRow, ...], ...]
    left_out: int = 0

    @cached_property
    def only_left(self) -> int:
        """Lines of the left text without a counterpart."""
        return sum(not row.same and row.left is not None for hunk in self.hunks for row in hunk)

    @cached_property
    def only_right(self) -> int:
        """Lines of the right text without a counterpart."""
        return sum(not row.same and row.right is not None for hunk in self.hunks for row in hunk)

    @property
    def is_none(self) -> bool:
        """Whether the texts are equal except for names."""
        return not self.hunks and not self.left_out


def compare(left: ProgramText, right: ProgramText) -> TextDifference:
    """Two texts of one kind, the sections of both in reading order. Sections that are the same on
    both sides are skipped.
    """
    ours, theirs = _without_common(_sections(left), _sections(right))
    a, b = (
        [pair for section in ours for pair in section],
        [pair for section in theirs for pair in section],
    )
    left_out = max(0, len(a) - MOST_LINES) + max(0, len(b) - MOST_LINES)
    a, b = a[:MOST_LINES], b[:MOST_LINES]
    matcher = SequenceMatcher(
        None,
        [key for _, key in a],
        [key for _, key in b],
        autojunk=max(len(a), len(b)) > _EXACT_LINES,
    )
    hunks = tuple(tuple(_rows(group, a, b)) for group in matcher.get_grouped_opcodes(_CONTEXT))
    if all(row.same for hunk in hunks for row in hunk):
        hunks = ()
    return TextDifference(
        _count(left, False),
        _count(right, False),
        _count(left, True),
        _count(right, True),
        hunks,
        left_out,
    )


def _count(text: ProgramText, communicates: bool) -> Counter[str]:
    return Counter(short(op.opcode) for op in text.ops if op.communicates == communicates)


def short(opcode: str) -> str:
    """An opcode without its dialect, and the start of an async pair as the op itself:
    stablehlo.all_reduce as all_reduce.
    """
    return opcode.rsplit(".", 1)[-1].removesuffix("-start")


Keyed = tuple[tuple[int, str], ...]  # (index of a line, its text without names)


def _rows(
    group: list[tuple[str, int, int, int, int]], a: list[tuple[int, str]], b: list[tuple[int, str]]
) -> Iterator[DiffRow]:
    for tag, start, stop, other_start, other_stop in group:
        for at in range(max(stop - start, other_stop - other_start)):
            left = a[start + at][0] if start + at < stop else None
            right = b[other_start + at][0] if other_start + at < other_stop else None
            yield DiffRow(left, right, tag == "equal")


def _sections(text: ProgramText) -> list[Keyed]:
    key = _KEYS[text.kind](text)
    if text.kind in ("program", "jaxpr"):  # sections nest: as written
        return [tuple((at, key(line)) for at, line in enumerate(text.quiet) if line.strip())]
    return [
        tuple(
            (at, key(text.quiet[at]))
            for at in range(section.start, section.stop)
            if text.quiet[at].strip()
        )
        for section in text.sections
        if not section.is_details
    ]


def _without_common(left: list[Keyed], right: list[Keyed]) -> tuple[list[Keyed], list[Keyed]]:
    def words(section: Keyed) -> tuple[str, ...]:
        return tuple(key for _, key in section)

    ours, theirs = Counter(map(words, left)), Counter(map(words, right))
    common = ours & theirs
    kept: list[list[Keyed]] = []
    for sections in (left, right):
        spare = Counter(common)
        kept.append([])
        for section in sections:
            if spare[words(section)]:
                spare[words(section)] -= 1
            else:
                kept[-1].append(section)
    return kept[0], kept[1]


class _Hlo:
    """Instructions by their opcode, parameters by their number, computations without the number
    behind their name.
    """

    def __init__(self, text: ProgramText):
        self._names = {section.name: "computation" for section in text.sections} | {
            op.name.lstrip("%"): op.opcode for op in text.ops
        }
        for op in text.ops:
            if op.opcode == "parameter" and (match := _HLO_PARAMETER.match(text.lines[op.line])):
                self._names[match[1]] = f"parameter{match[2]}"
        counts = dict(_DEVICES.findall(text.lines[0] if text.lines else ""))
        self._devices = int(counts.get("num_partitions", 1)) * int(counts.get("replica_count", 1))
        self._groups: dict[str, str] = {}

    def __call__(self, line: str) -> str:
        if match := _GROUPS.search(line):  # written in one of several ways
            line = line[: match.start(1)] + self._as_lists(match[1]) + line[match.end(1) :]
        if line.endswith("{") and " = " not in line.split("(")[0]:
            line = _HLO_SIGNATURE.sub("", line)
        line = _CHANNEL.sub(r"\1", line)
        return _HLO_NAME.sub(
            lambda name: "%" + self._names.get(name[1], _NUMBER.sub("", name[1])), line
        ).strip()

    def _as_lists(self, groups: str) -> str:
        if groups not in self._groups:
            try:
                self._groups[groups] = str(parse_groups(groups, self._devices).tolist())
            except HloError:
                self._groups[groups] = groups
        return self._groups[groups]


def _stablehlo(text: ProgramText) -> Callable[[str], str]:
    names = {op.name: f"%{short(op.opcode)}" for op in text.ops if op.name}
    return lambda line: _MLIR_NAME.sub(
        lambda name: names.get(name[0], re.sub(r"_?\d+$", "", name[0])),
        _CHANNEL.sub(r"\1", line),
    ).strip()


def _jaxpr(text: ProgramText) -> Callable[[str], str]:
    """Variables by the primitive that gives them; those that a jaxpr takes by their position."""
    names: dict[str, str] = {}
    for line in text.quiet:
        if "{ lambda" in line:
            taken = _BINDER.findall(line.split("lambda", 1)[1].split(". let")[0])
            names |= {name: f"in{at}" for at, name in enumerate(taken)}
    for op in text.ops:
        binders = text.quiet[op.line].split(" = ")[0]
        names |= dict.fromkeys(_BINDER.findall(binders), op.opcode)
    names |= {"in": "in", "let": "let"}  # of the language
    return lambda line: _JAXPR_NAME.sub(lambda name: names.get(name[1], name[1]), line).strip()


_KEYS = {"program": lambda _: str, "jaxpr": _jaxpr, "stablehlo": _stablehlo, "hlo": _Hlo}

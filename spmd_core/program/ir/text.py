"""A program text as values: its lines, the sections that fold, the ops in them and the source lines
that ops were made from.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spmd_core.program.hlo.module import Frame


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: the index of the line that it begins on, its name and opcode as written, and
    its source lines, innermost first.
    """

    line: int
    name: str
    opcode: str
    frames: tuple[Frame, ...] = ()
    communicates: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Lines `start` to `stop` (not included) that fold together: a computation, a function, a jaxpr
    inside another.

    `note` names its users; `is_details` marks what only the compiler reads, such as tables of
    source lines.
    """

    name: str
    start: int
    stop: int
    ops: tuple[Op, ...] = ()
    note: str = ""
    is_entry: bool = False
    is_details: bool = False

    @property
    def collectives(self) -> Counter[str]:
        """The number of communication ops by kind, without those of nested sections."""
        return Counter(op.opcode for op in self.ops if op.communicates)


@dataclass(frozen=True)
class ProgramText:
    """A parsed text. Sections are in reading order: the entry, then what it calls. A line may be
    outside every section.

    `quiet_line` removes from a line what only the compiler reads.
    """

    kind: str
    lines: tuple[str, ...]
    sections: tuple[Section, ...]
    quiet_line: Callable[[str], str] = field(default=str)

    @cached_property
    def quiet(self) -> tuple[str, ...]:
        """Every line without the details that only the compiler reads."""
        return tuple(map(self.quiet_line, self.lines))

    @cached_property
    def owners(self) -> tuple[int | None, ...]:
        """Index of the innermost section of every line."""
        return tuple(innermost([(each.start, each.stop) for each in self.sections], self.lines))

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """All ops in the order of the text."""
        return tuple(
            sorted((op for section in self.sections for op in section.ops), key=lambda op: op.line)
        )

    @property
    def collectives(self) -> Counter[str]:
        """How many ops of each kind of communication the text holds."""
        return sum((section.collectives for section in self.sections), Counter())

    def shown(self, details: bool) -> tuple[str, ...]:
        """The lines as they are shown: all of each, or without details."""
        return self.lines if details else self.quiet

    def visible(self, number: int) -> list[int | Section]:
        """What a section shows: indices of its own lines, and in the place of each section inside
        it that section.
        """
        section, rows = self.sections[number], list[int | Section]()
        at = section.start
        while at < section.stop:
            child = self._starts.get(at) if at > section.start else None
            rows.append(child or at)
            at = child.stop if child else at + 1
        return rows

    @cached_property
    def _starts(self) -> Mapping[int, Section]:
        return {section.start: section for section in self.sections}


def innermost(ranges: Sequence[tuple[int, int]], lines: Sequence[str]) -> list[int | None]:
    """Returns for each line the number of the shortest range (start, stop) that holds it."""
    owners: list[int | None] = [None] * len(lines)
    for number in sorted(range(len(ranges)), key=lambda at: ranges[at][0] - ranges[at][1]):
        start, stop = ranges[number]
        owners[start:stop] = [number] * (stop - start)
    return owners


def file_name(workload: str, strategy: str) -> str:
    """The name under which a program text is executed, as source lines quote it. `strategy` may be
    that of a study's row, `variant/strategy`.
    """
    return f"{workload}_{strategy.rpartition('/')[2].replace('(', '_').replace(')', '')}.py"


def made_from(ops: Sequence[Op], file: str, line: int) -> list[Op]:
    """Ops whose source lines include a line (from 1) of a file; those with it as innermost line
    first.
    """
    direct, through = [], []
    for op in ops:
        numbers = program_lines(op, file)
        if line in numbers:
            (direct if numbers[0] == line else through).append(op)
    return direct + through


def program_lines(op: Op, file: str) -> tuple[int, ...]:
    """Lines of a file (counted from 1) that an op was made from, innermost first, each once."""
    return tuple(
        dict.fromkeys(
            frame.line for frame in op.frames if frame.line > 0 and is_file(frame.file, file)
        )
    )


def is_file(path: str, file: str) -> bool:
    """Whether a path in a program text refers to the file of that name."""
    return path == file or path.endswith(f"/{file}")

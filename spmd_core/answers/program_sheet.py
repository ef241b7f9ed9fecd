"""Programs of runs beside one another: which are the same, and what differs in what they compile to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from spmd_core.answers.strategies import peak_bytes, sent
from spmd_core.base import bytes_text, count_text, number_text
from spmd_core.experiment import Experiment
from spmd_core.facts import executed
from spmd_core.results import StrategyResult
from spmd_core.sheets import Sheet, Table, count, number, size, text
from spmd_core.terms import in_quotes
from spmd_core.workloads import version_words


@dataclass(frozen=True)
class ProgramRow:
    """An exported program or a function of the user's own, as one run compiled it.

    Attributes:
      called: the run's name in the comparison.
      experiment: what was run.
      outcome: its row that answers for the run.
    """

    called: str
    experiment: Experiment
    outcome: StrategyResult | None

    @property
    def identity(self) -> tuple[str, str]:
        """The name of the function or workload, and a hash of its file."""
        if program := self.experiment.exported:
            return program.described.name, program.described.program
        return self.experiment.workload, self.experiment.what.source or ""

    @property
    def words(self) -> str:
        """Its name, and the version of its file."""
        name, digest = self.identity
        return name if self.experiment.exported else f"{name}, {version_words(digest)}"

    @property
    def quoted(self) -> str:
        """The same in a sentence."""
        name, digest = self.identity
        version = "" if self.experiment.exported else f", {version_words(digest)}"
        return f"{in_quotes(name)}{version}"

    @property
    def peak(self) -> int | None:
        """Peak bytes per device."""
        return peak_bytes(self.outcome)

    @property
    def sent(self) -> int | None:
        """Bytes that a device sends in a step."""
        return sent(self.outcome)

    @property
    def collectives(self) -> int | None:
        """How many collectives a device runs in a step."""
        moved = self.outcome.collectives if self.outcome else None
        return None if moved is None else executed([each.count for each in moved])

    @cached_property
    def flops(self) -> int | None:
        """FLOPs of its matrix products, over all devices: 2 per multiply-add."""
        if program := self.experiment.exported:
            return program.described.flops_of(program.sizes)
        operations = self.outcome and self.outcome.operations
        if not operations:
            return None
        devices = prod(self.experiment.axis_sizes.values())
        matmuls = (each for each in operations if each.kind == "matmul")
        return devices * sum(2 * prod(each.sizes) * each.count for each in matmuls)


PROGRAMS: Sheet[ProgramRow] = Sheet(
    (
        text("", lambda row: row.called),
        text("Program", lambda row: row.words if row.words != row.called else None),
        number("FLOPs", lambda row: row.flops),
        count("Collectives run", lambda row: row.collectives),
        size("Sent per device", lambda row: row.sent),
        size("Peak per device", lambda row: row.peak),
    )
)


def programs_table(rows: Sequence[ProgramRow]) -> Table:
    """Returns a row for each program, where they are several."""
    several = len({row.identity for row in rows}) > 1
    return PROGRAMS.table(rows if several else (), "document")


def programs_words(rows: Sequence[ProgramRow], baseline: str) -> Iterator[str]:
    """Yields a sentence for each program but that of the run that is called `baseline`: whether it
    is the same, and what differs.
    """
    for first, each in ((first, each) for first in rows for each in rows):
        if first.called != baseline or each is first:
            continue
        if each.identity == first.identity:
            yield f"{each.called} runs the same program as {first.called} ({first.quoted})."
            continue
        kind = "version" if each.identity[0] == first.identity[0] else "program"
        apart = list(_apart(each, first))
        what = f": {', '.join(apart)}" if apart else ", alike in all that is known of both"
        quoted = f" ({each.quoted})" * (each.words != each.called)
        yield f"{each.called} runs another {kind}{quoted} than {first.called}{what}."


def _apart(one: ProgramRow, other: ProgramRow) -> Iterator[str]:
    if None not in (one.collectives, other.collectives) and (
        more := (one.collectives or 0) - (other.collectives or 0)
    ):
        yield f"{count_text(abs(more))} {'more' if more > 0 else 'fewer'} collectives run"
    for mine, theirs, what in (
        (one.sent, other.sent, "sent"),
        (one.peak, other.peak, "memory"),
    ):
        if mine is not None and theirs is not None and mine != theirs:
            yield f"{bytes_text(abs(mine - theirs))} {'more' if mine > theirs else 'less'} {what}"
    if one.flops and other.flops and one.flops != other.flops:
        yield f"{number_text(one.flops / other.flops)}× the FLOPs"

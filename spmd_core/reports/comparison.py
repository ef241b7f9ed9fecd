"""Two to eight runs of any kind beside one another, as values: what differs, and how their times
compare with those of a baseline.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spmd_core.answers import ProgramRow
from spmd_core.base import numbered, refuse
from spmd_core.experiment import Experiment
from spmd_core.history import difference_rows, part_words
from spmd_core.results import (
    OTHER_WORK,
    Between,
    Result,
    apart,
    between,
    fastest_row,
    fastest_sharded_row,
)
from spmd_core.runs import RunSummary
from spmd_core.terms import sharding_words
from spmd_core.workloads import STRATEGIES

FEWEST, MOST = 2, 8
NAMES = "ABCDEFGH"
_LONGEST = 32  # characters of what a run is called in a sentence
OTHER_PROGRAM = "different programs"  # which may be two versions of one
HERE = "this machine"  # where a run was measured that is not foreign


@dataclass(frozen=True, slots=True)
class Subject:
    """A run of a comparison: its letter, what is stored of it, its result if it left one, and the
    programs of its strategies as they ran; `is_sharded`: its best sharded row answers for it.
    """

    summary: RunSummary
    result: Result | None
    programs: Mapping[str, str] | None = None
    letter: str = ""
    is_sharded: bool = False

    @property
    def run(self) -> str:
        """The run's id."""
        return self.summary.run

    @property
    def moment(self) -> float:
        """When it ended, else when it was submitted, in seconds since the epoch."""
        return self.summary.finished_at or self.summary.submitted_at

    @property
    def place(self) -> str:
        """Where it ran: here, or on another installation."""
        return self.summary.origin.installation if self.summary.origin else HERE

    @property
    def fastest(self) -> str | None:
        """The row that answers for it; None without a time."""
        of = fastest_sharded_row if self.is_sharded else fastest_row
        return of(self.result) if self.result else None

    @property
    def answer_s(self) -> float:
        """Seconds of that row; infinite without a time."""
        if self.is_sharded and self.result and self.fastest:
            return self.result.medians_s[self.fastest] or math.inf
        return (self.summary.answer or ("", math.inf))[1]

    @property
    def flops(self) -> float:
        """FLOPs of a call, or of a training step, of that row; 0 where they are not known."""
        if self.result is None or self.fastest is None:
            return 0
        experiment = self.result.row(self.fastest).experiment
        plan = experiment.plan
        return plan.flops if plan else experiment.what.flops(experiment.sizes) or 0


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs, the one that the others are compared with, and what was known of each pair: by the
    fastest rows (`answers`), and row by row where runs have the same (`rows`).
    """

    subjects: tuple[Subject, ...]
    baseline: Subject
    differences: tuple[tuple[str, tuple[str, ...]], ...]
    answers: tuple[Between, ...]
    rows: tuple[Between, ...]

    @property
    def programs(self) -> list[ProgramRow]:
        """The exported programs and own functions of the runs; none where one runs neither."""
        rows = [_program_row(each, self.names[each.run]) for each in self.subjects]
        return rows if all(is_program(row.experiment) for row in rows) else []

    @property
    def is_unlike(self) -> bool:
        """True if each run is of another workload: nothing of them compares."""
        workloads = {each.summary.experiment.workload for each in self.subjects}
        return len(workloads) == len(self.subjects)

    @property
    def letters(self) -> dict[str, str]:
        """The letter of each run, by its id."""
        return {each.run: each.letter for each in self.subjects}

    @property
    def names(self) -> dict[str, str]:
        """What each run is called, by its id: what they have otherwise than the others do where that is
        short, else the names that people gave them or their programs, else their letters.
        """
        experiments = [each.summary.experiment for each in self.subjects]
        differing = [
            ", ".join(
                text if "=" in text else part_words(label, text) for label, text in parts if text
            )
            for parts in (
                [(label, texts[at]) for label, texts in self.differences]
                for at in range(len(experiments))
            )
        ]
        people = [
            each.summary.labels.name
            or (experiment.exported.described.name if experiment.exported else "")
            for each, experiment in zip(self.subjects, experiments, strict=True)
        ]
        is_first = len(self.differences) == 1 and not any(each.exported for each in experiments)
        named = [differing, people] if is_first else [people, differing]
        if any(each.variants for each in experiments):
            named = [people, _beside_study(experiments)]
        short = (
            called
            for called in named
            if len(set(called)) == len(called) and all(0 < len(each) <= _LONGEST for each in called)
        )
        return dict(zip(self.letters, next(short, self.letters.values()), strict=True))


def _beside_study(experiments: Sequence[Experiment]) -> list[str]:
    """What each experiment beside a study is called, none of them as a variant is."""
    studies = [each for each in experiments if each.variants]
    study = "study of {}" if len(studies) > 1 else "the study"
    variants = {each.name for study in studies for each in study.members}
    is_alone = len(experiments) - len(studies) == 1

    def called(experiment: Experiment) -> str:
        words = sharding_words(experiment).replace(" sharded", "")
        return ("the run" if is_alone else f"run of {words}") if words in variants else words

    return [
        study.format(len(each.variants)) if each.variants else called(each) for each in experiments
    ]


def compare_runs(subjects: Sequence[Subject], baseline: str | None = None) -> Compared:
    """Compare runs with a baseline, the first where none is named. RequestError where there are too
    few or too many, one of them twice, or the baseline is none of them.
    """
    check_compared([each.run for each in subjects], baseline)
    subjects = answered(subjects)
    named = tuple(
        replace(each, letter=letter) for each, letter in zip(subjects, NAMES, strict=False)
    )
    base = next(each for each in named if baseline in (None, each.run))
    others = [each for each in named if each.run != base.run]
    differing = difference_rows([each.summary.experiment for each in named])
    return Compared(
        named,
        base,
        tuple((label, tuple(texts)) for label, texts in differing),
        tuple(
            _between(each, each.fastest, base, base.fastest, len(named))
            for each in others
            if each.fastest and base.fastest
        ),
        tuple(
            _between(each, row, base, row, len(named))
            for each in others
            for row in _shared(each, base)
        ),
    )


def answered(subjects: Sequence[Subject]) -> Sequence[Subject]:
    """Returns runs with the rows that answer for them: the best sharded ones, where one device is the
    fastest in each and computes the same in all.
    """
    results = [
        each.result for each in subjects if each.result and not each.result.experiment.variants
    ]
    rows = [(each, fastest_row(each)) for each in results]
    is_alone = len(rows) == len(subjects) and all(
        row and STRATEGIES[each.row(row).strategy].is_single_device and fastest_sharded_row(each)
        for each, row in rows
    )
    works = {_work(each, row) for each, row in rows if row}
    differ = len({each.experiment.id for each in results}) > 1
    return [replace(each, is_sharded=is_alone and differ and len(works) == 1) for each in subjects]


def check_compared(ids: Sequence[str], baseline: str | None) -> None:
    """RequestError where things of these ids cannot be compared with that baseline."""
    if len(set(ids)) < len(ids):
        raise refuse("a comparison", "names one run twice", "name each once")
    if not FEWEST <= len(ids) <= MOST:
        raise refuse(
            f"a comparison of {numbered(len(ids), 'run')}",
            f"is not of {FEWEST} to {MOST}",
            "name so many",
        )
    if baseline not in (None, *ids):
        raise refuse(f"baseline {baseline}", "is none of the runs", f"use one of {', '.join(ids)}")


def _program_row(each: Subject, called: str) -> ProgramRow:
    result = each.result
    if result is None or not result.strategies:
        return ProgramRow(called, each.summary.experiment.members[0].experiment, None)
    name = each.fastest or next(iter(result.strategies))
    return ProgramRow(called, result.row(name).experiment, result.strategies[name])


def _shared(one: Subject, other: Subject) -> list[str]:
    if one.result is None or other.result is None:
        return []
    theirs = other.result.strategies
    return [name for name in one.result.order if name in theirs]


def _between(one: Subject, row: str, base: Subject, base_row: str, count: int) -> Between:
    assert one.result is not None and base.result is not None
    environments = one.result.environment_of(row), base.result.environment_of(base_row)
    timed = [one.result.strategies[row].median_s, base.result.strategies[base_row].median_s]
    ran = [one.result.row(row).experiment, base.result.row(base_row).experiment]
    reasons = apart(*environments, (one.moment, base.moment), (one.place, base.place), any(timed))
    if ran[0].exported and ran[1].exported and ran[0].program != ran[1].program:
        reasons = (OTHER_PROGRAM, *reasons)
    if _work(one.result, row) != _work(base.result, base_row):
        reasons = (OTHER_WORK, *reasons)
    return between(one.result, row, base.result, base_row, count, reasons)


def _work(result: Result, row: str) -> tuple[object, ...]:
    """What a row computes, whatever its sharding and version; of a training step its model."""
    experiment = result.row(row).experiment
    if experiment.plan:
        return (experiment.workload, experiment.option("model"))
    program = dict(experiment.options).get("program")
    return (experiment.workload, program, experiment.dims, experiment.dtype)


def is_program(experiment: Experiment) -> bool:
    """Returns True of an exported program and of a function of the user's own."""
    return experiment.exported is not None or experiment.what.source is not None

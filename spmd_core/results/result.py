"""The result of a run: what was measured, with None wherever nothing was."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment, Row
from spmd_core.facts import (
    SAME_PROGRAM,
    Accident,
    Collective,
    Estimate,
    LostBatch,
    PredictedMemory,
    Prediction,
    Ratio,
    Shardings,
    StoredFact,
    Trace,
)
from spmd_core.results.machine import (
    Ceiling,
    Cost,
    Environment,
    Fit,
    MoveCost,
    Operation,
    Point,
    Roofline,
)

Status = Literal["ok", "error", "cancelled"]
INEXPRESSIBLE = "inexpressible"  # kind of failure: the strategy has no way to write the sharding
DISPATCH_FACTOR = 3.0  # of the dispatch floor: below it, a call is most of what is measured
LOST = "CompileLost"  # by a cluster, which did not compile it
OUT_OF_MEMORY = "resource_exhausted"  # of a device, or of the machine


class Next(Frozen):
    """The next thing to try: the rule that fired, its sentence, the number that made it fire, and
    the experiment that one click opens; of a plan with a better estimate its time, for as many
    tokens, and its memory.
    """

    rule: str
    sentence: str
    number: float
    experiment: Experiment
    takes_s: float | None = None
    memory: PredictedMemory | None = None


class Phases(Frozen):
    """Seconds of each phase, apart from one another; None where a strategy has no such phase."""

    trace: float | None = None
    lower: float | None = None
    compile: float | None = None
    first_run: float | None = None


class MemoryBytes(Frozen):
    """Bytes per device by the compiler's account; `host` is what is in host memory."""

    argument: int | None = None
    output: int | None = None
    temp: int | None = None
    peak: int | None = None
    host: int | None = None


class ShardReport(Frozen):
    """What one device holds: JAX's number of it, its position in the mesh's device order, and
    [start, stop) of each dim.

    Results of before gave the position as `device`.
    """

    device: int | None
    position: int | None = None
    index: tuple[tuple[int, int], ...]

    @property
    def at(self) -> int | None:
        """Its position in the mesh's device order."""
        return self.device if self.position is None else self.position


class ArrayReport(Frozen):
    """An operand or result as JAX reports it. `shards` up to 64 devices, `values` (flat) up to 256
    elements.
    """

    shape: tuple[int, ...]
    dtype: str
    # per dim: None, an axis, or a list of axes; None where the sharding has no mesh
    spec: tuple[Any, ...] | None = None
    memory: str | None = None
    shards: tuple[ShardReport, ...] | None = None
    # non-finite values as "nan", "inf", "-inf"
    values: tuple[float | int | str | None, ...] | None = None


class Failure(Frozen):
    """Why something failed: the kind of error, and its words."""

    kind: str
    message: str


class Unsharded(Frozen):
    """A second timing of `constrained`: calls with unsharded operands, which reshard them every
    time.
    """

    samples_s: tuple[float, ...]
    median_s: float | None


class WrongElement(Frozen):
    """One element of a result: what a strategy gave, the right value, and the largest error that
    rounding explains.

    Numbers that are not finite are "nan", "inf" or "-inf".
    """

    result: str  # the array's name
    index: tuple[int, ...]
    got: float | str
    expected: float | str
    bound: float | str


class Wrong(Frozen):
    """Elements further from the right value than rounding explains: how many, of how many compared,
    and the worst of them.
    """

    count: int
    of: int
    share: float
    worst: WrongElement


class Imprecise(Frozen):
    """Elements that are further from the right value than rounding explains, and no further than
    sums that are kept in `dtype` explain, one term after the other.

    `off`: their error over their values, as roots of mean squares. `terms`: of the longest sum,
    None where they were not counted.
    """

    count: int
    of: int
    share: float
    off: float
    terms: int | None
    dtype: str


class HostTime(Frozen):
    """What one process of a run on several hosts measured: its host, number and devices, and the
    median seconds of a call there.
    """

    host: str
    process: int
    devices: int
    median_s: float


_OF_EXPORTED = ("lost_batch", "accidents")


class StrategyResult(Frozen):
    """One strategy of a run. Sample i of every strategy belongs to round i."""

    status: Status
    error: Failure | None = None
    phases_s: Phases = Phases()
    # one per round: seconds per call, the median of the round's turns
    samples_s: tuple[float, ...] = ()
    remeasured_s: tuple[float, ...] = ()  # further rounds in the same process
    # what samples_s, then remeasured_s are the medians of: every block of calls
    turns_s: tuple[tuple[float, ...], ...] = ()
    # of each further process: its rounds, as turns_s has them; () where it was not measured there
    again_s: tuple[tuple[tuple[float, ...], ...], ...] = ()
    calls_per_sample: int | None = None
    median_s: float | None = None
    hosts: tuple[HostTime, ...] = ()  # of several: `median_s` is that of the slowest
    iqr_s: float | None = None
    ci95_s: tuple[float, float] | None = None
    outliers: tuple[int, ...] = ()  # indices into samples_s; flagged, never dropped
    from_unsharded: Unsharded | None = None
    notes: tuple[str, ...] = ()  # for those who read: not stored, but by older versions
    facts: tuple[StoredFact, ...] | None = None  # what notes are made of; None: notes are stored
    floor_s: float | None = None  # the dispatch floor of its devices
    warnings: tuple[str, ...] = ()  # what the compiler wrote on stderr
    collectives: tuple[Collective, ...] | None = None
    # what a device does besides collectives, as compiled; None where that was not read
    operations: tuple[Operation, ...] | None = None
    memory_bytes: MemoryBytes | None = None
    predicted_s: Estimate | None = None
    # of a compile-only target: all facts of the compiled module
    prediction: Prediction | None = None
    lost_batch: LostBatch | None = None  # of an exported program that was compiled
    accidents: tuple[Accident, ...] = ()  # the same
    operands: dict[str, ArrayReport] = {}
    outputs: dict[str, ArrayReport] = {}
    printed: dict[str, str] = {}  # what a small program reports besides arrays
    # of a sweep of collectives, and of a calibration
    points: tuple[Point, ...] = ()
    fits: tuple[Fit, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    costs: tuple[Cost, ...] = ()
    move_costs: tuple[MoveCost, ...] = ()
    trace: Trace | None = None  # where the experiment requests one
    shardings: Shardings | None = None  # where the command line requests them; stored apart
    roofline: Roofline | None = None  # by the latest calibration of the same target and mesh
    bytes_per_s: float | None = None  # of a transfer: bytes of the array over the median
    # of a training run: the loss of each step, and its seconds as step_s
    series: dict[str, tuple[float, ...]] = {}
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    tolerance: float | None = None  # of older results: right meant max_rel_error below this
    correct: bool | None = None
    wrong: Wrong | None = None  # None where every element is right, or none was judged
    imprecise: Imprecise | None = None  # of what is not wrong: how far its sums are off

    @model_serializer(mode="wrap")
    def _write(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what only exported programs have, where there is none."""
        data = fields(self)
        return {name: value for name, value in data.items() if value or name not in _OF_EXPORTED}

    @property
    def processes(self) -> int:
        """In how many it was timed."""
        return 1 + sum(map(bool, self.again_s))

    @property
    def spread(self) -> float | None:
        """The middle half of its samples over their median; None where it was not timed."""
        return self.iqr_s / self.median_s if self.iqr_s is not None and self.median_s else None

    @property
    def is_dispatch_bound(self) -> bool:
        """Returns True if the median is less than a few times the dispatch floor."""
        floor = DISPATCH_FACTOR * (self.floor_s or 0.0)
        return self.median_s is not None and self.median_s < floor

    @property
    def same_program(self) -> str | None:
        """The first row of the result that was compiled to the same program; None where none was."""
        return next(
            (str(fact.values["row"]) for fact in self.facts or () if fact.kind == SAME_PROGRAM),
            None,
        )

    @property
    def time_s(self) -> float | None:
        """Seconds of a call: the measured median, else the estimate; None where neither is known."""
        predicted = self.predicted_s and self.predicted_s.estimate
        return predicted if self.median_s is None else self.median_s  # pyrefly: ignore[bad-return]

    @property
    def prediction_error(self) -> float | None:
        """By what share of the measured time the estimate is above it (below it where negative);
        None without both.
        """
        return (
            self.predicted_s.estimate / self.median_s - 1
            if self.predicted_s and self.median_s
            else None
        )


class Comparison(Frozen):
    """The answer: the fastest strategy that computed the right values, and how the others compare.
    Of a study whose rows are only predicted: by their estimates, per token where they have tokens.
    """

    fastest: str
    ratios: tuple[Ratio, ...]
    tied: tuple[str, ...]  # strategies that are the same as the fastest, or may be
    sentence: str = ""  # the answer in words, for those who read: not stored

    def by_medians(self, medians_s: Mapping[str, float | None]) -> tuple[Ratio, ...]:
        """The ratios in the order of these medians. Rows that further processes left out are last:
        their medians are of other rounds than those of the rest.
        """
        return tuple(
            sorted(
                self.ratios,
                key=lambda each: (each.processes == 1, medians_s.get(each.strategy) or math.inf),
            )
        )

    def quotient(self, ratio: Ratio, medians_s: Mapping[str, float | None]) -> float | None:
        """Returns a row's median over that of the fastest; None where one is unknown."""
        best_s, other_s = medians_s.get(self.fastest), medians_s.get(ratio.strategy)
        return other_s / best_s if best_s and other_s else None


class Result(Frozen):
    """The outcome of a run, as `python -m spmd_core run --json` prints it.

    Of a study `strategies` has every row: `variant/strategy` -> what it was.
    """

    run: str
    experiment: Experiment
    environment: Environment
    strategies: dict[str, StrategyResult]
    comparison: Comparison | None = None
    next: Next | None = None  # what to try next, for those who read: not stored
    partial: bool = False  # cancelled or crashed before it was done
    looks: tuple[int, ...] = ()  # rounds after which verdicts were looked at before the last one
    notes: tuple[str, ...] = ()  # for those who read: not stored, but by older versions
    # of a study, where some rows are measured and others predicted: how the predicted ones compare
    predicted: Comparison | None = None
    # of a study over several targets: those beside the experiment's own
    environments: dict[str, Environment] = {}

    # of a run on several hosts: each with its median of the fastest strategy
    hosts: tuple[HostTime, ...] = ()

    @model_serializer(mode="wrap")
    def _write(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what only some runs have, where there is none."""
        data = fields(self)
        return {
            name: value
            for name, value in data.items()
            if value or name not in ("predicted", "environments", "hosts", "looks")
        }

    @property
    def is_settled(self) -> bool:
        """Whether it ended before the planned rounds, since every verdict was settled."""
        taken = max((len(each.samples_s) for each in self.strategies.values()), default=0)
        return not self.partial and self.looks[-1:] == (taken,)

    @property
    def baselines(self) -> frozenset[str]:
        """Rows of a study that shard nothing: one of all variants, or one of each in older results."""
        return self.experiment.baselines.intersection(self.strategies)

    @property
    def order(self) -> tuple[str, ...]:
        """Strategies from the fastest to the slowest: measured ones by their median, those only
        predicted by their estimate; then, in the order of the request, those without either. Of a
        study variants by their best rows, and the rows of each together; baselines last of what
        was measured."""
        ranked: list[str] = []
        if self.comparison:
            others = self.comparison.by_medians(self.medians_s)
            ranked = [self.comparison.fastest, *(each.strategy for each in others)]
        predicted = self.only_predicted_s
        ranked += sorted(predicted, key=lambda name: predicted[name] / self.tokens(name))
        names = tuple(dict.fromkeys((*ranked, *self.strategies)))
        aside = self.baselines
        variants = list(
            dict.fromkeys(self.row(each).variant for each in names if each not in aside)
        )
        variants += [self.row(each).variant for each in names]  # of those with baselines alone

        def place(name: str) -> tuple[bool, bool, int]:
            row = self.row(name)
            absent = row.experiment.place.is_absent
            return absent, name in aside, variants.index(row.variant)

        return tuple(sorted(names, key=place))

    @property
    def ordered(self) -> tuple[tuple[str, StrategyResult], ...]:
        """Name and outcome of every strategy, in that order."""
        return tuple((name, self.strategies[name]) for name in self.order)

    def row(self, name: str) -> Row:
        """The variant, experiment and strategy of one of `strategies`."""
        return self.experiment.rows_by_key.get(name) or Row(name, "", self.experiment, name)

    def tokens(self, name: str) -> int:
        """What a row's time is divided by where rows are compared: 1, but for training steps of
        different batches.
        """
        if len({row.experiment.tokens for row in self.experiment.rows}) == 1:
            return 1
        return self.row(name).experiment.tokens

    def environment_of(self, name: str) -> Environment:
        """The environment of the target of one of `strategies`."""
        return self.environments.get(self.row(name).experiment.target, self.environment)

    def of_variant(self, name: str) -> "Result":
        """The results of one variant of a study, as if it had been run alone; the order of its
        strategies is left to `stats.compare`.
        """
        rows = [row for row in self.experiment.rows if row.variant == name]
        outcomes = {
            row.strategy: self.strategies[row.key] for row in rows if row.key in self.strategies
        }
        target = rows[0].experiment.target
        return self.model_copy(
            update={
                "experiment": rows[0].experiment,
                "strategies": outcomes,
                "comparison": None,
                "next": None,
                "predicted": None,
                "environments": {},
                "environment": self.environments.get(target, self.environment),
            }
        )

    def by_variant(self, change: "Callable[[Result], Result]") -> "Result":
        """The result with the strategies of each variant as `change` leaves them."""
        if not self.experiment.variants:
            return change(self)
        outcomes = dict(self.strategies)
        for each in self.experiment.variants:
            changed = change(self.of_variant(each.name)).strategies
            outcomes |= {f"{each.name}/{name}": outcome for name, outcome in changed.items()}
        return self.model_copy(update={"strategies": outcomes})

    @property
    def medians_s(self) -> dict[str, float | None]:
        """Seconds per call by strategy; None where it was not measured."""
        return {name: outcome.median_s for name, outcome in self.strategies.items()}

    @property
    def only_predicted_s(self) -> dict[str, float]:
        """Predicted seconds by strategy, of those that were not measured: on a topology that is not
        attached.
        """
        return {
            name: outcome.predicted_s.estimate
            for name, outcome in self.strategies.items()
            if outcome.predicted_s and outcome.median_s is None
        }

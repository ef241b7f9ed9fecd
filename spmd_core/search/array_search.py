"""The candidates of an experiment's shardings: each pruned, or estimated in closed form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from spmd_core.experiment import Experiment, Sharded, rows_dim
from spmd_core.facts import Estimate, StoredFact
from spmd_core.fields import axes_json
from spmd_core.machine import get_topology, parse_target
from spmd_core.roofline import (
    Calibration,
    ShardedFormula,
    TimeModel,
    bound_s,
    formula_of,
    time_model,
)
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.candidate import Candidate, Reason, Rule, too_large
from spmd_core.search.placement import Placements, is_ambiguous
from spmd_core.search.spaces.array_space import canonical, shardings, size_of
from spmd_core.workloads import STRATEGIES

# How far the closed form may be off, either way: a guess, and wide, since it only orders
_LOW, _HIGH = 0.5, 2.0
_EQUAL: Reason = "equal to another by renaming"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An earlier sharding that another one equals. `always`: under every strategy; else only where
    collectives are written by hand, since a compiler chooses by how the axes are written.
    """

    number: int
    rule: Rule
    always: bool = True


@dataclass(frozen=True)
class ArrayPoint:
    """A sharding of a question, which becomes an experiment when it is run."""

    question: ArrayQuestion
    sharded: Sharded

    def experiment(self, strategies: tuple[str, ...]) -> Experiment:
        """As it is run under these strategies; RequestError where they cannot express it."""
        table = {dim: axes_json(axes) for dim, axes in self.sharded.table}
        specs = {name: [axes_json(axes) for axes in spec] for name, spec in self.sharded.overrides}
        return self.question.experiment(
            self.sharded.target,
            mesh=self.sharded.mesh,
            sharding=table,
            overrides=specs,
            strategies=strategies,
        )

    @property
    def kind(self) -> str:
        """Which standard sharding it is, by what its table shards: result rows, weights, or both."""
        return self._kind

    @cached_property
    def _kind(self) -> str:
        what, sizes = self.question.sample.what, self.question.sample.sizes
        table = {dim: set(axes) for dim, axes in self.sharded.table if axes}
        rows = table.pop(rows_dim(what, sizes), set())
        if not rows:
            return "tensor" if len(table) == 1 else ""
        if not table:
            return "data"
        shared = [bool(axes & rows) for axes in table.values()]
        if all(shared):
            return "fsdp"
        return "mixed" if not any(shared) and len(table) == 1 else ""

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for shardings that differ in the order and factors of their axes only."""
        return self._alike

    @cached_property
    def _alike(self) -> tuple[object, ...]:
        sample = self.question.sample_on(self.sharded.target)
        return canonical(self.sharded, sample.what, sample.sizes)

    @property
    def key(self) -> tuple[object, ...]:
        """What is run together: one sharding under all strategies."""
        return (self.sharded,)


class Space:
    """The shardings of a question, with the formula of each target. `cores` are this machine's,
    `known` what was calibrated, by target.
    """

    def __init__(
        self,
        question: ArrayQuestion,
        cores: int,
        known: Mapping[str, Calibration] = MappingProxyType({}),
    ):
        self.question, self._cores, self._known = question, cores, known
        self._last: ShardedFormula | None = None
        self._shared: tuple[ShardedFormula, tuple[dict[str, float], float]] | None = None
        self._chips = {target: question.count(target) for target in question.targets}
        self._formulas = {
            target: formula_of(question.sample_on(target), self.times(target), cores)
            for target in question.targets
        }
        self._placements: dict[str, Placements] = {}
        for target, formula in self._formulas.items():
            if parse_target(target).is_absent:
                order = dict(formula.experiment.options).get("device_order")
                placed = Placements(get_topology(target), str(order or "topology"))
                self._placements[target] = placed

    @cached_property
    def size(self) -> int:
        """Candidates, before anything is pruned."""
        return size_of(self.question) * len(self.question.strategies)

    def candidates(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Candidate]:
        """Every candidate in order, pruned or estimated; until `stop`."""
        seen: dict[object, int] = {}
        one_device: dict[str, int] = {}
        number, strategies = 0, self.question.strategies
        for sharded in shardings(self.question):
            if stop():
                return
            refusal = self._ruled_out(sharded)
            equal = None if refusal else self._duplicate(sharded, seen, number)
            for place, strategy in enumerate(strategies):
                same = (
                    one_device.setdefault(strategy + sharded.target, number + place)
                    if STRATEGIES[strategy].is_single_device
                    else number + place
                )
                if same != number + place:
                    yield self._pruned(
                        sharded,
                        strategy,
                        number + place,
                        _EQUAL,
                        StoredFact(kind="one device"),
                        same,
                    )
                elif STRATEGIES[strategy].is_single_device:
                    yield self._estimated(sharded, strategy, number + place)
                elif refusal is not None:
                    yield self._pruned(sharded, strategy, number + place, *refusal)
                elif equal is not None and (
                    equal.always or STRATEGIES[strategy].collectives == "program"
                ):
                    yield self._pruned(
                        sharded, strategy, number + place, _EQUAL, equal.rule, equal.number + place
                    )
                else:
                    yield self._estimated(sharded, strategy, number + place)
            number += len(strategies)

    def times(self, target: str) -> TimeModel:
        """What is known of a target."""
        return time_model(self.question.sample_on(target), self._known.get(target), self._cores)

    def _of(self, sharded: Sharded) -> ShardedFormula:
        if self._last is None or self._last.sharded is not sharded:
            self._last = ShardedFormula(self._formulas[sharded.target], sharded)
        return self._last

    def _ruled_out(self, sharded: Sharded) -> tuple[Reason, Rule] | None:
        if detail := _indivisible(self._of(sharded)):
            return "does not divide", detail
        placed = self._placements.get(sharded.target)
        capacity = placed and placed.topology.chip.device_hbm_bytes
        limit = min(filter(None, (capacity, self.question.memory_bytes)), default=None)
        held = self._of(sharded).held if limit else 0.0
        if limit and held > limit:
            return "does not fit", too_large(held, limit, capacity, "as arrays")
        return None

    def _duplicate(
        self, sharded: Sharded, seen: dict[object, int], number: int
    ) -> Duplicate | None:
        """The earlier sharding that this one equals; None where it is new."""
        sample = self._formulas[sharded.target].experiment
        if sharded.target not in self._placements:
            same = seen.setdefault(canonical(sharded, sample.what, sample.sizes), number)
            return None if same == number else Duplicate(same, StoredFact(kind="other axis names"))
        own, turned = self._placements[sharded.target].keys(sharded, sample.what, sample.sizes)
        first, same = seen.setdefault(("as it is", own), number), seen.setdefault(turned, number)
        if same == number:
            return None
        kind = "same placement" if first != number else "turned placement"
        return Duplicate(
            same,
            StoredFact(kind=kind),
            not is_ambiguous(sharded, sample.what, sample.sizes),
        )

    def _name(self, sharded: Sharded, strategy: str) -> str:
        """What distinguishes it from every other candidate: of several targets, its own as well."""
        where = [sharded.target.removeprefix("tpu:")] if len(self.question.targets) > 1 else []
        return " · ".join([sharded.words, strategy, *where])

    def _pruned(
        self,
        sharded: Sharded,
        strategy: str,
        number: int,
        reason: Reason,
        detail: Rule,
        same: int | None = None,
    ) -> Candidate:
        return Candidate(
            number,
            self._name(sharded, strategy),
            sharded.target,
            self._chips[sharded.target],
            "pruned",
            reason,
            detail,
            strategy,
            equal=same,
            point=ArrayPoint(self.question, sharded),
        )

    def _estimated(self, sharded: Sharded, strategy: str, number: int) -> Candidate:
        of = self._of(sharded)
        parts, bound = self._costs(of, strategy)
        seconds = sum(parts.values())
        return Candidate(
            number,
            self._name(sharded, strategy),
            sharded.target,
            self._chips[sharded.target],
            "estimated",
            strategy=strategy,
            predicted=Estimate(low=_LOW * seconds, estimate=seconds, high=_HIGH * seconds),
            memory_bytes=int(of.held),
            bound_s=bound,
            parts=tuple(parts.items()),
            point=ArrayPoint(self.question, sharded),
        )

    def _costs(self, of: ShardedFormula, strategy: str) -> tuple[dict[str, float], float]:
        """Parts and bound, which all strategies share but for those of one device."""
        if STRATEGIES[strategy].is_single_device:
            return of.seconds(strategy), 0.0
        if self._shared is None or self._shared[0] is not of:
            self._shared = of, (of.seconds(strategy), bound_s(of, strategy))
        return self._shared[1]


def _indivisible(of: ShardedFormula) -> Rule:
    """The dim that does not divide over its axes; "" where all do."""
    sharded, sizes = of.sharded, of.formula.sizes
    if not sharded.overrides and all(
        sizes.get(dim, 0) % sharded.parts(axes) == 0 for dim, axes in sharded.table
    ):
        return ""
    for array in of.formula.experiment.what.arrays:
        spec = of.specs[array]
        for dim, axes in zip(array.dims[len(array.dims) - len(spec) :], spec, strict=True):
            if axes and sizes[dim] % sharded.parts(axes):
                over = " and ".join(f"{axis}={dict(sharded.mesh)[axis]}" for axis in axes)
                return StoredFact(
                    kind="does not divide", values={"what": f"{dim}={sizes[dim]}", "over": over}
                )
    return ""

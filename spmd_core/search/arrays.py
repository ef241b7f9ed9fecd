"""The candidates of an experiment's shardings: each pruned, or estimated in closed form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from spmd_core.base import bytes_text
from spmd_core.experiment import STRATEGIES, Experiment, axes_json
from spmd_core.machine import get_topology, parse_target
from spmd_core.results import Estimate
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.array_space import Sharded, canonical, rows_dim, shardings, size_of
from spmd_core.search.candidate import Candidate, Reason
from spmd_core.search.costs.bound import bound_s
from spmd_core.search.costs.formula import Formula
from spmd_core.search.costs.rates import CalibratedRates, HostRates, Rates, TpuRates
from spmd_core.search.placement import Placements, is_ambiguous
from spmd_core.time import Machine

# How far the closed form may be off, either way: a guess, and wide, since it only orders
_LOW, _HIGH = 0.5, 2.0
_EQUAL: Reason = "equal to another by renaming"


@dataclass(frozen=True, slots=True)
class Twin:
    """An earlier sharding that another one equals. `always`: under every strategy; else only where
    collectives are written by hand, since a compiler chooses by how the axes are written.
    """

    number: int
    words: str
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
        """Which classic it is, by what its table shards: the result's rows, weights, or both."""
        return self._kind

    @cached_property
    def _kind(self) -> str:
        what, sizes = self.question.sample.what, self.question.sample.sizes
        table = {dim: set(axes) for dim, axes in self.sharded.table if axes}
        rows = table.pop(rows_dim(what, sizes), set())
        if not rows or not table:
            if rows:
                return "data"
            if len(table) == 1:
                return "tensor"
            return ""
        shared = [bool(axes & rows) for axes in table.values()]
        if all(shared):
            return "fsdp"
        if not any(shared) and len(table) == 1:
            return "mixed"
        return ""

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
    `machines` what was calibrated, by target.
    """

    def __init__(
        self,
        question: ArrayQuestion,
        cores: int,
        machines: Mapping[str, Machine] = MappingProxyType({}),
    ):
        self.question, self._cores, self._machines = question, cores, machines
        self._last: tuple[tuple[Sharded, bool], tuple[dict[str, float], float, float]] | None = None
        self._formulas = {target: self._formula(target) for target in question.targets}
        self._placements = {
            target: self._placed(target)
            for target in question.targets
            if parse_target(target).is_absent
        }

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
            found = self._ruled_out(sharded)
            twin = None if found else self._twin(sharded, seen, number)
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
                        "uses one device, whatever the sharding",
                        same,
                    )
                elif STRATEGIES[strategy].is_single_device:
                    yield self._estimated(sharded, strategy, number + place)
                elif found is not None:
                    yield self._pruned(sharded, strategy, number + place, *found)
                elif twin is not None and (
                    twin.always or STRATEGIES[strategy].collectives == "program"
                ):
                    yield self._pruned(
                        sharded, strategy, number + place, _EQUAL, twin.words, twin.number + place
                    )
                else:
                    yield self._estimated(sharded, strategy, number + place)
            number += len(strategies)

    def _formula(self, target: str) -> Formula:
        devices, place = self.question.count(target), parse_target(target)
        sample = self.question.sample_on(target)
        rates: Rates = (
            TpuRates(get_topology(place), sample.dtype)
            if place.is_absent
            else HostRates(devices, self._cores)
        )
        if isinstance(rates, HostRates) and target in self._machines:
            rates = CalibratedRates(self._machines[target], rates, sample.dtype)
        return Formula(sample, rates, devices)

    def _placed(self, target: str) -> Placements:
        order = dict(self._formulas[target].experiment.options).get("device_order")
        return Placements(get_topology(target), str(order or "topology"))

    def _ruled_out(self, sharded: Sharded) -> tuple[Reason, str] | None:
        formula = self._formulas[sharded.target]
        if detail := _indivisible(sharded, formula):
            return "does not divide", detail
        limits = (
            [self._placements[sharded.target].topology.chip.device_hbm_bytes]
            if sharded.target in self._placements
            else []
        )
        limits += [self.question.memory_bytes] if self.question.memory_bytes else []
        held = formula.held(sharded) if limits else 0.0
        if limits and held > min(limits):
            what = "allowed" if min(limits) == self.question.memory_bytes else "that it has"
            return (
                "does not fit",
                f"operands and results of {bytes_text(held)} per device "
                f"are more than the {bytes_text(min(limits))} {what}",
            )
        return None

    def _twin(self, sharded: Sharded, seen: dict[object, int], number: int) -> Twin | None:
        """The earlier sharding that this one equals; None where it is new."""
        sample = self._formulas[sharded.target].experiment
        if sharded.target not in self._placements:
            key = canonical(sharded, sample.what, sample.sizes)
            same = seen.setdefault(key, number)
            return (
                None
                if same == number
                else Twin(same, "shards every array as another does, over axes of other names")
            )
        own, turned = self._placements[sharded.target].keys(sharded, sample.what, sample.sizes)
        first, same = seen.setdefault(("as it is", own), number), seen.setdefault(turned, number)
        if same == number:
            return None
        how = "" if first != number else ", on the grid turned or mirrored"
        return Twin(
            same,
            f"gives every device what another does{how}",
            not is_ambiguous(sharded, sample.what, sample.sizes),
        )

    def _name(self, sharded: Sharded, strategy: str) -> str:
        """What tells it apart from every other candidate: of several targets, its own as well."""
        where = [sharded.target.removeprefix("tpu:")] if len(self.question.targets) > 1 else []
        return " · ".join([sharded.words, strategy, *where])

    def _pruned(
        self,
        sharded: Sharded,
        strategy: str,
        number: int,
        reason: Reason,
        detail: str,
        same: int | None = None,
    ) -> Candidate:
        return Candidate(
            number,
            self._name(sharded, strategy),
            sharded.target,
            self._formulas[sharded.target].devices,
            "pruned",
            reason,
            detail,
            strategy,
            equal=same,
            point=ArrayPoint(self.question, sharded),
        )

    def _estimated(self, sharded: Sharded, strategy: str, number: int) -> Candidate:
        parts, bound, held = self._costs(sharded, STRATEGIES[strategy].is_single_device)
        seconds = sum(parts.values())
        return Candidate(
            number,
            self._name(sharded, strategy),
            sharded.target,
            self._formulas[sharded.target].devices,
            "estimated",
            strategy=strategy,
            predicted=Estimate(low=_LOW * seconds, estimate=seconds, high=_HIGH * seconds),
            memory_bytes=int(held),
            bound_s=bound,
            parts=tuple(parts.items()),
            point=ArrayPoint(self.question, sharded),
        )

    def _costs(self, sharded: Sharded, alone: bool) -> tuple[dict[str, float], float, float]:
        """Parts, bound and bytes, which all strategies of a sharding share but for those of one
        device.
        """
        if self._last is None or self._last[0] != (sharded, alone):
            formula, strategy = self._formulas[sharded.target], "single" if alone else "auto"
            costs = (
                formula.parts(sharded, strategy),
                bound_s(formula, sharded, strategy),
                formula.held(sharded),
            )
            self._last = ((sharded, alone), costs)
        return self._last[1]


def _indivisible(sharded: Sharded, formula: Formula) -> str:
    """The dim that does not divide over its axes, in a sentence; "" where all do."""
    if not sharded.overrides and all(
        formula.sizes.get(dim, 0) % sharded.parts(axes) == 0 for dim, axes in sharded.table
    ):
        return ""
    for array in formula.experiment.what.arrays:
        spec = formula.spec(array, sharded)
        for dim, axes in zip(array.dims[len(array.dims) - len(spec) :], spec, strict=True):
            size = formula.sizes[dim]
            if axes and size % sharded.parts(axes):
                over = " and ".join(f"{axis}={dict(sharded.mesh)[axis]}" for axis in axes)
                return f"{dim}={size} does not divide over {over}"
    return ""

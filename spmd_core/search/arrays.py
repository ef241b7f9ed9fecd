"""The candidates of an experiment's shardings: each pruned, or estimated in closed form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from spmd_core.bandwidth.expected import Machine
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.types import axes_json
from spmd_core.machine.targets import parse_target
from spmd_core.machine.topologies import get_topology
from spmd_core.results.prediction import Estimate
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.array_space import Sharded, canonical, rows_dim, shardings, size_of
from spmd_core.search.candidate import Candidate, Reason
from spmd_core.search.formula import Formula
from spmd_core.search.rates import CalibratedRates, HostRates, Rates, TpuRates
from spmd_core.units import bytes_text
from spmd_core.workloads.strategies import ONE_DEVICE

# How far the closed form may be off, either way: a guess, and wide, since it only orders
_LOW, _HIGH = 0.5, 2.0


@dataclass(frozen=True)
class ArrayPoint:
    """A sharding of a question, which becomes an experiment when it is run."""

    question: ArrayQuestion
    sharded: Sharded

    def experiment(self, strategies: tuple[str, ...]) -> Experiment:
        """As it is run under these strategies; RequestError where they cannot express it."""
        table = {dim: axes_json(axes) for dim, axes in self.sharded.table}
        specs = {name: [axes_json(axes) for axes in spec] for name, spec in self.sharded.overrides}
        return self.question.experiment(self.sharded.target, mesh=self.sharded.mesh, sharding=table,
                                        overrides=specs, strategies=strategies)

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
            return "data" if rows else "tensor" if len(table) == 1 else ""
        shared = [bool(axes & rows) for axes in table.values()]
        return "fsdp" if all(shared) else "mixed" if not any(shared) and len(table) == 1 else ""

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for shardings that differ in the order and factors of their axes only."""
        return self._alike

    @cached_property
    def _alike(self) -> tuple[object, ...]:
        sample = self.question.sample_on(self.sharded.target)
        return canonical(self.sharded, sample.what, sample.sizes, True)

    @property
    def key(self) -> tuple[object, ...]:
        """What is run together: one sharding under all strategies."""
        return (self.sharded,)


class Space:
    """The shardings of a question, with the formula of each target. `cores` are this machine's,
    `machines` what was calibrated, by target.
    """

    def __init__(self, question: ArrayQuestion, cores: int,
                 machines: Mapping[str, Machine] = MappingProxyType({})):
        self.question, self._cores, self._machines = question, cores, machines
        self._last: tuple[tuple[Sharded, bool], tuple[dict[str, float], float, float]] | None = None
        self._formulas = {target: self._formula(target) for target in question.targets}

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
            found = self._ruled_out(sharded, seen, number)
            for place, strategy in enumerate(strategies):
                same = one_device.setdefault(strategy + sharded.target, number + place) \
                    if strategy in ONE_DEVICE else number + place
                if same != number + place:
                    yield self._pruned(sharded, strategy, number + place,
                                       ("equal to another by renaming",
                                        "uses one device, whatever the sharding", same))
                elif found is not None and strategy not in ONE_DEVICE:
                    first = found[2] + place if found[2] is not None else None
                    yield self._pruned(sharded, strategy, number + place, (*found[:2], first))
                else:
                    yield self._estimated(sharded, strategy, number + place)
            number += len(strategies)

    def _formula(self, target: str) -> Formula:
        devices, place = self.question.count(target), parse_target(target)
        sample = self.question.sample_on(target)
        rates: Rates = TpuRates(get_topology(place)) if place.is_absent else \
            HostRates(devices, self._cores)
        if isinstance(rates, HostRates) and target in self._machines:
            rates = CalibratedRates(self._machines[target], rates, sample.dtype)
        return Formula(sample, rates, devices)

    def _ruled_out(self, sharded: Sharded, seen: dict[object, int],
                   number: int) -> tuple[Reason, str, int | None] | None:
        sample = self._formulas[sharded.target].experiment
        if detail := _indivisible(sharded, sample):
            return "does not divide", detail, None
        key = canonical(sharded, sample.what, sample.sizes, not sample.place.is_absent)
        if (same := seen.setdefault(key, number)) != number:
            return ("equal to another by renaming",
                    "shards every array as another does, over axes of other names", same)
        if sample.place.is_absent:
            capacity = get_topology(sample.place).chip.device_hbm_bytes
            held = self._formulas[sharded.target].held(sharded)
            if held > capacity:
                return ("does not fit", f"operands and results of {bytes_text(held)} per device "
                        f"are more than its {bytes_text(capacity)}", None)
        return None

    def _pruned(self, sharded: Sharded, strategy: str, number: int,
                why: tuple[Reason, str, int | None]) -> Candidate:
        reason, detail, same = why
        return Candidate(number, f"{sharded.words} · {strategy}", sharded.target,
                         self.question.count(sharded.target), "pruned", reason, detail, strategy,
                         equal=same, point=ArrayPoint(self.question, sharded))

    def _estimated(self, sharded: Sharded, strategy: str, number: int) -> Candidate:
        parts, bound, held = self._costs(sharded, strategy in ONE_DEVICE)
        seconds = sum(parts.values())
        return Candidate(number, f"{sharded.words} · {strategy}", sharded.target,
                         self.question.count(sharded.target), "estimated", strategy=strategy,
                         predicted=Estimate(low=_LOW * seconds, estimate=seconds,
                                            high=_HIGH * seconds),
                         memory_bytes=int(held), bound_s=bound, parts=tuple(parts.items()),
                         point=ArrayPoint(self.question, sharded))


    def _costs(self, sharded: Sharded, alone: bool) -> tuple[dict[str, float], float, float]:
        """Parts, bound and bytes, which all strategies of a sharding share but for those of one
        device.
        """
        if self._last is None or self._last[0] != (sharded, alone):
            formula, strategy = self._formulas[sharded.target], ONE_DEVICE[0] if alone else "auto"
            costs = (formula.parts(sharded, strategy), formula.bound(sharded, strategy),
                     formula.held(sharded))
            self._last = ((sharded, alone), costs)
        return self._last[1]


def _indivisible(sharded: Sharded, sample: Experiment) -> str:
    """The dim that does not divide over its axes, in a sentence; "" where all do."""
    sizes, what = sample.sizes, sample.what
    for array in what.arrays:
        spec = sharded.spec(what, sizes, array.name)
        for dim, size, axes in zip(array.present(sizes), array.shape(sizes), spec, strict=True):
            if size % sharded.parts(axes):
                over = " and ".join(f"{axis}={dict(sharded.mesh)[axis]}" for axis in axes)
                return f"{dim}={size} does not divide over {over}"
    return ""

"""How long a compiled program is expected to take on a machine that was calibrated: what a call
takes at least, and the sum of its operations and collectives, each as long as it was measured to
take alone, between the sizes that were measured.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spmd_core.results import Ceiling, Collective, Estimate, Operation, StrategyResult

Case = tuple[str, tuple[str, ...], int]  # kind, axes, devices of a group
Curve = tuple[np.ndarray, np.ndarray]  # sizes, ascending, and seconds
SURE = 0.15  # of the estimate, either way: what adding up single operations is off by, usually
FASTER = 2.0  # than the largest matmul, per FLOP: at most so many times
_LEAST_S = 1e-9
FLOOR, FLOOR_ALONE = "dispatch_mesh", "dispatch_single"
ALONE = "_alone"  # in the name of a ceiling of one device while the others rest


@dataclass(frozen=True)
class Machine:
    """A calibration, as what its target is expected to take."""

    found: StrategyResult

    @cached_property
    def ceilings(self) -> Mapping[str, Ceiling]:
        """By name."""
        return {each.name: each for each in self.found.ceilings}

    @property
    def is_whole(self) -> bool:
        """Whether it has what a prediction needs: one of before, or one that was stopped, has not."""
        kinds = {cost.operation.kind for cost in self.found.costs}
        return FLOOR in self.ceilings and {"matmul", "copy", "relayout"} <= kinds

    @property
    def floor_s(self) -> float:
        """Seconds of a call that does next to nothing."""
        return self.ceilings[FLOOR].value

    def seconds(
        self,
        operations: Iterable[Operation],
        collectives: Iterable[Collective],
        dtype: str = "float32",
    ) -> float:
        """Seconds of one execution."""
        return self.floor_s + self.work_s(operations, dtype) + self.moved_s(collectives)

    def work_s(self, operations: Iterable[Operation], dtype: str = "float32") -> float:
        """Seconds of what devices compute and copy."""
        return sum(self.operation_s(each, dtype) * each.count for each in operations)

    def moved_s(self, collectives: Iterable[Collective]) -> float:
        """Seconds of collectives."""
        return sum(
            self.collective_s(each.kind, each.axes, each.group_size, each.bytes) * each.times
            for each in collectives
        )

    def alone_s(self, operations: Iterable[Operation], dtype: str = "float32") -> float:
        """Seconds of a program on one device while the others rest, by how much faster one was seen
        to be then; infinite where that was not measured.
        """
        names = {"matmul": f"matmul_{dtype}"}
        total = self.ceilings[FLOOR_ALONE].value if FLOOR_ALONE in self.ceilings else math.inf
        for each in operations:
            name = names.get(each.kind, "copy")
            usual, alone = (self.ceilings.get(f"{name}{suffix}") for suffix in ("", ALONE))
            if usual is None or alone is None:
                return math.inf
            total += self.operation_s(each, dtype) * each.count * usual.value / alone.value
        return total

    def operation_s(self, each: Operation, dtype: str = "float32") -> float:
        """Seconds of one operation."""
        if each.kind == "matmul":
            return max(self._least_s, self._matmul_s(each.sizes)) * self._slower(dtype)
        if each.kind not in self._curves:
            return 0.0
        return max(self._least_s, _along(self._curves[each.kind], each.sizes[0]))

    def collective_s(
        self, kind: str, axes: Sequence[str], devices: int | None, nbytes: float
    ) -> float:
        """Seconds of one collective of `nbytes`, as results count them, beyond the floor; by those
        over the same axes, else among as many devices, else of its kind.
        """
        for known, floor_s in ((self._moves, 0.0), (self._points, self.floor_s)):
            cases = [case for case in known if case[0] == kind]
            alike = (
                [case for case in cases if case[1] == tuple(axes)]
                or [case for case in cases if case[2] == devices]
                or cases
            )
            if alike:
                return max(self._least_s, _along(known[alike[0]], nbytes) - floor_s)
        return 0.0

    @cached_property
    def _least_s(self) -> float:
        """Seconds of the smallest operation."""
        return min(cost.seconds for cost in self.found.costs)

    @cached_property
    def _curves(self) -> dict[str, Curve]:
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for cost in self.found.costs:
            if cost.operation.kind != "matmul":
                found[cost.operation.kind].append((cost.operation.sizes[0], cost.seconds))
        return {kind: _curve(points) for kind, points in found.items()}

    @cached_property
    def _moves(self) -> dict[Case, Curve]:
        """Of collectives within a program."""
        return _curves(
            (each.kind, each.axes, each.devices, each.bytes, each.seconds)
            for each in self.found.move_costs
        )

    @cached_property
    def _points(self) -> dict[Case, Curve]:
        """Of collectives that are programs of their own."""
        return _curves(
            (each.kind, each.axes, each.devices, each.bytes, each.time_s)
            for each in self.found.points
            if each.time_s and each.correct is not False
        )

    @cached_property
    def _rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Sides that matmuls were measured at, and the logarithm of seconds per FLOP of each three
        of them.
        """
        known: dict[tuple[int, ...], float] = {}
        for cost in self.found.costs:
            if cost.operation.kind == "matmul":
                rows, inner, columns = cost.operation.sizes
                known[rows, inner, columns] = known[rows, columns, inner] = cost.seconds
        every = sorted({side for sizes in known for side in sizes})
        # a side that was measured alone, as the smallest is, is none of the table's
        sides = [
            side
            for side in every
            if all((side, a, b) in known for a in every[-1:] for b in every[-1:])
        ] or every[-1:]
        grid = np.meshgrid(sides, sides, sides, indexing="ij")
        usual = np.median([value / math.prod(sizes) for sizes, value in known.items()])
        seconds = np.array(
            [
                known.get(sizes, usual * math.prod(sizes))
                for sizes in zip(*(each.flat for each in grid), strict=True)
            ]
        )
        seconds = _rising(seconds.reshape([len(sides)] * 3))
        rates = seconds / (2 * np.prod(grid, axis=0))
        # small ones are lost in the noise of the call: none is much faster than the large ones
        rates = np.maximum(rates, rates[-1, -1, -1] / FASTER)
        return np.log(np.array(sides, float)), np.log(rates)

    def _matmul_s(self, sizes: tuple[int, ...]) -> float:
        """Between the shapes that were measured by the logarithms; beyond them at their rate."""
        sides, table = self._rates
        for size in sizes:
            at = float(np.clip(math.log(max(1, size)), sides[0], sides[-1]))
            right = int(np.clip(np.searchsorted(sides, at), 1, max(1, len(sides) - 1)))
            if len(sides) == 1:
                table = table[0]
                continue
            share = (at - sides[right - 1]) / (sides[right] - sides[right - 1])
            table = (1 - share) * table[right - 1] + share * table[right]
        return float(math.exp(table)) * 2 * math.prod(sizes)

    def _slower(self, dtype: str) -> float:
        """How much longer a matmul takes than in float32."""
        usual, asked = (self.ceilings.get(f"matmul_{name}") for name in ("float32", dtype))
        return usual.value / asked.value if usual and asked else 1.0


def interval(seconds: float, spread: float = 0.0) -> Estimate:
    """An estimate with how far adding up is off, and what the calibration's own noise adds."""
    off = SURE + min(spread, 1.0)
    return Estimate(low=seconds / (1 + off), estimate=seconds, high=seconds * (1 + off))


def _curves(points: Iterable[tuple[str, tuple[str, ...], int, int, float]]) -> dict[Case, Curve]:
    found: dict[Case, list[tuple[float, float]]] = defaultdict(list)
    for kind, axes, devices, nbytes, seconds in points:
        found[kind, axes, devices].append((nbytes, seconds))
    return {case: _curve(every) for case, every in found.items()}


def _curve(points: Sequence[tuple[float, float]]) -> Curve:
    sizes, seconds = np.array(sorted(points)).T
    return sizes, np.maximum(_rising(seconds), _LEAST_S)


def _rising(seconds: np.ndarray) -> np.ndarray:
    """No more than a larger size takes, along every axis: one that took more was disturbed."""
    for axis in range(seconds.ndim):
        seconds = np.flip(np.minimum.accumulate(np.flip(seconds, axis), axis), axis)
    return seconds


def _along(curve: Curve, size: float) -> float:
    """Seconds at a size: straight lines between those measured; in proportion beyond the largest,
    and as the smallest below it.
    """
    sizes, seconds = curve
    return float(np.interp(size, sizes, seconds)) * max(1.0, size / float(sizes[-1]))

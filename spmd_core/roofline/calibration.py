"""What a calibration measured of a machine, read between the sizes that it measured: operations and
collectives beyond what the call takes that they are part of, and that floor.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spmd_core.base import by_key
from spmd_core.results import Ceiling, Operation, StrategyResult

Case = tuple[tuple[str, ...], int]  # axes, devices of a group
Curve = tuple[np.ndarray, np.ndarray]  # sizes, ascending, and seconds
FASTER = 2.0  # than the largest matmul, per FLOP: at most so many times
_LEAST_S = 1e-9
FLOOR, FLOOR_ALONE = "dispatch_mesh", "dispatch_single"
ALONE = "_alone"  # in the name of a ceiling of one device while the others rest


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device reaches: FLOP/s, bytes per second; and the dispatch floor of a call, seconds."""

    flops_per_s: float
    bytes_per_s: float
    floor_s: float


@dataclass(frozen=True)
class Calibration:
    """A calibration, as what its target is expected to take."""

    outcome: StrategyResult

    @cached_property
    def ceilings(self) -> Mapping[str, Ceiling]:
        """By name."""
        return {each.name: each for each in self.outcome.ceilings}

    @property
    def is_complete(self) -> bool:
        """Whether it has what a prediction needs: one of before, or one that was stopped, has not."""
        kinds = {cost.operation.kind for cost in self.outcome.costs}
        return FLOOR in self.ceilings and {"matmul", "copy", "relayout"} <= kinds

    @property
    def floor_s(self) -> float:
        """Seconds of a call that does next to nothing; 0 where that was not measured."""
        return self.ceilings[FLOOR].value if FLOOR in self.ceilings else 0.0

    @property
    def spread(self) -> float:
        """Of the repeats of that call, at most 1: large on a busy machine."""
        return min(1.0, self.ceilings[FLOOR].spread) if FLOOR in self.ceilings else 0.0

    def rates(self, dtype: str, *, alone: bool) -> Rates | None:
        """What a device reaches, `alone` or while all do the same; None where a ceiling is missing."""
        suffix = ALONE if alone else ""
        name = f"matmul_{dtype}" if f"matmul_{dtype}" in self.ceilings else "matmul_float32"
        floor = FLOOR_ALONE if alone else FLOOR
        names = (f"{name}{suffix}", f"copy{suffix}", f"copy_in_place{suffix}", floor)
        if any(each not in self.ceilings for each in names):
            return None
        flops, *copies, floor_s = (self.ceilings[each].value for each in names)
        # a fresh result costs the pages that it is on, which are used again
        return Rates(flops, max(copies), floor_s)

    def work_s(self, operations: Iterable[Operation], dtype: str = "float32") -> float:
        """Seconds of what devices compute and copy."""
        return sum(self.operation_s(each, dtype) * each.count for each in operations)

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

    def cases(self, kind: str) -> Mapping[Case, Curve]:
        """What was measured of a kind of collective, seconds beyond the floor: within a program,
        else as programs of their own.
        """
        return self._moves.get(kind) or self._points.get(kind) or {}

    def collective_s(self, curve: Curve, nbytes: float) -> float:
        """Seconds of a collective along one of these."""
        return max(self._least_s, _along(curve, nbytes))

    @cached_property
    def _least_s(self) -> float:
        return min((cost.seconds for cost in self.outcome.costs), default=_LEAST_S)

    @cached_property
    def _curves(self) -> Mapping[str, Curve]:
        curves = by_key(
            (cost.operation.kind, (cost.operation.sizes[0], cost.seconds))
            for cost in self.outcome.costs
            if cost.operation.kind != "matmul"
        )
        return {kind: _curve(points) for kind, points in curves.items()}

    @cached_property
    def _moves(self) -> Mapping[str, Mapping[Case, Curve]]:
        return _by_kind(
            (each.kind, each.axes, each.devices, each.bytes, each.seconds)
            for each in self.outcome.move_costs
        )

    @cached_property
    def _points(self) -> Mapping[str, Mapping[Case, Curve]]:
        """Of collectives on their own, without the floor of those that are a call each."""
        return _by_kind(
            (
                each.kind,
                each.axes,
                each.devices,
                each.bytes,
                each.time_s - (0.0 if each.in_program else self.floor_s),
            )
            for each in self.outcome.points
            if each.time_s and each.correct is not False
        )

    @cached_property
    def _matmuls(self) -> tuple[np.ndarray, np.ndarray]:
        """Sides that matmuls were measured at, and the logarithm of seconds per FLOP of each three
        of them.
        """
        known: dict[tuple[int, ...], float] = {}
        for cost in self.outcome.costs:
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
        sides, table = self._matmuls
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


def _by_kind(
    points: Iterable[tuple[str, tuple[str, ...], int, int, float]],
) -> dict[str, dict[Case, Curve]]:
    by_kind = by_key(
        (kind, ((axes, devices), (float(nbytes), seconds)))
        for kind, axes, devices, nbytes, seconds in points
    )
    return {
        kind: {case: _curve(every) for case, every in by_key(measured).items()}
        for kind, measured in by_kind.items()
    }


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

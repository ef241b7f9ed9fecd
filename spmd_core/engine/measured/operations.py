"""Seconds of single operations while every device does the same: elementwise loops, matmuls of many
shapes, collectives within a program. What a program is expected to take is a sum of these.

Each is what a call takes beyond one that does nothing, both timed in turns: what disturbs one then
disturbs the other too.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spmd_core.engine.hlo import read_module
from spmd_core.engine.measured import timing
from spmd_core.experiment import chosen_axes
from spmd_core.results import Cost, MoveCost, Operation, StrategyResult
from spmd_core.time import Calibration, operations_of

SIDES = (32, 128, 512, 1024)  # of matmuls: each shape of three of them
TINY = 8  # side of a matmul that takes no longer than any operation
LOOPS = (64, 128, 256, 512, 1024)  # sides of square arrays
SIGMOIDS = 256
MOVED = ("all-gather", "all-reduce", "all-to-all", "collective-permute")
MOVED_BYTES = (2**14, 2**18, 2**22)
WARM_CALLS, LEAST_CALLS, MOST_CALLS, POINT_S = 2, 5, 25, 0.03
LONG_S, LONG_CALLS = 0.03, 3  # of one call: fewer do
FASTER = 25  # percentile
LONG_FLOPS = 2**25  # of one device: a longer matmul need not be repeated within a call
REPEATED = 4
LEAST_S = 1e-9
_WIDTH = 4  # bytes of an element
_LEAST_SHARE = 0.25  # of what is left of a program's time for the operation it is measured for


@dataclass
class OperationCosts:
    """Costs on the mesh of a calibration's program, whose `names` these are."""

    names: Mapping[str, Any]
    operations: list[Cost] = field(default_factory=list)
    moves: list[MoveCost] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mesh = self.names["mesh"]
        self._nothing = self._compiled(self.names["copied"](self._mesh), self._array(1, 1))

    def measurements(self) -> Iterator[Callable[[], None]]:
        """Each measures one cost and keeps it; in an order in which each may need those before."""
        yield partial(self._matmul, TINY, TINY, TINY)
        for kind, side in itertools.product(("copy", "relayout"), LOOPS):
            yield partial(self._loop, kind, side)
        yield from (partial(self._result, side) for side in LOOPS[::2])
        yield self._transcendental
        # a product of two has [rows, inner] x [inner, columns] and the same with those exchanged
        for rows in SIDES:
            for inner, columns in itertools.combinations_with_replacement(SIDES, 2):
                yield partial(self._matmul, rows, inner, columns)
        sizes = dict(self._mesh.shape)
        for axes in chosen_axes({}, tuple(sizes.items())) if self._mesh.devices.size > 1 else ():
            for kind, nbytes in itertools.product(MOVED, MOVED_BYTES):
                yield partial(self._move, kind, axes, nbytes)

    @property
    def known(self) -> StrategyResult:
        """What is known so far."""
        return StrategyResult(
            status="ok", costs=tuple(self.operations), move_costs=tuple(self.moves)
        )

    def _array(self, *shape: int) -> Any:
        """[devices, *shape], a part of each device's own."""
        return self.names["filled"](self._mesh, shape, "float32")

    def _matmul(self, rows: int, inner: int, columns: int) -> None:
        count = 1 if 2 * rows * inner * columns > LONG_FLOPS else REPEATED
        arrays = [
            self._array(*shape) for shape in ((rows, inner), (inner, columns), (columns, inner))
        ]
        call = self._compiled(self.names["products"](self._mesh, count), *arrays)
        self._keep("matmul", (rows, inner, columns), self._beyond(call) / (2 * count))

    def _loop(self, kind: str, side: int) -> None:
        function = self.names["loops"](self._mesh, kind == "relayout", REPEATED)
        arrays = self._array(1), self._array(side, side)
        compiled = function.lower(*arrays).compile()
        sizes = (2 * _WIDTH * side**2,)
        every = operations_of(read_module(compiled)) or ()
        count = sum(each.count for each in every if (each.kind, each.sizes) == (kind, sizes))
        others = [each for each in every if (each.kind, each.sizes) != (kind, sizes)]
        took = self._beyond(partial(compiled, *arrays))
        self._keep(kind, sizes, self._without(took, others) / max(1, count))

    def _result(self, side: int) -> None:
        """What a fresh result costs beyond being written: its pages are new each time."""
        call = self._compiled(self.names["copied"](self._mesh), self._array(side, side))
        nbytes = _WIDTH * side**2
        copied = Operation(kind="copy", sizes=(2 * nbytes,))
        self._keep(
            "result", (nbytes,), self._beyond(call) - Calibration(self.known).work_s([copied])
        )

    def _without(self, took: float, others: Sequence[Operation]) -> float:
        """Seconds of a program without those operations that are known."""
        return max(_LEAST_SHARE * took, took - Calibration(self.known).work_s(others))

    def _transcendental(self) -> None:
        array = self._array(SIGMOIDS, SIGMOIDS)
        plain, call = (
            self._compiled(self.names[name](self._mesh), array) for name in ("copied", "sigmoids")
        )
        self._keep("transcendental", (SIGMOIDS**2,), self._beyond(call, plain))

    def _move(self, kind: str, axes: tuple[str, ...], nbytes: int) -> None:
        function = self.names["moves"](self._mesh, kind, axes, REPEATED)
        compiled = function.lower(array := self._array(nbytes // _WIDTH)).compile()
        beside = operations_of(read_module(compiled)) or ()  # slices and the like
        seconds = self._without(self._beyond(partial(compiled, array)), beside)
        devices = int(np.prod([self._mesh.shape[axis] for axis in axes]))
        self.moves.append(
            MoveCost(
                kind=kind,
                axes=axes,
                devices=devices,
                bytes=nbytes,
                seconds=max(LEAST_S, seconds / REPEATED),
            )
        )

    def _keep(self, kind: str, sizes: tuple[int, ...], seconds: float) -> None:
        operation = Operation.model_validate({"kind": kind, "sizes": sizes})
        self.operations.append(Cost(operation=operation, seconds=max(LEAST_S, seconds)))

    def _compiled(self, function: Any, *arguments: Any) -> Callable[[], Any]:
        return partial(function.lower(*arguments).compile(), *arguments)

    def _beyond(self, call: Callable[[], Any], other: Callable[[], Any] | None = None) -> float:
        """Seconds of a call beyond another's, each the faster quarter of some turns: what disturbs
        them only ever slows them.
        """
        other = other or self._nothing
        with timing.quiet():
            fastest = min(timing.time_calls(call, (), 1) for _ in range(WARM_CALLS))
            timing.time_calls(other, (), WARM_CALLS)
            within = max(1, int(timing.TURN_S / 4 / fastest))
            least = LONG_CALLS if fastest > LONG_S else LEAST_CALLS
            count = int(np.clip(POINT_S / (within * fastest), least, MOST_CALLS))
            turns = [
                (timing.time_calls(other, (), within), timing.time_calls(call, (), within))
                for _ in range(count)
            ]
        before, after = np.percentile(turns, FASTER, axis=0)
        return float(after - before)

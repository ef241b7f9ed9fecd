"""Seconds of single operations while every device does the same: elementwise loops, matmuls of many
shapes. What a program is expected to take is a sum of these.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax

from spmd_core.engine.ceilings.slopes import Repeated, each_s
from spmd_core.engine.hlo import read_module
from spmd_core.results import Cost, Operation, StrategyResult
from spmd_core.roofline import Calibration, operations_of_turn

SIDES = (32, 128, 512, 1024)  # of matmuls: each shape of three of them
TINY = 8  # side of a matmul that takes no longer than any operation
LOOPS = (64, 128, 256, 512, 1024)  # sides of square arrays
SIGMOIDS = 256
POINT_S = 0.03
_WIDTH = 4  # bytes of an element
_LEAST_S = 1e-9
_LEAST_SHARE = 0.25  # of what is left of a program's time for the operation it is measured for


def operation_name(measure: Callable[[], None]) -> str:
    """One of the measurements below in a note: `matmul of 16, 16, 16`."""
    if not isinstance(measure, partial):
        return measure.__name__.strip("_")
    return f"{measure.func.__name__.strip('_')} of {', '.join(map(str, measure.args))}"


@dataclass
class OperationCosts:
    """Costs on the mesh of a calibration's program, whose `names` these are; `largest` is the side
    of the largest matmul, where the data sheet has SIDES take too little time.
    """

    names: Mapping[str, Any]
    largest: int = 0
    operations: list[Cost] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mesh = self.names["mesh"]

    def measurements(self) -> Iterator[Callable[[], None]]:
        """Each measures one cost and keeps it; in an order in which each may need those before."""
        yield partial(self._matmul, TINY, TINY, TINY)
        for kind, side in itertools.product(("copy", "relayout"), LOOPS):
            yield partial(self._loop, kind, side)
        yield from (partial(self._result, side) for side in LOOPS[::2])
        yield self._transcendental
        # a product of two has [rows, inner] x [inner, columns] and the same with those exchanged
        sides = (*SIDES, self.largest) if self.largest > SIDES[-1] else SIDES
        for rows in sides:
            for inner, columns in itertools.combinations_with_replacement(sides, 2):
                yield partial(self._matmul, rows, inner, columns)

    @property
    def known(self) -> StrategyResult:
        """What is known so far."""
        return StrategyResult(status="ok", costs=tuple(self.operations))

    def without(self, took: float, others: Sequence[Operation]) -> float:
        """Seconds of a program without those operations that are known."""
        return max(_LEAST_SHARE * took, took - Calibration(self.known).work_s(others))

    def _array(self, *shape: int) -> Any:
        """[devices, *shape], a part of each device's own."""
        return self.names["filled"](self._mesh, shape, "float32")

    def _repeated(self, once: Any, *arrays: Any) -> Repeated:
        return Repeated(self.names, self._mesh, once, arrays)

    def _matmul(self, rows: int, inner: int, columns: int) -> None:
        arrays = [
            self._array(*shape) for shape in ((rows, inner), (inner, columns), (columns, inner))
        ]
        program = self._repeated(self.names["products"], *arrays)
        self._keep("matmul", (rows, inner, columns), each_s(program, POINT_S) / 2)

    def _loop(self, kind: str, side: int) -> None:
        once = self.names["across" if kind == "relayout" else "added"]
        program = self._repeated(once, self._array(side, side))
        took, sizes = each_s(program, POINT_S), (2 * _WIDTH * side**2,)
        every = operations_of_turn(read_module(program.compiled))
        count = sum(each.count for each in every if (each.kind, each.sizes) == (kind, sizes))
        others = [each for each in every if (each.kind, each.sizes) != (kind, sizes)]
        self._keep(kind, sizes, self.without(took, others) / max(1, count))

    def _result(self, side: int) -> None:
        """What a fresh result costs beyond the time to write it: the host maps new pages for it in
        each call. One more call than is timed, since the first result of a program has its pages.
        """
        array, one = self._array(side, side), self._array(1)
        nothing, fresh = (
            partial(self.names["fresh"](self._mesh).lower(each).compile(), each)
            for each in (one, array)
        )
        nbytes = _WIDTH * side**2
        took = each_s(lambda count: nothing() if count == 1 else fresh(), POINT_S, most=1)
        written = Calibration(self.known).work_s([_copied(nbytes)])
        self._keep("result", (nbytes,), max(_LEAST_S, took - written))

    def _transcendental(self) -> None:
        program = self._repeated(jax.nn.sigmoid, self._array(SIGMOIDS, SIGMOIDS))
        beside = [_copied(_WIDTH * SIGMOIDS**2)]
        seconds = self.without(each_s(program, POINT_S), beside)
        self._keep("transcendental", (SIGMOIDS**2,), seconds)

    def _keep(self, kind: str, sizes: tuple[int, ...], seconds: float) -> None:
        operation = Operation.model_validate({"kind": kind, "sizes": sizes})
        self.operations.append(Cost(operation=operation, seconds=seconds))


def _copied(nbytes: int) -> Operation:
    return Operation(kind="copy", sizes=(2 * nbytes,))

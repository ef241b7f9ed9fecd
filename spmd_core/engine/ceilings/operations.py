"""Seconds of single operations while every device does the same: elementwise loops, matmuls of many
shapes; each is what a call of many repetitions takes beyond a call of one.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from spmd_core.base import RequestError, seconds_text
from spmd_core.engine import timing
from spmd_core.engine.hlo import read_module
from spmd_core.engine.members import agreed, gathered
from spmd_core.results import Cost, Operation, StrategyResult
from spmd_core.roofline import Calibration, operations_of_turn

BETWEEN_S = 4e-3  # of the repetitions between two counts: many times what calls differ by
MOST_MORE = 2**16  # repetitions beyond one
LEAST_TURNS, MOST_TURNS = 5, 40
LONG_S, LONG_TURNS = 0.03, 3  # of the longer call: fewer turns do
FASTER = 25  # percentile: what disturbs a call only ever slows it
# A difference that is lost in the spread is tried again, with more repetitions, until a call is long
TRIES, MOST_S = 6, 0.5
Repeat = Callable[[int], Any]  # of a count: runs so many repetitions in one program


class Unsteady(RequestError):
    """A difference that is under its own spread."""


def slope(repeat: Repeat, lasting_s: float, most: int = MOST_MORE) -> list[float]:
    """Seconds of one repetition, from each turn, all turns in about `lasting_s` once it is warm.
    Unsteady where the difference is under its own spread.
    """
    with timing.quiet():
        more, tries = _enough(repeat, most), 0
        while True:
            one, many = _turns(repeat, more, lasting_s)
            differences = np.subtract(many, float(np.percentile(one, FASTER)))
            best, low, high = np.percentile(differences, [FASTER, 25, 75])
            spread = float(high - low + np.subtract(*np.percentile(one, [75, 25])))
            tries += 1
            if best > spread or more == most or many[-1] > MOST_S or tries == TRIES:
                break
            more = min(4 * more, most)
    if best <= 0 or best <= spread:
        raise Unsteady(
            f"{1 + more} repetitions take {seconds_text(max(0.0, float(best)))} more than one, less "
            f"than the {seconds_text(spread)} by which calls differ: measure again when nothing "
            "else runs on this machine"
        )
    return [float(each) / more for each in differences]


def each_s(repeat: Repeat, lasting_s: float, most: int = MOST_MORE) -> float:
    """Seconds of one repetition: what the faster quarter of the turns took."""
    return float(np.percentile(slope(repeat, lasting_s, most), FASTER))


class Repeated:
    """Runs `once` on each device of a mesh as often as it is called for, by `repeated` of the program text
    whose `names` these are. The first of `arrays` is handed on from one repetition to the next.
    """

    def __init__(self, names: Mapping[str, Any], mesh: Any, once: Any, arrays: Sequence[Any]):
        self._make = partial(names["repeated"], mesh, once, len(arrays))
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        # A GPU waits for its host after each turn of a loop whose length the compiler does not know
        self._is_counted = mesh.devices.flat[0].platform == "gpu"
        self._first, self._others = arrays[0], tuple(arrays[1:])
        self._calls: dict[int, tuple[Any, Any]] = {}
        self.compiled: Any = None  # the program, once it ran

    def __call__(self, count: int) -> Any:
        """The array after so many repetitions."""
        call, times = self._calls.get(count) or self._call(count)
        self._first = call(times, self._first, *self._others)
        return self._first

    def _call(self, count: int) -> tuple[Any, Any]:
        times = jax.device_put(np.int32(count), self._everywhere)
        if self.compiled is None or self._is_counted:
            made = self._make(count if self._is_counted else None)
            self.compiled = made.lower(times, self._first, *self._others).compile()
        self._calls[count] = self.compiled, times
        return self._calls[count]


def took(repeat: Repeat, count: int) -> float:
    """Seconds of a call, in the member of a run on several hosts that took longest."""
    return max(gathered(timing.time_calls(repeat, (count,), 1)))


def _enough(repeat: Repeat, most: int) -> int:
    """Repetitions beyond one that last BETWEEN_S."""
    took(repeat, 1)
    one, more = took(repeat, 1), 1
    while more < most:
        beyond = min(took(repeat, 1 + more) for _ in range(2 if more > 1 else 1)) - one
        if beyond >= BETWEEN_S:
            break
        more = min(most, int(more * np.clip(1.5 * BETWEEN_S / max(beyond, 1e-9), 2, 16)))
    return more


def _turns(repeat: Repeat, more: int, lasting_s: float) -> tuple[list[float], list[float]]:
    """Seconds of calls of one repetition and of `more` beyond that, in turns: what disturbs one
    disturbs the other too.
    """
    one, many, since = list[float](), list[float](), perf_counter()
    while len(one) < MOST_TURNS:
        for count, times in ((1, one), (1 + more, many)):
            times.append(took(repeat, count))
        least = LONG_TURNS if many[-1] > LONG_S else LEAST_TURNS
        if len(one) >= least and agreed(perf_counter() - since > lasting_s):
            break
    return one, many


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

"""Seconds of one repetition within a program: what a call of many repetitions takes beyond a call
of one, over those between. What the call itself costs is in both, and so in neither.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from spmd_core.base import RequestError, seconds_text
from spmd_core.engine import timing
from spmd_core.engine.members import agreed, gathered

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

"""Times compiled programs: rounds in which all take turns, in shuffled order, every call blocked
on.
"""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from math import ceil
from statistics import median
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from spmd_core.engine.devices import JaxDevice
from spmd_core.engine.members import agreed, alike, nothing

# a reading of perf_counter costs 0.1 µs: 0.01 % of a turn; noise from outside lasts longer, and so
# hits all alike
TURN_S = 1e-3
CLOCK_DIGITS = 11  # of a second; more is noise, and fills the database
MAX_TURNS = 16  # per round
MAX_CALLS = 100_000  # per turn
# programs at most so many times slower than the fastest of their kind take the same number of calls
SIMILAR = 1.5
BLOCK_S = 0.25e-3  # of a warm-up: short enough that many run undisturbed
# at least so many blocks and so long at full speed, within half a second
WARM_UP_BLOCKS, WARM_UP_AT_SPEED_S, WARM_UP_S = 10, 5e-3, 0.5
FLOOR_ROUNDS = 15
Call = Callable[..., Any]


@dataclass(slots=True)
class Timed:
    """A program to be timed: `call(*arguments)`, and what was measured of it so far.

    `rounds` holds, for each round, the seconds per call of each of its turns.
    """

    name: str
    call: Call
    arguments: Sequence[Any]
    fastest_s: float = float("inf")
    calls_per_turn: int = 1
    turns: int = 1
    rounds: list[tuple[float, ...]] = field(default_factory=list)
    error: Exception | None = None

    @property
    def samples_s(self) -> tuple[float, ...]:
        """Seconds per call of each round: the median of its turns."""
        return tuple(median(turns) for turns in self.rounds)


def block(result: Any) -> Any:
    """Wait until every array of `result` is there."""
    return waiter(result)(result)


def waiter(result: Any) -> Call:
    """What waits for results like this one: an array's own method, since going through a tree costs
    1 µs more.
    """
    return (
        type(result).block_until_ready if isinstance(result, jax.Array) else jax.block_until_ready
    )


def time_calls(call: Call, arguments: Sequence[Any], count: int) -> float:
    """Seconds per call over `count` calls, each blocked on before the next."""
    times = repeat(None, count - 1)
    start = perf_counter()
    result = call(*arguments)
    wait = waiter(result)  # once: the lookup costs 0.4 µs
    wait(result)
    for _ in times:
        wait(call(*arguments))
    return (perf_counter() - start) / count


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection meanwhile: a full one takes longer than most programs."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def warm_up(timed: Timed, at_speed_s: float = WARM_UP_AT_SPEED_S) -> None:
    """Run until calls take their usual time; `fastest_s` is that of the fastest of many short
    blocks. They last `at_speed_s` seconds; 0 runs two blocks.

    What a busy machine adds depends on chance: a plan that went by a mean would differ between
    equal programs.
    """
    spent, calls, blocks, fastest = 0.0, 0, 0, float("inf")
    least = WARM_UP_BLOCKS if at_speed_s else 2
    while blocks < 2 or (spent < WARM_UP_S and (blocks < least or calls * fastest < at_speed_s)):
        count = 1 if blocks < 2 else max(1, min(MAX_CALLS, int(BLOCK_S / fastest)))
        one = agreed(time_calls(timed.call, timed.arguments, count))
        fastest = min(fastest, one)
        spent, calls, blocks = spent + one * count, calls + count, blocks + 1
    timed.fastest_s = fastest


def plan_turns(programs: Sequence[Timed], sample_s: float) -> None:
    """Plan turns for programs that are warm, so that a round of each lasts at least `sample_s`
    seconds.

    Programs of similar speed get the same plan: turns that last differently long are disturbed
    differently often.
    """
    turn_s = max(TURN_S, sample_s / MAX_TURNS)
    lead = 0.0
    for timed in sorted(programs, key=lambda timed: timed.fastest_s):
        if timed.fastest_s > SIMILAR * lead:
            lead = timed.fastest_s
        timed.calls_per_turn = min(max(1, ceil(turn_s / lead)), MAX_CALLS)
        timed.turns = min(max(1, ceil(sample_s / (timed.calls_per_turn * lead))), MAX_TURNS)


def sample_rounds(
    programs: Sequence[Timed],
    rounds: int,
    *,
    seed: int,
    cancelled: Callable[[], bool],
    after_round: Callable[[int], None],
) -> int:
    """Up to `rounds` rounds, in each of which the programs take turns in shuffled order; the number
    of rounds done.

    A program that raises keeps its error and is left out from then on. `after_round` gets how
    many are done.
    """
    order = random.Random(seed)
    for done in range(rounds):
        if cancelled():
            return done
        _round([timed for timed in programs if timed.error is None], order)
        after_round(done + 1)
    return rounds


def _round(programs: list[Timed], order: random.Random) -> None:
    turns: dict[int, list[float]] = {id(timed): [] for timed in programs}
    for turn in range(max((timed.turns for timed in programs), default=0)):
        present = [timed for timed in programs if turn < timed.turns and timed.error is None]
        order.shuffle(present)
        for timed in present:
            try:
                with alike():
                    if jax.process_count() > 1:
                        block(timed.call(*timed.arguments))  # members begin a turn together
                    took_s = time_calls(timed.call, timed.arguments, timed.calls_per_turn)
                turns[id(timed)].append(round(took_s, CLOCK_DIGITS))
            except Exception as error:  # whatever a program raises is its result; the others go on
                timed.error = error
    for timed in programs:
        if timed.error is None:
            timed.rounds.append(tuple(turns[id(timed)]))


def dispatch_floor_s(
    mesh: jax.sharding.Mesh | None, device: JaxDevice, rounds: int = FLOOR_ROUNDS
) -> float:
    """Seconds of one call that computes next to nothing on the full mesh: what any program costs
    there at least.
    """
    sharding = (
        SingleDeviceSharding(device) if mesh is None else NamedSharding(mesh, PartitionSpec())
    )
    floor = Timed("dispatch", nothing, ())
    if mesh is not None or device.process_index == jax.process_index():
        operand = jax.device_put(np.float32(1), sharding)
        floor = Timed("dispatch", _adding_one(sharding), (operand,))
    with quiet():
        warm_up(floor)
        plan_turns([floor], TURN_S)
        sample_rounds(
            [floor], rounds, seed=0, cancelled=lambda: False, after_round=lambda done: None
        )
    return median(floor.samples_s)


@lru_cache(maxsize=16)
def _adding_one(sharding: jax.sharding.Sharding) -> Call:
    """A program of one addition: runs are on the same few meshes, and compiling it takes 20 ms."""
    one = jax.ShapeDtypeStruct((), np.float32, sharding=sharding)
    return jax.jit(lambda value: value + 1, out_shardings=sharding).lower(one).compile()

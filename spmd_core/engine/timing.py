"""Times compiled programs: rounds in which each runs once, in shuffled order, every call blocked on."""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from math import ceil
from time import perf_counter
from typing import Any

import jax

MIN_BLOCK_S = 100e-6  # perf_counter costs about 0.1 µs a reading: 0.1 % of a block
MAX_BLOCK_CALLS = 100_000
Call = Callable[..., Any]


@dataclass(slots=True)
class Timed:
    """A program to be timed: `call(*arguments)`, and what was measured of it so far."""

    name: str
    call: Call
    arguments: Sequence[Any]
    calls_per_sample: int = 1
    samples_s: list[float] = field(default_factory=list)
    error: Exception | None = None


def block(result: Any) -> Any:
    """Wait until every array of `result` is there. One array waits by its own method: a tree costs 1 µs more."""
    return result.block_until_ready() if isinstance(result, jax.Array) else jax.block_until_ready(result)


def time_block(call: Call, arguments: Sequence[Any], count: int) -> float:
    """Seconds per call over `count` calls, each blocked on before the next."""
    times = repeat(None, count)
    start = perf_counter()
    for _ in times:
        block(call(*arguments))
    return (perf_counter() - start) / count


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection while timing: a full one takes longer than most programs."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def warm_up(timed: Timed, sample_s: float) -> None:
    """Run until calls take their usual time, and choose how many calls make a sample of at least `sample_s` seconds."""
    least_s = max(sample_s, MIN_BLOCK_S)
    spent, fastest, count = 0.0, float("inf"), 1
    while spent < least_s and count < MAX_BLOCK_CALLS:
        one = time_block(timed.call, timed.arguments, count)
        fastest = min(fastest, one)  # a disturbed block would make all samples too short
        spent += one * count
        count *= 2
    timed.calls_per_sample = min(max(1, ceil(least_s / fastest)), MAX_BLOCK_CALLS)


def sample_rounds(
    programs: Sequence[Timed], rounds: int, *, seed: int, cancelled: Callable[[], bool], after_round: Callable[[int], None],
) -> int:
    """Up to `rounds` rounds, each running every program once in shuffled order; the number of rounds done.

    A program that raises keeps its error and is left out from then on. `after_round` is told how many are done.
    """
    order = random.Random(seed)
    for done in range(rounds):
        if cancelled():
            return done
        present = [timed for timed in programs if timed.error is None]
        order.shuffle(present)
        for timed in present:
            try:
                timed.samples_s.append(time_block(timed.call, timed.arguments, timed.calls_per_sample))
            except Exception as error:  # whatever the program raises is its result; the others go on
                timed.error = error
        after_round(done + 1)
    return rounds


def dispatch_floor_s(mesh: jax.sharding.Mesh | None, device: jax.Device) -> float:
    """Seconds of one call that computes next to nothing, on the whole mesh: what any program here costs at least."""
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

    sharding = SingleDeviceSharding(device) if mesh is None else NamedSharding(mesh, PartitionSpec())
    operand = jax.device_put(np.float32(1), sharding)
    program = jax.jit(lambda value: value + 1, out_shardings=sharding).lower(operand).compile()
    floor = Timed("dispatch", program, (operand,))
    with quiet():
        warm_up(floor, 2e-3)
        sample_rounds([floor], 7, seed=0, cancelled=lambda: False, after_round=lambda done: None)
    return sorted(floor.samples_s)[3]

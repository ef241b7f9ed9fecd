"""A step of a pipeline, simulated: when each piece of each stage runs, and what idles."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from spmd_core.experiment import Schedule, StagePiece, check_schedule


class PieceRun(NamedTuple):
    """A piece of a stage, from when to when in seconds."""

    stage: int
    piece: StagePiece
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SimulatedPipeline:
    """A step of a pipeline: every piece, when it ends, and the seconds that each stage idles."""

    runs: tuple[PieceRun, ...]
    seconds: float
    idle: tuple[float, ...]

    @property
    def bubble(self) -> float:
        """The share of the step in which stages idle, on average."""
        return sum(self.idle) / len(self.idle) / self.seconds


def simulate_pipeline(
    schedule: Schedule,
    microbatches: int,
    stages: Sequence[tuple[float, float, float]],
    hops: Sequence[float] = (),
    chunks: int = 1,
) -> SimulatedPipeline:
    """When each piece runs, stage by stage in its order, as soon as what it needs is there.

    Args:
        stages: F, B and W of each stage, all its chunks together.
        hops: seconds from each stage to the next, and from the last to the first; () for free.
    """
    count, hops = len(stages), hops or (0.0,) * len(stages)
    check_schedule(schedule, count, microbatches, chunks)
    orders = [[*schedule.order(count, microbatches, chunks, stage)] for stage in range(count)]
    took = [
        {"F": f / chunks, "B": (b if schedule.apart else b + w) / chunks, "W": w / chunks}
        for f, b, w in stages
    ]
    runs = tuple(_runs(orders, took, hops, chunks))
    seconds = max(run.end for run in runs)
    busy = (
        sum(own[piece.kind] for piece in order) for own, order in zip(took, orders, strict=True)
    )
    return SimulatedPipeline(runs, seconds, tuple(seconds - each for each in busy))


def _runs(
    orders: Sequence[Sequence[StagePiece]],
    took: Sequence[Mapping[str, float]],
    hops: Sequence[float],
    chunks: int,
) -> Iterator[PieceRun]:
    """Each piece as early as its stage is free and what it needs is there."""
    count, microbatches = len(orders), 1 + max(piece.microbatch for piece in orders[0])
    # of each run of layers, from the first of the model, when a microbatch left it either way
    ended = {way: [[math.inf] * microbatches for _ in range(count * chunks)] for way in "FB"}
    free, at = [0.0] * count, [0] * count
    while (before := sum(at)) < sum(map(len, orders)):
        for stage, order in enumerate(orders):
            now, own = free[stage], took[stage]
            for piece in islice(order, at[stage], None):
                kind, number, chunk = piece
                here, start = chunk * count + stage, now
                there = here + (-1 if kind == "F" else 1)
                if kind != "W" and 0 <= there < count * chunks:
                    start = max(now, ended[kind][there][number] + hops[min(here, there) % count])
                if start == math.inf:
                    break
                now = start + own[kind]
                if kind != "W":  # follows its B, by the order
                    ended[kind][here][number] = now
                yield PieceRun(stage, piece, start, now)
                at[stage] += 1
            free[stage] = now
        assert sum(at) > before, "stages wait for one another"

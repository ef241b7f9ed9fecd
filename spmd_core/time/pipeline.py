"""A step of a pipeline, simulated: when each piece of each stage runs, and what idles."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    count = len(stages)
    check_schedule(schedule, count, microbatches, chunks)
    orders = [[*schedule.order(count, microbatches, chunks, stage)] for stage in range(count)]
    hops = hops or (0.0,) * count
    ended: dict[tuple[int, StagePiece], float] = {}
    free, at, runs = [0.0] * count, [0] * count, list[PieceRun]()
    while len(runs) < sum(map(len, orders)):
        before = len(runs)
        for stage, order in enumerate(orders):
            while at[stage] < len(order):
                piece = order[at[stage]]
                ready = _ready(piece, stage, count, chunks, hops, ended)
                if ready is None:
                    break
                start = max(free[stage], ready)
                free[stage] = start + _seconds(schedule, piece, stages[stage], chunks)
                ended[stage, piece] = free[stage]
                runs.append(PieceRun(stage, piece, start, free[stage]))
                at[stage] += 1
        assert len(runs) > before, f"{schedule.name} waits for itself"
    seconds = max(free)
    busy = [0.0] * count
    for run in runs:
        busy[run.stage] += run.end - run.start
    return SimulatedPipeline(tuple(runs), seconds, tuple(seconds - each for each in busy))


def _seconds(
    schedule: Schedule, piece: StagePiece, seconds: tuple[float, float, float], chunks: int
) -> float:
    forward, back, weights = seconds
    backward = back if schedule.apart else back + weights
    return {"F": forward, "B": backward, "W": weights}[piece.kind] / chunks


def _ready(
    piece: StagePiece,
    stage: int,
    count: int,
    chunks: int,
    hops: Sequence[float],
    ended: dict[tuple[int, StagePiece], float],
) -> float | None:
    """When what a piece needs of another stage is there; None where it is not known yet."""
    if piece.kind == "W":
        return 0.0  # after its B, by the order
    step = 1 if piece.kind == "B" else -1
    beside, chunk = stage + step, piece.chunk
    hop = min(stage, beside)
    if not 0 <= beside < count:
        beside, chunk, hop = beside % count, chunk + step, count - 1
        if not 0 <= chunk < chunks:
            return 0.0  # a first forward, or the backward of the last
    end = ended.get((beside, piece._replace(chunk=chunk)))
    return None if end is None else end + hops[hop]

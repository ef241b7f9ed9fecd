"""A step of a pipeline, simulated: when each piece of each stage runs, and what idles."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spmd_core.plan import Schedule, check_schedule

_FEW = 3  # microbatches for each stage, after which turns are looked at for a repetition
# of a step, by which its estimate may be over: stages that differ by less drift apart as slowly
_OVER = 1e-4


class PieceRun(NamedTuple):
    """One microbatch through one chunk of a stage's layers: "F", "B" (with W where a schedule does
    not set it apart) or "W"; from when to when in seconds.
    """

    stage: int
    kind: str
    microbatch: int
    chunk: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SimulatedPipeline:
    """A step of a pipeline: its seconds, and those that each stage idles.

    `took`: seconds of each stage's pieces by kind. `hops`: from each stage to the next, and from
    the last to the first. `chunks`: runs of layers of a stage.
    """

    schedule: Schedule
    microbatches: int
    took: tuple[dict[str, float], ...]
    hops: Sequence[float]
    chunks: int
    seconds: float

    @property
    def idle(self) -> tuple[float, ...]:
        """Seconds that each stage idles."""
        each = (sum(own[kind] for kind in self.schedule.turn) for own in self.took)
        return tuple(self.seconds - self.microbatches * self.chunks * own for own in each)

    @property
    def bubble(self) -> float:
        """The share of the step in which stages idle, on average."""
        return sum(self.idle) / len(self.idle) / self.seconds

    def runs(self) -> list[PieceRun]:
        """Each piece, stage by stage, as early as its stage is free and what it needs is there."""
        runs, (starts, ends), each = list[PieceRun](), _ticks(self), _alike(self)
        for stage, kind, begin, stride, _ in _lanes(self):
            for number in range(self.microbatches * self.chunks):
                tick, place = begin + stride * number, number
                if kind != "F" and not self.schedule.in_turns:  # all in reverse
                    place = self.microbatches * self.chunks - 1 - number
                microbatch = place // (each * self.chunks) * each + place % each
                chunk = place // each % self.chunks
                if kind != "F" and self.schedule.in_turns:
                    chunk = self.chunks - 1 - chunk
                times = float(starts[tick, stage]), float(ends[tick, stage])
                runs.append(PieceRun(stage, kind, microbatch, chunk, *times))
        return sorted(runs, key=lambda run: (run.stage, run.start))


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
    took = tuple(
        {"F": f / chunks, "B": (b + w * ("W" not in schedule.turn)) / chunks, "W": w / chunks}
        for f, b, w in stages
    )
    step = SimulatedPipeline(schedule, microbatches, took, hops, chunks, math.nan)
    if schedule.in_turns:
        seconds = _in_turns(step)
    else:
        seconds = sum(_one_way([own[way] for own in took], step) for way in "FB")
    return replace(step, seconds=seconds)


def _one_way(took: Sequence[float], step: SimulatedPipeline) -> float:
    """Seconds of all microbatches through all chunks, one way: the longest path goes around all
    stages with a microbatch for each chunk, or stays at the slowest stage.
    """
    around, longest = sum(took) + sum(step.hops), max(took)
    rest = step.microbatches * longest
    first = sum(took) + sum(step.hops[:-1]) + (step.microbatches - 1) * longest
    return first + (step.chunks - 1) * max(rest, around)


def _in_turns(step: SimulatedPipeline) -> float:
    """Seconds of a step whose stages alternate: of few microbatches, and of turns of all stages
    that repeat, later by as much, for the others. A turn's ends follow from those of two ticks. As
    every end is the latest of sums, no later turn's shift is outside those of one turn.
    """
    count, microbatches = len(step.took), step.microbatches
    few = min(microbatches, microbatches % count + _FEW * count)
    apart = 1 if step.chunks == 1 else count  # microbatches after which the order is the same
    begins = [begin for _, _, begin, _, _ in _lanes(step)]
    many = step.chunks * len(step.schedule.turn)
    while True:
        _, ends = _ticks(replace(step, microbatches=few))
        if few == microbatches:
            return float(ends[-1].max())
        stop = min(begins) + many * few  # from the last of `begins` to here stages have all pieces
        for number in range(apart, few, apart):
            before = stop - many * number
            if (microbatches - few) % number == 0 and before - 2 >= max(begins):
                later = ends[stop - 2 : stop] - ends[before - 2 : before]
                turns = (microbatches - few) / number
                seconds = float(ends[-1].max() + later.max() * turns)
                if np.ptp(later) * turns <= _OVER * seconds:
                    return seconds
        more = 2 * few + (microbatches - 2 * few) % count
        few = more if 2 * more < microbatches else microbatches  # the last ones at once


def _alike(step: SimulatedPipeline) -> int:
    """Microbatches that pass a chunk before the next one's turn."""
    return len(step.took) if step.schedule.in_turns else step.microbatches


def _lanes(step: SimulatedPipeline) -> Iterator[tuple[int, str, int, int, tuple[int, int]]]:
    """Yields stage and kind of pieces, the tick of the first, ticks from each to the next, and how
    many before it what it waits for ended: of a chunk's neighbor, and of the chunk before.

    A tick is one piece of each stage, or none. Stages are apart so that what a piece waits for ended
    as many ticks before, for each microbatch.
    """
    turn, count, chunks = step.schedule.turn, len(step.took), step.chunks
    many, last = len(turn), count - 1
    for stage in range(count):
        ahead = last - stage
        if not step.schedule.in_turns:
            lags = (1, step.microbatches - last)
            yield stage, "F", stage, 1, lags
            yield stage, "B", step.microbatches * chunks + last + ahead, 1, lags
            continue
        skew = 1 + (chunks > 1)
        # forward passes of the first stage before its first turn
        first = skew * last + (chunks - 1) * count + ("W" in turn)
        for slot, kind in enumerate(turn):
            begin = {"F": skew * stage, "B": first, "W": first + stage}[kind]
            lag = skew * (many - 1 if kind == "F" else 1)
            yield stage, kind, many * begin + slot + skew * ahead, many, (lag, lag)


def _ticks(step: SimulatedPipeline) -> tuple[np.ndarray, np.ndarray]:
    """Returns when each stage begins each tick, and ends it [ticks, stages]."""
    lanes, count, number = (
        [*_lanes(step)],
        len(step.took),
        np.arange(step.microbatches * step.chunks),
    )
    is_later = number // _alike(step) % step.chunks > 0  # a chunk that waits for the one before
    takes = np.zeros((max(begin + stride * len(number) for _, _, begin, stride, _ in lanes), count))
    waits, source = np.full(takes.shape, -math.inf), np.zeros(takes.shape, dtype=int)
    for stage, kind, begin, stride, lags in lanes:
        ticks = slice(begin, begin + stride * len(number), stride)
        takes[ticks, stage] = step.took[stage][kind]
        if kind != "W":
            beside = stage + (-1 if kind == "F" else 1)
            is_around = beside in (-1, count)
            needs = is_later if is_around else True
            waits[ticks, stage] = np.where(needs, step.hops[min(stage, beside) % count], -math.inf)
            ended = (begin + stride * number - lags[is_around]) * count + beside % count
            source[ticks, stage] = np.where(needs, ended, 0)
    starts, ends = np.zeros(takes.shape), np.zeros(takes.shape)
    flat, free = ends.reshape(-1), np.zeros(count)
    for start, end, take, wait, of in zip(starts, ends, takes, waits, source, strict=True):
        np.maximum(free, flat.take(of) + wait, out=start)
        free = np.add(start, take, out=end)
    return starts, ends

"""Pipelines by 50 drawn settings of each schedule: the simulated step against the closed form of
equal stages and against the longest path of unequal ones; the most that a stage holds, against its
formula and against what the simulated pieces show.

    python -m bench.pipelines
"""

import random
from collections import Counter
from functools import cache
from itertools import accumulate

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import SCHEDULES, Schedule, StagePiece
from spmd_core.time import SimulatedPipeline, simulate_pipeline

DRAWS = 50  # of each schedule; every other one of unequal stages with hops
NEAR = 1e-9
Draw = tuple[Schedule, int, list[tuple[float, float, float]], list[float], int]


def draw(schedule: Schedule, rng: random.Random, equal: bool) -> Draw:
    """Schedule, microbatches, F, B and W of each stage, hops and chunks; W is no more than F, as
    the closed form of ZB-H1 has it.
    """
    count = rng.randint(2, 8)
    chunks = rng.randint(2, 4) if schedule.in_chunks else 1
    microbatches = count * rng.randint(1, 4)
    if schedule.name != "interleaved":
        microbatches += rng.randint(0, count)

    def seconds() -> tuple[float, float, float]:
        forward = rng.uniform(1, 2)
        return forward, forward * rng.uniform(1, 1.7), forward * rng.uniform(0.4, 1)

    stages = [seconds()] * count if equal else [seconds() for _ in range(count)]
    hops = [0.0 if equal else rng.uniform(0, 0.5) for _ in range(count)]
    return schedule, microbatches, stages, hops, chunks


def longest_path(drawn: Draw) -> float:
    """Seconds of a step as the longest path through what each piece waits for, found from its end."""
    schedule, microbatches, stages, hops, chunks = drawn
    count = len(stages)
    orders = [[*schedule.order(count, microbatches, chunks, stage)] for stage in range(count)]
    before = {
        (stage, piece): order[at - 1] if at else None
        for stage, order in enumerate(orders)
        for at, piece in enumerate(order)
    }

    @cache
    def end(stage: int, piece: StagePiece) -> float:
        own = before[stage, piece]
        starts = [0.0 if own is None else end(stage, own)]
        # the global number of a run of layers, counted along the way forward
        at = piece.chunk * count + stage
        other = at - 1 if piece.kind == "F" else at + 1
        if piece.kind != "W" and 0 <= other < count * chunks:
            there = piece._replace(chunk=other // count)
            starts.append(end(other % count, there) + hops[min(at, other) % count])
        forward, back, weights = stages[stage]
        whole = back if schedule.apart else back + weights
        return max(starts) + {"F": forward, "B": whole, "W": weights}[piece.kind] / chunks

    return max(end(stage, order[-1]) for stage, order in enumerate(orders))


def holds(schedule: Schedule, simulated: SimulatedPipeline, stage: int, chunks: int) -> float:
    """The most microbatches that a stage holds, by when the simulated pieces begin and end."""
    last = "W" if schedule.apart else "B"
    moments = [
        (run.start if run.piece.kind == "F" else run.end, 1 if run.piece.kind == "F" else -1)
        for run in simulated.runs
        if run.stage == stage and run.piece.kind in ("F", last)
    ]
    return max(accumulate(change for _, change in sorted(moments))) / chunks


def formula_of_held(
    schedule: Schedule, count: int, microbatches: int, chunks: int, stage: int
) -> float:
    """The same in closed form."""
    following = count - stage
    most = {
        "gpipe": microbatches,
        "circular": microbatches * chunks,
        "1f1b": following,
        "zb-h1": count,
        "interleaved": 2 * (following - 1) + (chunks - 1) * count + 1,
    }[schedule.name]
    return min(most, microbatches * chunks) / chunks


def differing(schedule: Schedule, seed: int) -> Counter[str]:
    """What differs in the draws of a schedule: how many settings of each comparison."""
    rng, wrong = random.Random(seed), Counter({"closed form": 0, "longest path": 0, "held": 0})
    for number in range(DRAWS):
        drawn = draw(schedule, rng, equal=number % 2 == 0)
        _, microbatches, stages, hops, chunks = drawn
        found, count = simulate_pipeline(*drawn), len(stages)
        if not any(hops):
            whole = microbatches * sum(stages[0])
            bubble = schedule.bubble_s(count, stages[0], chunks)
            wrong["closed form"] += abs(found.seconds - whole - bubble) > NEAR * whole
        wrong["longest path"] += abs(found.seconds - longest_path(drawn)) > NEAR * found.seconds
        for stage in range(count):
            held = schedule.held(count, microbatches, chunks, stage)
            expected = formula_of_held(schedule, count, microbatches, chunks, stage)
            wrong["held"] += not held == expected == holds(schedule, found, stage, chunks)
    return wrong


def main(_: Asked, figures: Figures) -> None:
    for name, schedule in SCHEDULES.items():
        for what, count in differing(schedule, seed=0).items():
            figures.add(f"{name}: off the {what}", count, f"of {DRAWS} draws", most=0)


if __name__ == "__main__":
    measure(main, __doc__)

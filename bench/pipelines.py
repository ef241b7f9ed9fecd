"""Pipelines by 50 drawn settings of each schedule: the simulated step against the closed form of
equal stages and against the longest path of unequal ones; the most that a stage holds, against its
formula and against what the simulated pieces show. And the circular pipeline as a program on 8
devices: values against one device, bytes against the closed form, kinds that v5e is requested.

    python -m bench.pipelines
"""

import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import SCHEDULES, Schedule, StagePiece, parse_experiment
from spmd_core.lab import Lab
from spmd_core.time import SimulatedPipeline, simulate_pipeline

LAYERS = {"microbatches": 8, "rows": 8, "repeats": 2, "stages": 8, "embed": 64}
Case = tuple[dict[str, int], dict[str, Any]]
CASES: tuple[Case, ...] = (
    (LAYERS, {"stages": ["x", "y"]}),
    (LAYERS | {"repeats": 3}, {"stages": "y", "rows": "x"}),
    (LAYERS | {"microbatches": 12, "stages": 16}, {"stages": ["x", "y"]}),
    (LAYERS | {"microbatches": 3, "repeats": 4}, {"stages": "y"}),
)
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


def off(lab: Lab, case: Case, **more: Any) -> Iterator[str]:
    """What is not as it should be of the circular pipeline as a program, a sentence each."""
    dims, sharding = case
    chosen = parse_experiment(
        {
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "workload": "pipeline",
            "dims": dims,
            "sharding": sharding,
            "strategies": ["shard_map"],
            "timing": {"samples": 1, "min_seconds": 0.0},
        }
        | more
    )
    run = lab.submit(chosen)
    lab.wait(run)
    result = lab.result(run)
    assert result is not None, run
    outcome, sizes = result.strategies["shard_map"], chosen.sizes
    prediction, absent = outcome.prediction, chosen.place.is_absent
    if (outcome.status, outcome.correct) != ("ok", None if absent else True):
        yield f"{outcome.status}, right {outcome.correct} {outcome.error or ''}"
        return
    count, over_rows = (
        math.prod(chosen.axis_sizes[axis] for axis in dict(chosen.sharding).get(dim, ()))
        for dim in ("stages", "rows")
    )
    turns = sizes["repeats"] * max(sizes["microbatches"], count) + count - 1
    each = sizes["rows"] // over_rows * sizes["embed"] * 4
    expected = {
        ("collective-permute", each, turns),
        ("all-reduce", sizes["microbatches"] * each, 1),
    }
    listed = outcome.collectives or (prediction.collectives if prediction else ()) or ()
    if absent:
        if {each.asked or each.kind for each in listed} != {kind for kind, *_ in expected}:
            yield f"on {chosen.target}: {listed}"
    elif (found := {(each.kind, each.bytes, each.count) for each in listed}) != expected:
        yield f"{found} instead of {expected}"


def main(_: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        for target in ("cpu:8", "tpu:v5e:2x4"):
            found = [(case, each) for case in CASES for each in off(lab, case, target=target)]
            print(*found, sep="\n")
            figures.add(f"circular on {target}: off", len(found), f"of {len(CASES)} cases", most=0)
        lab.close()
    for name, schedule in SCHEDULES.items():
        for what, count in differing(schedule, seed=0).items():
            figures.add(f"{name}: off the {what}", count, f"of {DRAWS} draws", most=0)


if __name__ == "__main__":
    measure(main, __doc__)

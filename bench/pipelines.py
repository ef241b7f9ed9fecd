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
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.plan import SCHEDULES, Schedule
from spmd_core.time import PieceRun, simulate_pipeline

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


class Piece(NamedTuple):
    """One microbatch through one chunk of a stage's layers: "F", "B" or "W"."""

    kind: str
    microbatch: int
    chunk: int = 0


Order = Iterator[Piece]


def _all_forward_first(stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """GPipe and, of several chunks, MaxText's circular pipeline: all of a chunk, then the next."""
    pieces = [(number, chunk) for chunk in range(chunks) for number in range(microbatches)]
    yield from (Piece("F", *each) for each in pieces)
    yield from (Piece("B", *each) for each in reversed(pieces))


def _one_by_one(stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """1F1B, and of several chunks Megatron's interleaved schedule."""
    total, turn = microbatches * chunks, stages * chunks
    following = (stages - 1 - stage) * (2 if chunks > 1 else 1)
    first = min(total, following + (chunks - 1) * stages)

    def piece(kind: str, number: int) -> Piece:
        microbatch = number // turn * stages + number % stages if chunks > 1 else number
        chunk = number % turn // stages if chunks > 1 else 0
        return Piece(kind, microbatch, chunk if kind == "F" else chunks - 1 - chunk)

    yield from (piece("F", number) for number in range(first))
    for number in range(total - first):
        yield piece("F", first + number)
        yield piece("B", number)
    yield from (piece("B", number) for number in range(total - first, total))


def _weights_later(stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """ZB-H1: as 1F1B, with gradients of weights `stage` microbatches after those of inputs, so that
    a stage holds no more than the first of 1F1B does.
    """
    first = min(stages - stage, microbatches)
    yield from (Piece("F", number) for number in range(first))
    for number in range(microbatches):
        yield Piece("B", number)
        if number >= stage:
            yield Piece("W", number - stage)
        if first + number < microbatches:
            yield Piece("F", first + number)
    yield from (Piece("W", number) for number in range(max(0, microbatches - stage), microbatches))


ORDERS = {
    "1f1b": _one_by_one,
    "gpipe": _all_forward_first,
    "interleaved": _one_by_one,
    "zb-h1": _weights_later,
    "circular": _all_forward_first,
}


# seconds that a stage of (F, B, W, chunks) idles for each other stage: equal ones, hops free
BUBBLES: dict[str, Callable[[float, float, float, int], float]] = {
    "1f1b": lambda f, b, w, chunks: f + b + w,
    "gpipe": lambda f, b, w, chunks: f + b + w,
    "interleaved": lambda f, b, w, chunks: (f + b + w) / chunks,
    "zb-h1": lambda f, b, w, chunks: f + b - w,
    "circular": lambda f, b, w, chunks: (f + b + w) / chunks,
}


def draw(schedule: Schedule, rng: random.Random, equal: bool) -> Draw:
    """Schedule, microbatches, F, B and W of each stage, hops and chunks; W is no more than F, as
    the closed form of ZB-H1 has it.
    """
    count = rng.randint(2, 8)
    chunks = rng.randint(2, 4) if schedule.in_chunks else 1
    microbatches = count * rng.choice((1, 2, 3, 6))  # of the most, turns repeat
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
    order = ORDERS[schedule.name]
    orders = [[*order(count, microbatches, chunks, stage)] for stage in range(count)]
    before = {
        (stage, piece): order[at - 1] if at else None
        for stage, order in enumerate(orders)
        for at, piece in enumerate(order)
    }

    @cache
    def end(stage: int, piece: Piece) -> float:
        own = before[stage, piece]
        starts = [0.0 if own is None else end(stage, own)]
        # the global number of a run of layers, counted along the way forward
        at = piece.chunk * count + stage
        other = at - 1 if piece.kind == "F" else at + 1
        if piece.kind != "W" and 0 <= other < count * chunks:
            there = piece._replace(chunk=other // count)
            starts.append(end(other % count, there) + hops[min(at, other) % count])
        forward, back, weights = stages[stage]
        whole = back if "W" in schedule.turn else back + weights
        return max(starts) + {"F": forward, "B": whole, "W": weights}[piece.kind] / chunks

    return max(end(stage, order[-1]) for stage, order in enumerate(orders))


def holds(schedule: Schedule, runs: list[PieceRun], stage: int, chunks: int) -> float:
    """The most microbatches that a stage holds, by when the simulated pieces begin and end."""
    last = "W" if "W" in schedule.turn else "B"
    moments = [
        (run.start if run.kind == "F" else run.end, 1 if run.kind == "F" else -1)
        for run in runs
        if run.stage == stage and run.kind in ("F", last)
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
    rng, wrong = (
        random.Random(seed),
        Counter({"closed form": 0, "longest path": 0, "order": 0, "held": 0}),
    )
    for number in range(DRAWS):
        drawn = draw(schedule, rng, equal=number % 2 == 0)
        _, microbatches, stages, hops, chunks = drawn
        found, count = simulate_pipeline(*drawn), len(stages)
        if not any(hops):
            whole = microbatches * sum(stages[0])
            bubble = (count - 1) * BUBBLES[schedule.name](*stages[0], chunks)
            wrong["closed form"] += abs(found.seconds - whole - bubble) > NEAR * whole
        wrong["longest path"] += abs(found.seconds - longest_path(drawn)) > NEAR * found.seconds
        runs = found.runs()
        for stage in range(count):
            own = [Piece(*run[1:4]) for run in runs if run.stage == stage]
            wrong["order"] += own != [*ORDERS[schedule.name](count, microbatches, chunks, stage)]
            held = schedule.held(count, microbatches, chunks, stage)
            expected = formula_of_held(schedule, count, microbatches, chunks, stage)
            wrong["held"] += not held == expected == holds(schedule, runs, stage, chunks)
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

"""Schedules of a pipeline: the order in which each stage works, and what it holds.

A microbatch takes a stage F seconds forward, B backward for its inputs and W for its weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spmd_core.base import refuse
from spmd_core.plan.model_rules import DATA_AXES, STAGE

_MOST_PIECES = 2**16
MOST_MICROBATCHES = 4096
MICROBATCHES = (2, 4, 8)  # that are tried of a step without stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as data: the pieces of a stage's turn, and what it holds.

    `held`: of stages, microbatches, chunks of a stage and the stage, the most microbatches whose
    activations it holds at once, all its layers as one.
    """

    name: str
    title: str
    meaning: str
    held: Callable[[int, int, int, int], float]
    in_chunks: bool = False  # a stage holds several runs of layers, apart from one another
    turn: str = "FB"  # pieces of a turn; with "W" these gradients wait until a stage would idle
    in_turns: bool = True  # or all forward passes first
    source: str


def _held_one_by_one(stages: int, microbatches: int, chunks: int, stage: int) -> float:
    first = (stages - 1 - stage) * (2 if chunks > 1 else 1) + (chunks - 1) * stages + 1
    return min(microbatches * chunks, first) / chunks


SCHEDULES = {
    each.name: each
    for each in (
        Schedule(
            name="1f1b",
            title="1F1B",
            meaning="a stage alternates forward and backward, and holds as many microbatches as "
            "stages follow",
            held=_held_one_by_one,
            source="Narayanan et al. 2021, arXiv:2104.04473",
        ),
        Schedule(
            name="gpipe",
            title="GPipe",
            meaning="all microbatches forward, then all backward",
            held=lambda stages, microbatches, chunks, stage: microbatches,
            in_turns=False,
            source="Huang et al. 2019, arXiv:1811.06965",
        ),
        Schedule(
            name="interleaved",
            title="Interleaved 1F1B",
            meaning="1F1B over several runs of layers in each stage: more hops, and a smaller "
            "bubble",
            held=_held_one_by_one,
            in_chunks=True,
            source="Narayanan et al. 2021, arXiv:2104.04473",
        ),
        Schedule(
            name="zb-h1",
            title="Zero bubble (ZB-H1)",
            meaning="1F1B whose gradients of weights fill what would idle; they take no longer "
            "than a forward pass",
            held=lambda stages, microbatches, chunks, stage: min(stages, microbatches),
            turn="BWF",
            source="Qi et al. 2023, arXiv:2401.10241",
        ),
        Schedule(
            name="circular",
            title="Circular",
            meaning="MaxText's: all microbatches go around the stages once for each run of layers",
            held=lambda stages, microbatches, chunks, stage: microbatches,
            in_turns=False,
            in_chunks=True,
            source="AI-Hypercomputer/maxtext, layers/pipeline.py",
        ),
    )
}


def microbatch_counts(
    schedule: Schedule, stages: int, chunks: int, sequences: int = 0
) -> list[int]:
    """Returns the numbers of microbatches that a schedule takes, and that divide so many sequences;
    of 0 sequences all.
    """
    step = stages if chunks > 1 and schedule.name == "interleaved" else 1
    least = stages if schedule.name == "circular" else step
    most = min(sequences or MOST_MICROBATCHES, MOST_MICROBATCHES, _MOST_PIECES // (stages * chunks))
    return [count for count in range(least, most + 1, step) if sequences % count == 0]


def fewer_microbatches(
    count: int | None, batch: float, mesh: Mapping[str, int] | Sequence[tuple[str, int]]
) -> int | None:
    """Returns the microbatches that divide the sequences of each shard of a batch, `count` or fewer;
    those of a pipeline as they are.

    >>> fewer_microbatches(4, 512, {"fsdp": 256}), fewer_microbatches(2, 512, {"fsdp": 512})
    (2, 1)
    """
    sizes = dict(mesh)
    if not count or STAGE in sizes:
        return count
    shards = math.prod(sizes.get(name) or 1 for name in DATA_AXES)
    return math.gcd(count, round(batch) // shards) or count


def check_schedule(
    schedule: Schedule, stages: int, microbatches: int, chunks: int, sequences: int = 0
) -> None:
    """RequestError where a schedule has no such pipeline."""
    if chunks > 1 and not schedule.in_chunks:
        rule = f"means nothing to {schedule.name}, whose stages are one run of layers each"
        raise refuse(f"repeats={chunks}", rule, "use interleaved or circular")
    counts = microbatch_counts(schedule, stages, chunks, sequences)
    if microbatches in counts:
        return
    if sequences % microbatches:
        rule = f"does not divide the sequences of each shard of the batch ({sequences})"
    elif stages * microbatches * chunks > _MOST_PIECES:
        rule = f"makes more than the {_MOST_PIECES:,} forward passes of stages that are simulated"
    elif schedule.name == "circular":
        rule = f"is fewer than stage={stages}, and a circular pipeline would wait for itself"
    else:
        rule = f"does not divide over stage={stages}, as {schedule.name} needs"
    near = min(counts, key=lambda count: abs(count - microbatches), default=stages)
    many = "or more, and as many" if schedule.name == "circular" else f"and a multiple of {stages}"
    more = "" if counts else f" {many} sequences in each shard of the batch"
    raise refuse(f"microbatches={microbatches}", rule, f"use {near}{more}")

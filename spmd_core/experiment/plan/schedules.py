"""Schedules of a pipeline: the order in which each stage works, what it holds, and its bubble in
closed form.

A microbatch takes a stage F seconds forward, B backward for its inputs and W for its weights.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spmd_core.base import refuse

_MOST_PIECES = 2**16
MOST_MICROBATCHES = 4096


class StagePiece(NamedTuple):
    """One microbatch through one chunk of a stage's layers: "F", "B" (with W where a schedule does
    not set it apart) or "W".
    """

    kind: str
    microbatch: int
    chunk: int = 0


Order = Iterator[StagePiece]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as data: the order of a stage's pieces, and its bubble in closed form for equal
    stages and free hops.

    `order` takes stages, microbatches, chunks of a stage and the stage; `bubble` takes F, B and W
    of a stage, and the chunks: seconds for each stage but one. `held`: the most microbatches whose
    activations a stage holds at once, all its layers as one.
    """

    name: str
    title: str
    meaning: str
    order: Callable[[int, int, int, int], Order]
    bubble: Callable[[float, float, float, int], float]
    held: Callable[[int, int, int, int], float]
    in_chunks: bool = False  # a stage holds several runs of layers, apart from one another
    apart: bool = False  # gradients of weights wait until a stage would idle
    source: str

    def bubble_s(self, stages: int, seconds: tuple[float, float, float], chunks: int = 1) -> float:
        """Seconds that a stage idles in a step, where all stages are equal and hops free."""
        return (stages - 1) * self.bubble(*seconds, chunks)


def _all_forward_first(stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """GPipe and, of several chunks, MaxText's circular pipeline: all of a chunk, then the next."""
    pieces = [(number, chunk) for chunk in range(chunks) for number in range(microbatches)]
    yield from (StagePiece("F", *each) for each in pieces)
    yield from (StagePiece("B", *each) for each in reversed(pieces))


def _one_by_one(stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """1F1B, and of several chunks Megatron's interleaved schedule."""
    total, turn = microbatches * chunks, stages * chunks
    following = (stages - 1 - stage) * (2 if chunks > 1 else 1)
    first = min(total, following + (chunks - 1) * stages)

    def piece(kind: str, number: int) -> StagePiece:
        microbatch = number // turn * stages + number % stages if chunks > 1 else number
        chunk = number % turn // stages if chunks > 1 else 0
        return StagePiece(kind, microbatch, chunk if kind == "F" else chunks - 1 - chunk)

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
    yield from (StagePiece("F", number) for number in range(first))
    for number in range(microbatches):
        yield StagePiece("B", number)
        if number >= stage:
            yield StagePiece("W", number - stage)
        if first + number < microbatches:
            yield StagePiece("F", first + number)
    yield from (
        StagePiece("W", number) for number in range(max(0, microbatches - stage), microbatches)
    )


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
            order=_one_by_one,
            bubble=lambda f, b, w, chunks: f + b + w,
            held=_held_one_by_one,
            source="Narayanan et al. 2021, arXiv:2104.04473",
        ),
        Schedule(
            name="gpipe",
            title="GPipe",
            meaning="all microbatches forward, then all backward",
            order=_all_forward_first,
            bubble=lambda f, b, w, chunks: f + b + w,
            held=lambda stages, microbatches, chunks, stage: microbatches,
            source="Huang et al. 2019, arXiv:1811.06965",
        ),
        Schedule(
            name="interleaved",
            title="Interleaved 1F1B",
            meaning="1F1B over several runs of layers in each stage: more hops, and a smaller "
            "bubble",
            order=_one_by_one,
            bubble=lambda f, b, w, chunks: (f + b + w) / chunks,
            held=_held_one_by_one,
            in_chunks=True,
            source="Narayanan et al. 2021, arXiv:2104.04473",
        ),
        Schedule(
            name="zb-h1",
            title="Zero bubble (ZB-H1)",
            meaning="1F1B whose gradients of weights fill what would idle; they take no longer "
            "than a forward pass",
            order=_weights_later,
            bubble=lambda f, b, w, chunks: f + b - w,
            held=lambda stages, microbatches, chunks, stage: min(stages, microbatches),
            apart=True,
            source="Qi et al. 2023, arXiv:2401.10241",
        ),
        Schedule(
            name="circular",
            title="Circular",
            meaning="MaxText's: all microbatches go around the stages once for each run of layers",
            order=_all_forward_first,
            bubble=lambda f, b, w, chunks: (f + b + w) / chunks,
            held=lambda stages, microbatches, chunks, stage: microbatches,
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

"""The sentences about scaling to more chips: where the curve bends and why, and what is not counted."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spmd_core.base import between, count_text, number_text, numbered
from spmd_core.plan import Plan, arrays
from spmd_core.roofline import tokens_needed
from spmd_core.sweeps import BEST, Sweep, SweepRow, curves, estimated, variants
from spmd_core.words import share_words

GOOD = 0.8  # scaling efficiency: below it the curve has bent
# tokens of a step of DeepSeek-V3: 15,360 sequences of 4,096, the most of any published run;
# arXiv:2412.19437 section 4.2
MOST_TOKENS = 15_360 * 4_096
_SEEN = 0.005  # of a step: less growth rounds to 0%
TILE_ROWS = 8  # of float32 arrays in a TPU's memory


@dataclass(frozen=True, slots=True)
class Knee:
    """The last point above `GOOD`, and the first below it.

    Attributes:
      cause: the share of the step that grew most for the same work, as `shares_by_axis` has it.
      share: of the step, at the first point below.
      tokens: per chip, there.
      needed: tokens per chip with which its links hide a gather of the weights.
    """

    before: SweepRow
    after: SweepRow
    cause: str
    share: float
    tokens: float | None = None
    needed: float | None = None


def knee_words(sweep: Sweep, timed: Sequence[SweepRow], most: int) -> list[str]:
    """Where scaling falls below 80 %, with what takes the time; empty for other sweeps. `most` is
    the largest number of chips tried, with a time or without.
    """
    if not sweep.variable.scales or len(timed) < 2:
        return []
    rows = sorted(timed, key=lambda row: row.point.chips)
    bend, reached = knee(rows), f"It scales to {reach_words(rows, most)}"
    if bend is None:
        good = (rows[-1].efficiency or 0.0) >= GOOD
        return [f"{reached}: {_speed_words(rows[-1], rows)}."] if good else []
    after = count_text(bend.after.point.chips)
    tokens, why = "", f", mostly for {share_words(bend.cause)}, {bend.share:.0%} of the step"
    why *= bool(bend.cause)
    if bend.tokens is not None and bend.needed is not None:
        tokens = f"At {after} chips each has {number_text(bend.tokens)} tokens"
        if bend.cause.startswith(("exposed", "wait")):
            tokens += (
                f"; its links hide a gather of weights from about {number_text(bend.needed)} on"
            )
    return [
        f"{reached}. At {after} {_speed_words(bend.after, rows)}{why}.",
        *([f"{tokens}."] if tokens else []),
    ]


def reach_words(rows: Sequence[SweepRow], most: int, has_tokens: bool = True) -> str:
    """Returns to how many chips points scale, of which the largest has `most`, and the tokens of a step
    there unless `has_tokens` is False. Points are by number of chips.
    """
    bend = knee(rows)
    last = bend.before if bend else rows[-1]
    is_open = bend is None and last.point.chips == most
    chips = _chips_words(last) if has_tokens else numbered(last.point.chips, "chip")
    return f"{'at least ' * is_open}{chips}"


def may_fall_short(rows: Sequence[SweepRow]) -> bool:
    """Returns True if the range of the efficiency of the last point that counts as scaling reaches
    below `GOOD`. Points are by number of chips.
    """
    bend = knee(rows)
    reached = [bend.before] if bend else rows[-1:]
    return any(row.efficiency_span and row.efficiency_span[0] < GOOD for row in reached)


def _speed_words(row: SweepRow, rows: Sequence[SweepRow]) -> str:
    first = next((each for each in rows if each.efficiency == 1), rows[0])
    return f"a chip has {row.efficiency or 0.0:.0%} of its speed at {count_text(first.point.chips)}"


def _chips_words(row: SweepRow) -> str:
    """Returns the chips of a point, and of a decoder the tokens of its step."""
    chips, plan = numbered(row.point.chips, "chip"), _plan(row)
    return f"{chips} with {step_tokens(plan)}" if plan else chips


def step_tokens(plan: Plan) -> str:
    """Returns the tokens of a step: `4.19M tokens a step`."""
    millions = f"{number_text(plan.tokens / 1e6)}M"
    return f"{millions if plan.tokens >= 1e6 else count_text(plan.tokens)} tokens a step"


def is_unseen(plan: Plan) -> bool:
    """Returns True if a step has more tokens than that of any published run."""
    return plan.tokens > MOST_TOKENS


def total_batch(sweep: Sweep) -> Sequence[SweepRow]:
    """Returns estimates of the points with the base's total batch, each on its best mesh; none where
    the sweep has that batch.
    """
    if not sweep.variable.scales or sweep.scaling == "strong" or not sweep.base.plan:
        return ()
    points = variants(replace(sweep, scaling="strong", meshes=BEST))
    return curves(points, list(map(estimated, points)))


def scaled_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Returns the points that have an efficiency, by number of chips; none where fewer than two have."""
    known = [row for row in rows if row.efficiency is not None]
    return sorted(known, key=lambda row: row.point.chips) if len(known) > 1 else []


def straggler_source(plan: Plan | None) -> str:
    """Returns of which runs the waiting for stragglers is."""
    is_gpu = plan is not None and plan.topology.chip.is_gpu
    return "published runs on 256 hosts" if is_gpu else "MaxText's published v5e runs"


def scaling_notes(sweep: Sweep, rows: Sequence[SweepRow]) -> list[str]:
    """What a sweep over chips assumes or does not count, a sentence each."""
    able = [row for row in rows if row.point.experiment and row.point.experiment.plan]
    if not able or not sweep.variable.scales:
        return []
    tried = [row.point.plans_tried for row in able if row.point.plans_tried]
    notes = []
    if tried:
        span = between(f"{min(tried):,}", numbered(max(tried), "plan"))
        notes.append(
            f"Each row has the plan that Predict finds for its chips and batch: the fastest by the "
            f"estimate, of {span}."
        )
    if sweep.scaling == "weak":
        notes += _batches(able)
    return [*notes, *_padding(able), _jitter(able)]


def _batches(able: Sequence[SweepRow]) -> Iterator[str]:
    large = [row for row in able if (plan := _plan(row)) and is_unseen(plan)]
    if large and (plan := _plan(large[0])):
        yield (
            f"From {count_text(large[0].point.chips)} chips on a step has {plan.tokens / 1e6:,.0f} "
            f"million tokens or more: no published run trains with more than "
            f"{MOST_TOKENS / 1e6:,.0f} million (DeepSeek-V3)."
        )


def _padding(able: Sequence[SweepRow]) -> Iterator[str]:
    for row in able:
        plan = _plan(row)
        for dim, size, shards in narrow_shards(plan) if plan else ():
            yield (
                f"At {count_text(row.point.chips)} chips {dim}={size:,} over {shards:,} devices leaves "
                f"shards of {size // shards}, which tiles of {TILE_ROWS} rows pad: an estimate does "
                "not count that."
            )
            return


def _jitter(able: Sequence[SweepRow]) -> str:
    plan = _plan(able[0])
    if not any(row.point.slices > 1 for row in able):
        return "Jitter between hosts is not counted."
    if plan is not None and plan.topology.chip.is_gpu:
        return f"Jitter between hosts is counted as in {straggler_source(plan)}: 2.5%."
    return (
        f"Jitter between slices is counted as in {straggler_source(plan)}, that of hosts in a slice is "
        "not counted."
    )


def _plan(row: SweepRow) -> Plan | None:
    return row.point.experiment.plan if row.point.experiment else None


def knee(timed: Sequence[SweepRow]) -> Knee | None:
    """Returns where the efficiency of points, by number of chips, falls below `GOOD`; None where it
    does not."""
    for before, after in pairwise(timed):
        if (after.efficiency or 1.0) < GOOD <= (before.efficiency or 0.0):
            cause, share = grown_most(timed[0], after)
            plan = after.point.experiment and after.point.experiment.plan
            if not plan:
                return Knee(before, after, cause, share)
            return Knee(
                before, after, cause, share, plan.tokens / after.point.chips, tokens_needed(plan)
            )
    return None


def grown_most(first: SweepRow, last: SweepRow) -> tuple[str, float]:
    """Returns the part of a step that grew most for the same work, and its share of the last; ""
    where none grew by half a percent of the first."""
    before, after = share_costs(first), share_costs(last)
    grown = {name: cost - before.get(name, 0.0) for name, cost in after.items()}
    cause = max(grown, key=lambda name: grown[name], default="")
    if grown.get(cause, 0.0) < _SEEN:
        return "", 0.0
    return cause, after[cause] / sum(after.values())


def fell_most(first: SweepRow, last: SweepRow) -> tuple[str, float, float]:
    """Returns the part of a step that takes less for the same work, and its cost at both points, of
    which the first one's step is 1; "" where none does.
    """
    costs = [share_costs(row) for row in (first, last)]
    before, after = (
        {name: (first.efficiency or 1.0) * c for name, c in cost.items()} for cost in costs
    )
    less = {name: before[name] - after.get(name, 0.0) for name in before}
    most = max(less, key=lambda name: less[name], default="")
    if less.get(most, 0.0) <= 0:
        return "", 0.0, 0.0
    return most, before[most], after.get(most, 0.0)


def share_costs(row: SweepRow) -> dict[str, float]:
    """Returns what each part of a step costs in chip-seconds for the same work, of which a point of
    efficiency 1 costs 1."""
    seconds = row.numbers.shares_s
    total = sum(seconds.values()) * (row.efficiency or 1.0)
    return {name: each / total for name, each in seconds.items()}


def narrow_shards(plan: Plan) -> Iterator[tuple[str, int, int]]:
    """Yields (dim, size, shards) of weights that a TPU's tiles pad: fewer rows in a shard than in a
    tile."""
    if plan.topology.chip.is_gpu:
        return
    mesh, seen = dict(plan.mesh), set[str]()
    for array in arrays(plan):
        if array.group != "parameters" or len(array.dims) != 2:  # tiles are of the last two
            continue
        for (dim, size), axes in zip(array.dims, array.axes, strict=True):
            shards = math.prod(mesh[axis] for axis in axes)
            if shards > 1 and size // shards < TILE_ROWS and dim not in seen:
                seen.add(dim)
                yield dim, size, shards

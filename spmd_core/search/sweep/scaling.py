"""Where strong scaling bends and why, and what a weak sweep leaves uncounted."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spmd_core.experiment import Plan, arrays
from spmd_core.search.sweep.curves import SweepRow
from spmd_core.time import tokens_needed

GOOD = 0.8  # scaling efficiency: below it the curve has bent
# tokens of a step of DeepSeek-V3: 15,360 sequences of 4,096, the most of any published run;
# arXiv:2412.19437 section 4.2
MOST_TOKENS = 15_360 * 4_096
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


def knee(timed: Sequence[SweepRow]) -> Knee | None:
    """Returns where the efficiency of points, by number of chips, falls below `GOOD`; None where it
    does not."""
    for before, after in pairwise(timed):
        if (after.efficiency or 1.0) < GOOD <= (before.efficiency or 0.0):
            first, last = timed[0].numbers.shares_s, after.numbers.shares_s
            grown = {
                name: after.point.chips * seconds - timed[0].point.chips * first.get(name, 0.0)
                for name, seconds in last.items()
            }
            cause = max(grown, key=lambda name: grown[name], default="")
            share = last.get(cause, 0.0) / (sum(last.values()) or 1.0)
            plan = after.point.experiment and after.point.experiment.plan
            if not plan:
                return Knee(before, after, cause, share)
            return Knee(
                before, after, cause, share, plan.tokens / after.point.chips, tokens_needed(plan)
            )
    return None


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

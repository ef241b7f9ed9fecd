"""Kinds of attention over `context`, on longer and longer sequences, by the instant estimate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from spmd_core.base import RequestError
from spmd_core.facts import Prediction
from spmd_core.plan import CONTEXT, DATA_AXES, MAX_SEQUENCE, Plan
from spmd_core.time import estimate_step, is_of_context
from spmd_core.workloads import parse_plan

BOTH = "ulysses and ring"
CONTEXT_KINDS = ("all-gather", "ring", "ulysses", BOTH)


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A kind of attention over `context` on sequences of so many tokens.

    Attributes:
      step: the estimate of its plan; None where there is none, by its `refusal`.
    """

    kind: str
    tokens: int
    plan: Plan | None = None
    step: Prediction | None = None
    refusal: str = ""

    @property
    def seconds(self) -> float | None:
        """Seconds of a step."""
        return self.step.predicted_s.estimate if self.step and self.step.predicted_s else None

    @property
    def exposed_s(self) -> float | None:
        """Seconds of a step that attention waits for keys, values, or heads of other devices."""
        if self.step is None:
            return None
        moved = (each for each in self.step.collectives or () if is_of_context(each.name or ""))
        return sum(each.exposed_total_s or 0.0 for each in moved)


def context_rows(plan: Plan) -> tuple[ContextRow, ...]:
    """Returns every kind on the plan's sequence and on each twice as long, to a million tokens; none
    of a plan without the axis.

    Longer sequences are divided among as many more devices, and a step has as many fewer of them: the
    tokens of a device stay.
    """
    if plan.axis_sizes.get(CONTEXT, 1) == 1:
        return ()
    times = range((MAX_SEQUENCE // plan.sequence).bit_length())
    return tuple(_row(plan, kind, 2**each) for each in times for kind in CONTEXT_KINDS)


def fastest_kinds(rows: Sequence[ContextRow]) -> dict[int, str]:
    """Returns the fastest kind that fits, by tokens of a sequence; "none" where none fits."""
    best = dict[int, str]()
    for tokens, alike in groupby(rows, lambda row: row.tokens):
        fitting = [row for row in alike if row.step and row.step.fits and row.seconds]
        best[tokens] = min(fitting, key=lambda row: row.seconds or 0.0).kind if fitting else "none"
    return best


def _row(plan: Plan, kind: str, times: int) -> ContextRow:
    tokens, form = plan.sequence * times, plan.to_json()
    mesh = _longer(plan, times)
    form |= {"sequence": tokens, "batch_per_device": plan.batch_per_device / times}
    form |= {"context_attention": "ring" if kind == BOTH else kind, "context_order": "balanced"}
    try:
        form["mesh"] = [*with_heads(plan, mesh)] if kind == BOTH else [*mesh.items()]
        other = parse_plan(form)
    except RequestError as error:
        return ContextRow(kind, tokens, refusal=str(error))
    return ContextRow(kind, tokens, other, estimate_step(other))


def _longer(plan: Plan, times: int) -> dict[str, int]:
    """The mesh with that much more of `context`, as far as axes of the batch have it."""
    mesh = dict(plan.mesh)
    for axis in reversed(DATA_AXES):
        moved = math.gcd(mesh.get(axis, 1), times)
        if moved > 1:
            mesh |= {axis: mesh[axis] // moved, CONTEXT: mesh[CONTEXT] * moved}
            times //= moved
    return mesh


def with_heads(plan: Plan, mesh: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """The mesh with `sequence`, which moves heads, over as much of `context` as these divide over; the
    ring is over the rest, of 2 at least.
    """
    over = math.prod(mesh.get(axis, 1) for axis in ("tensor", "sequence"))
    heads = math.gcd(plan.size.heads // math.gcd(plan.size.heads, over), mesh[CONTEXT] // 2)
    for axis, size in mesh.items():
        if axis == CONTEXT:
            yield "sequence", mesh.get("sequence", 1) * heads
            yield axis, size // heads
        elif axis != "sequence":
            yield axis, size

"""What fits near a plan that does not: a sentence, and a sheet."""

from collections.abc import Sequence
from typing import Any

from spmd_core.answers.training_sheet import days_range, plan_policy
from spmd_core.base import count_text, mesh_text, three_digits
from spmd_core.plan import Plan
from spmd_core.sheets import Column, Place, Sheet, Table, count, size, text
from spmd_core.sweeps import WayOut
from spmd_core.terms import chip_title, listed

_SHEET = Sheet[WayOut](
    (
        count("Chips", lambda way: way.plan.topology.chips),
        count("Tokens a step", lambda way: int(way.plan.tokens)),
        text("Fits", lambda way: "yes" if way.is_sure else "may not"),
        Column("Days", lambda way: way.run.days.estimate, three_digits),
        text("Range of days", lambda way: days_range(way.run)),
        size("Memory", lambda way: way.step.memory_bytes.peak),
        text("Mesh", lambda way: mesh_text(way.plan.mesh, " ")),
        text("Remat", lambda way: plan_policy(way.plan)),
    )
)


def ways_headline(plan: Plan, ways: Sequence[WayOut]) -> str:
    """Returns the fewest chips that are sure to fit, and those that are with the full batch, in a
    sentence.
    """
    sure = [way for way in ways if way.is_sure]
    if not sure:
        return "Nothing that was tried is sure to fit."
    kind, first = chip_title(plan.topology.chip.generation), sure[0]
    full = next((way for way in sure if way.plan.tokens >= plan.tokens), None)
    words = [f"{count_text(first.plan.topology.chips)} {kind}"]
    if first.plan.topology == plan.topology:
        words[0] = f"these {words[0]}" + " by another plan" * (first is full)
    if first is not full:
        words[0] += f" with {count_text(int(first.plan.tokens))} tokens a step"
        if full:
            chips = count_text(full.plan.topology.chips)
            words.append(f"{chips} with all {count_text(int(plan.tokens))}")
    return f"Fits on {listed(words)}."


def ways_table(ways: Sequence[WayOut], place: Place = "screen") -> Table:
    """Returns a row for each way out."""
    return _SHEET.table(ways, place)


def ways_json(ways: Sequence[WayOut]) -> list[dict[str, Any]]:
    """Returns the ways out for machines: days, seconds, bytes."""
    return [
        {
            "chips": way.plan.topology.chips,
            "tokens_per_step": way.plan.tokens,
            "fit": way.step.fit,
            "days": way.run.days.estimate,
            "tokens": way.run.tokens,
            "step_s": way.step.predicted_s.estimate if way.step.predicted_s else None,
            "peak_bytes": way.step.memory_bytes.peak,
            "host_bytes": way.step.memory_bytes.host,
            "plan": way.plan.to_json(),
        }
        for way in ways
    ]


def way_words(way: WayOut, plan: Plan) -> str:
    """Returns what opens a way out: its chips, and its tokens where these are not those of the plan."""
    is_same = way.plan.topology == plan.topology
    chips = "the same chips" if is_same else f"{count_text(way.plan.topology.chips)} chips"
    fewer = f", {count_text(int(way.plan.tokens))} tokens a step"
    return chips + fewer * (way.plan.tokens != plan.tokens)

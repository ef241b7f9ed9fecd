"""Kinds of attention over `context`, by length: the same tokens of a device, each as it is estimated."""

from spmd_core.answers import CONTEXT_ROWS, context_headline
from spmd_core.sweeps import CONTEXT_KINDS, context_rows
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan
from spmd_lab.ui.charts.colors import BEST
from spmd_lab.ui.charts.over_context import context_chart

LONG = {
    "target": "tpu:v5p:4x8x8",
    "model": "llama-3.1-70b",
    "mesh": {"fsdp": 32, "context": 8},
    "batch_per_device": 1 / 8,
    "sequence": 131072,
}


def test_every_kind_to_a_million_tokens_with_the_tokens_of_a_device():
    plan = parse_plan(LONG)
    rows = context_rows(plan)
    assert [(row.tokens, row.kind) for row in rows] == [
        (tokens, kind) for tokens in (2**17, 2**18, 2**19, 2**20) for kind in CONTEXT_KINDS
    ]
    for row in rows:
        assert row.plan.tokens == plan.tokens and row.plan.sequence == row.tokens
        assert row.step == estimate_step(row.plan)
    assert rows[0].plan == plan
    both = rows[-1].plan.axis_sizes
    assert (both["fsdp"], both["sequence"], both["context"]) == (4, 32, 2)
    found = {row.kind: row for row in rows if row.tokens == 2**20}
    assert found["ring"].exposed_s < found["ulysses"].exposed_s
    assert found["all-gather"].step.memory_bytes.peak > found["ulysses"].step.memory_bytes.peak
    assert context_rows(parse_plan(LONG | {"mesh": {"fsdp": 256}, "batch_per_device": 1})) == ()


def test_what_is_refused_says_why_and_the_headline_names_the_fastest_that_fits():
    rows = context_rows(parse_plan(LONG | {"model": "gemma-2-27b"}))
    refused = [row for row in rows if row.refusal]
    assert {row.kind for row in refused} >= {"ring", "ulysses and ring"}
    assert "windows" in CONTEXT_ROWS.table(rows, "terminal").column("Refused")[1].text
    fitting = [row for row in rows if row.tokens == 2**17 and row.step and row.step.fits]
    best = min(fitting, key=lambda row: row.seconds).kind
    assert f"{best} at 131,072" in context_headline(rows)
    drawn = context_chart(rows)["layer"][1]["data"]["values"]
    assert len(drawn) == len(rows) - len(refused)
    marked = [row["row"] for row in drawn if row["color"] == BEST]
    assert marked[0] == f"131,072 · {best}" and len(marked) == len({row.tokens for row in rows})

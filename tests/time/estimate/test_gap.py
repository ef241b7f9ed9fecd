"""A step that took longer than predicted: what could explain it, and what nothing here does."""

import pytest

from spmd_core.time import estimate_step, gap_parts
from spmd_core.workloads import parse_plan
from spmd_lab.ui.predict.keep import gap_sentence, gap_table

FOUND = estimate_step(
    parse_plan(
        {"target": "tpu:v5e:16x16", "model": "scaled:16", "mesh": {"fsdp": 256}, "sequence": 2048}
        | {"batch_per_device": 4}
    )
)
STEP = FOUND.predicted_s.estimate


def test_a_step_as_estimated_has_no_gap():
    assert gap_parts(FOUND, STEP) == () and gap_sentence(FOUND, STEP) is None
    assert gap_table(FOUND, 0.5 * STEP) == []


@pytest.mark.parametrize("longer", [1.05, 1.5, 3.0])
def test_causes_have_bounds_and_the_rest_is_outside_of_the_step(longer):
    measured = longer * STEP
    parts = gap_parts(FOUND, measured)
    bounds = [each.most_s for each in parts[:-1]]
    assert bounds == sorted(bounds, reverse=True) and all(bounds)
    assert parts[-1].cause == "input" and parts[-1].most_s is None
    hidden = sum(each.seconds_total - each.exposed_total_s for each in FOUND.collectives)
    assert {each.cause: each.most_s for each in parts}["communication"] == pytest.approx(hidden)
    left = parts[-1].least_s
    assert left == pytest.approx(max(0.0, measured - 1.09 * STEP - sum(bounds)))
    assert ("outside of the compiled step" in gap_sentence(FOUND, measured)) == (left > 0)
    assert len(gap_table(FOUND, measured)) == len(parts)

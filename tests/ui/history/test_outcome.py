"""How the steps of two plans differ: the parts of the difference, in words and as bars."""

import re

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.time import estimate_step
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui.charts.shares import shares_chart
from spmd_lab.ui.notebook import outcome

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def seconds(sign, number, unit):
    return (-1 if sign == "−" else 1) * float(number) * UNITS[unit]


@pytest.mark.parametrize(
    "meshes", [({"fsdp": 16}, {"fsdp": 4, "tensor": 4}), ({"data": 16}, {"fsdp": 8, "tensor": 2})]
)
def test_the_parts_of_a_difference_add_up_to_it(meshes):
    spec = {**DEFAULT_SPEC, "target": "tpu:v5e:4x4", "dims": {"batch": 32, "sequence": 2048}}
    plans = [parse_experiment(spec | {"mesh": mesh}).plan for mesh in meshes]
    steps = sorted(map(estimate_step, plans), key=lambda step: step.predicted_s.estimate)
    named = dict(zip("ab", steps, strict=True))
    most, where, _ = outcome.differs(named)
    terms = outcome._differences(named, most, where)
    said = re.findall(r"([+−])([\d.]+) (ms|µs|s)\b", outcome._sum_words(terms))
    *_, joined, bars, _ = shares_chart(named, {}, terms)["layer"]
    drawn, joined = (each["data"]["values"] for each in (bars, joined))
    *shown, total = (seconds(*each) for each in said)
    first, other = (step.predicted_s.estimate for step in steps)
    assert total == pytest.approx(other - first, rel=0.02)
    assert sum(shown) == pytest.approx(total, rel=0.05)
    assert [row["x2"] for row in drawn][:-1] == [row["x"] for row in drawn][1:]
    assert drawn[-1]["x2"] / drawn[0]["x"] == pytest.approx(other / first)
    assert [(joined[0]["row"], joined[-1]["below"])] == [("a", "b")]
    assert [each["x"] for each in joined] == [drawn[0]["x"], *(row["x2"] for row in drawn)]


def test_parts_that_are_thin_in_each_step_are_one_and_have_an_entry_of_the_legend():
    spec = {**DEFAULT_SPEC, "target": "tpu:v5e:4x4", "dims": {"batch": 32, "sequence": 2048}}
    step = estimate_step(parse_experiment(spec | {"mesh": {"fsdp": 16}}).plan)
    total = step.predicted_s.estimate
    shares = {"matmul": total, "copy": 0.003 * total, "loop": 0.002 * total}
    thin = step.model_copy(update={"shares_s": shares})
    bars = shares_chart({"a": thin, "b": thin})["layer"][0]
    assert {row["part"] for row in bars["data"]["values"]} == {"matrix products", "other"}
    assert bars["encoding"]["color"]["legend"]["values"] == ["matrix products", "other"]

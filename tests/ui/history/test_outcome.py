"""How the steps of two plans differ, in words: the parts of the difference."""

import re

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.time import estimate_step
from spmd_core.workloads import DEFAULT_SPEC
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
    most, _ = outcome._differs(named)
    said = re.findall(r"([+−])([\d.]+) (ms|µs|s)\b", outcome._sum_words(named, most))
    *terms, total = (seconds(*each) for each in said)
    first, other = (step.predicted_s.estimate for step in steps)
    assert total == pytest.approx(other - first, rel=0.02)
    assert sum(terms) == pytest.approx(total, rel=0.05)

"""The list of collectives against another reading of stored modules, which is written to share
nothing with it.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.reader import read
from spmd_core.program.communication.collectives import read_collectives
from spmd_core.program.hlo.text import parse_module

HLO = Path(__file__).parents[1] / "hlo"
MODULES = (
    "mlp_gathered_tpu_0.10.2",
    "scattered_tpu_0.10.2",
    "summed_product_tpu_0.10.2",
    "scan_cpu_0.10.2",
    "scan_tpu_0.10.2",
)


def both(text):
    """What the list and the other reading say, as multisets."""
    listed = read_collectives(parse_module(text), (("x", 16),), file="")
    ours = Counter(
        (each.kind, each.bytes, each.count, each.asynchronous, each.groups) for each in listed
    )
    return ours, Counter(
        (each.kind, each.bytes, each.count, each.asynchronous, each.groups)
        for each in read(text, "")
    )


@pytest.mark.parametrize("name", MODULES)
def test_two_readings_of_a_module_agree(name):
    ours, theirs = both((HLO / f"{name}.hlo").read_text())
    assert ours == theirs
    assert ours


def test_the_comparison_can_fail():
    """A gather that its step fusion starts for a second time is one more for both, and other bytes
    are told apart.
    """
    text = (HLO / "mlp_gathered_tpu_0.10.2.hlo").read_text()
    once, _ = both(text)
    changed = re.sub(r"kind=kOutput(, .*calls=%async_collective_fusion)", r"kind=kCustom\1", text)
    assert changed != text
    twice, theirs = both(changed)
    assert sum(twice.values()) == sum(theirs.values()) == sum(once.values()) + 1
    assert once != theirs

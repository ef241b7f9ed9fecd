"""Colors of the parts of a step's time."""

import re

import pytest

from spmd_lab.ui.charts.shares import split_bar

_FAR = 70  # of 255: the largest difference of a channel that an eye tells apart in a legend


def colors_of(parts):
    drawn = re.findall(r"#[0-9a-f]{6}", split_bar(parts))
    return [tuple(int(each[at : at + 2], 16) for at in (1, 3, 5)) for each in dict.fromkeys(drawn)]


@pytest.mark.parametrize(
    "axes", [("data", "model"), ("dp", "tp"), ("dp", "ep"), ("x", "y"), ("fsdp", "tp")]
)
def test_the_waits_over_both_axes_of_a_common_mesh_are_told_apart(axes):
    one, other = colors_of({f"exposed over {axis}": 1.0 for axis in axes})[:2]
    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > _FAR

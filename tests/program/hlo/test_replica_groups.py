import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from spmd_core.program import HloError
from spmd_core.program.hlo.replica_groups import axes_of, parse_groups, parse_pairs


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("{{0,1},{2,3},{4,5},{6,7}}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("{{0, 4}, {1, 5}}", [[0, 4], [1, 5]]),
        ("[2,4]<=[8]", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("[4,2]<=[2,2,2]T(0,2,1)", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh['x'=2,'y'=4] {'x'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['x'=2,'y'=4] {'x','y'}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("mesh['x'=2,'y'=4] {'y':(2)2}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("mesh['x'=2,'y'=4] {'y':(1)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh[a=2,b=4] {b:(1)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        (
            "mesh['axis_0'=4,'axis_1'=2], device_ids=([2,4]T(1,0)) {'axis_1'}",
            [[0, 4], [1, 5], [2, 6], [3, 7]],
        ),
        (
            "mesh['axis_0'=4,'axis_1'=2], device_ids=(0,4,1,5,2,6,3,7) {'axis_1'}",
            [[0, 4], [1, 5], [2, 6], [3, 7]],
        ),
        (
            "mesh['axis_0'=4,'axis_1'=2], device_ids=([2,2,2]T(0,2,1)) {'axis_0':(2)2}",
            [[0, 1], [2, 3], [4, 5], [6, 7]],
        ),
    ],
)
def test_every_spelling(text, groups):
    assert sorted(map(sorted, parse_groups(text, 8).tolist())) == groups


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{0,1}",
        "[4,2]",
        "mesh['x'=2] {'z'}",
        "mesh['x'=8], device_ids=(nonsense) {'x'}",
        "{{0,a}}",
        "groups of 2",
    ],
)
def test_an_unknown_spelling_is_an_error(text):
    with pytest.raises(HloError):
        parse_groups(text, 8)


def test_groups_of_unequal_length_name_no_further_device():
    assert parse_groups("{{0,1,2},{3}}", 4).tolist() == [[0, 1, 2], [3, 3, 3]]


def test_pairs():
    assert parse_pairs("{{0,1},{1,0}}").tolist() == [[0, 1], [1, 0]]
    assert parse_pairs("{}").shape == (0, 2)
    with pytest.raises(HloError, match="pairs"):
        parse_pairs("{0,1}")


@given(st.data())
def test_the_axes_are_those_that_made_the_groups(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    mesh = tuple((name, size) for name, size in zip("xyzw", sizes, strict=False))
    chosen = data.draw(st.sets(st.sampled_from(range(len(sizes)))))
    count = math.prod(sizes)
    order = data.draw(st.permutations(range(count)))  # mesh position -> the program's device number
    rest = [axis for axis in range(len(sizes)) if axis not in chosen]
    members = math.prod(sizes[axis] for axis in chosen)
    groups = np.array(order).reshape(sizes).transpose(rest + sorted(chosen)).reshape(-1, members)
    text = "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups.tolist()) + "}"
    positions = tuple(int(position) for position in np.argsort(order))
    expected = tuple(mesh[axis][0] for axis in sorted(chosen) if sizes[axis] > 1)
    assert axes_of(parse_groups(text, count), mesh, positions) == expected


def test_half_an_axis_is_that_axis():
    assert axes_of(parse_groups("mesh['x'=2,'y'=4] {'y':(2)2}", 8), (("x", 2), ("y", 4))) == ("y",)


def test_a_device_outside_the_mesh_is_an_error():
    with pytest.raises(HloError, match="device 7, but the mesh has 4"):
        axes_of(parse_groups("{{0,7}}", 8), (("x", 4),))

"""Resharding, against small arrays that were counted by hand and against devices simulated in NumPy."""

import itertools
import math

import pytest

from spmd_core.experiment import layout
from spmd_core.pictures.resharding.moves import SLICE, missing_bytes, reshard

MESH = (("x", 2), ("y", 4))
SHAPE = (64, 128)  # 32 KiB of float32
KIB = 1024


def steps(before, after, mesh=MESH, shape=SHAPE):
    return [(move.kind, move.axes, move.nbytes) for move in reshard(mesh, shape, before, after, 4)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((("x",), ()), (("x",), ()), []),
        ((("x",), ()), ((), ()), [("all-gather", ("x",), 32 * KIB)]),
        ((("x",), ("y",)), (("x",), ()), [("all-gather", ("y",), 16 * KIB)]),
        (((), ()), (("x",), ("y",)), [(SLICE, ("x", "y"), 4 * KIB)]),
        ((("x",), ()), ((), ("x",)), [("all-to-all", ("x",), 16 * KIB)]),
        ((("x", "y"), ()), (("y", "x"), ()), [("collective-permute", ("x", "y"), 4 * KIB)]),
        # a quarter that lies within half of another device
        (
            (("x",), ()),
            (("y",), ()),
            [(SLICE, ("x", "y"), 8 * KIB), ("collective-permute", ("x", "y"), 8 * KIB)],
        ),
        # x is major: what is left of it would have gaps
        (
            (("x", "y"), ()),
            (("y",), ()),
            [("collective-permute", ("x", "y"), 4 * KIB), ("all-gather", ("x",), 8 * KIB)],
        ),
        ((("x", "y"), ()), (("x",), ()), [("all-gather", ("y",), 16 * KIB)]),
    ],
)
def test_the_steps_by_hand(before, after, expected):
    assert steps(before, after) == expected


def specs():
    """Every spec of two dims over x and y, in either order."""
    for places in itertools.product((0, 1, None), repeat=2):
        chosen = [axis for axis, place in zip("xy", places, strict=True) if place is not None]
        for order in {tuple(chosen), tuple(reversed(chosen))}:
            where = dict(zip("xy", places, strict=True))
            yield tuple(tuple(axis for axis in order if where[axis] == dim) for dim in (0, 1))


def test_something_is_sent_just_where_a_device_lacks_something():
    for before, after in itertools.product(set(specs()), repeat=2):
        sent = [move for move in reshard(MESH, SHAPE, before, after, 4) if move.sends]
        missing = missing_bytes(MESH, SHAPE, before, after, 4)
        assert bool(sent) == bool(missing), (before, after)
        # nothing arrives for less than what is missing
        sizes = dict(MESH)
        arrives = sum(
            move.nbytes * (1 - 1 / math.prod(sizes[axis] for axis in move.axes))
            if move.kind != "collective-permute"
            else move.nbytes
            for move in sent
        )
        assert arrives >= missing - 1e-6, (before, after)


def test_a_permute_gives_every_device_its_shard_and_each_sends_once():
    before, after = (("x", "y"), ()), (("y", "x"), ())
    (move,) = reshard(MESH, SHAPE, before, after, 4)
    old, new = layout(MESH, SHAPE, before), layout(MESH, SHAPE, after)
    assert len({source for source, _ in move.pairs}) == len(move.pairs) == 6  # 0 and 7 keep theirs
    for source, target in move.pairs:
        assert (old.starts[source] == new.starts[target]).all()


def test_axes_of_one_device_move_nothing():
    assert steps((("x",), ()), ((), ("x",)), (("x", 1), ("y", 4))) == []

"""What alone may rule a sharding out: FLOPs over the devices in use, bytes, and what is sent."""

import pytest

from spmd_core.experiment import Sharded
from spmd_core.roofline import ShardedFormula
from spmd_core.roofline.bound import bound_s, received, used
from spmd_core.search import Space, read_array_question
from spmd_core.search.spaces.array_space import shardings

TARGET = "tpu:v5e:4x4"
BLOCK = {"workload": "transformer_block", "target": TARGET, "mesh": None, "sharding": None}
MLP = {
    "workload": "mlp",
    "target": TARGET,
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 1024, "in": 256, "hidden": 2048, "out": 128},
}


def formula(spec):
    """What makes the formula of a sharding."""
    found = Space(read_array_question(spec), 2)._formulas[TARGET]
    return lambda sharded: ShardedFormula(found, sharded)


def over(mesh, **table):
    return Sharded(
        TARGET,
        tuple(mesh.items()),
        tuple((dim, tuple(axes.split("+"))) for dim, axes in table.items()),
    )


def test_flops_are_split_over_the_devices_that_the_sharding_uses():
    found = formula(BLOCK | {"dims": {"batch": 64, "sequence": 2048, "embed": 1024}})
    whole = over({"x": 4, "y": 4})
    assert used(found(whole)) == 1
    assert used(found(over({"x": 4, "y": 4}, batch="x"))) == 4
    assert used(found(over({"x": 4, "y": 4}, batch="x+y", embed="y"))) == 16
    assert bound_s(found(whole), "auto") == pytest.approx(
        16 * bound_s(found(over({"x": 4, "y": 4}, batch="x+y")), "auto")
    )
    assert bound_s(found(whole), "single") == 0.0


def test_what_a_chain_of_products_has_to_send_is_its_narrowest_place():
    found = formula(MLP)
    weights, hidden, result = 4 * 256 * 2048, 4 * 1024 * 2048, 4 * 1024 * 128
    assert received(found(over({"x": 16}, batch="x"))) == 0  # all that its rows need is there
    assert received(found(over({"x": 16}, hidden="x"))) == result * 15 / 16  # sums of y
    both = over({"x": 2, "y": 8}, batch="y", hidden="x")
    assert received(found(both)) == result / 8 / 2 < min(weights, hidden / 8) / 2
    wide = formula(MLP | {"dims": MLP["dims"] | {"out": 65536}})
    assert received(wide(over({"x": 2, "y": 8}, **{"in": "x"}))) == weights / 2


def test_something_sent_takes_at_least_the_time_of_a_collective():
    found = formula(MLP | {"dims": {"batch": 16, "in": 16, "hidden": 16, "out": 16}})
    apart, sent = over({"x": 16}, batch="x"), over({"x": 16}, hidden="x")
    least = found(apart).formula.limits.collective_s
    assert bound_s(found(apart), "auto") < least < bound_s(found(sent), "auto") < 1.1 * least


def test_key_heads_need_nothing_of_others_where_query_heads_are_stored_as_they_are():
    attention = formula({"workload": "attention", "target": TARGET, "mesh": None, "sharding": None})
    assert received(attention(over({"x": 2, "y": 8}, heads="y", kv_heads="y"))) == 0
    assert received(attention(over({"x": 2, "y": 8}, sequence="x"))) > 0
    block = formula(BLOCK)
    assert received(block(over({"x": 2, "y": 8}, kv_heads="y"))) > 0  # y has no heads: it sums them


@pytest.mark.parametrize(
    "target",
    [
        "tpu:v5e:4x4",
        "tpu:v5e:16x16",
        "tpu:v5p:2x2x2",
        "tpu:v6e:2x2",
        "tpu:v5e:4x4*2",
        "tpu:tpu7x:2x2x2",
    ],
)
def test_no_collective_is_priced_below_what_its_bytes_take_at_the_limit(target):
    """Of an all-gather the cost model says at least the bytes that a device misses over the most
    that its links carry, and at least the least time of any.
    """
    space = Space(read_array_question(MLP | {"target": target}), 2)
    found, priced = space._formulas[target], 0
    for sharded in shardings(space.question):
        for axes in {entry for _, entry in sharded.table if sharded.parts(entry) > 1}:
            parts = sharded.parts(axes)
            for nbytes in (1e3, 1e8):
                sent = nbytes * (1 - 1 / parts) / found.limits.link_bytes_per_s
                for kind in ("all-gather", "all-reduce", "all-to-all"):
                    time = found.times.collective(kind, sharded.mesh, axes, nbytes)
                    assert time.seconds is not None
                    assert time.seconds >= 0.999 * (found.limits.collective_s + sent)
                    priced += 1
    assert priced > 50

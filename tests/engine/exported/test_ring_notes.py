"""Rings that send more than they need are noted, with what to change; right ones are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from bench.lost_batches import judged_experiment, taken
from spmd_core.advice import KINDS, RING_KINDS, compiled_findings
from spmd_core.advice.ring_words import ring_code
from spmd_core.results import StrategyResult
from tests.engine.exported import ring_bodies as of
from tests.engine.exported.ring_bodies import BY_ROWS, COLUMNS, ROWS, WHOLE, WIDTH, Ringed

pytestmark = pytest.mark.usefixtures("read_here")
ALL, ONE_FEWER = (8, 7), (4, 3)
BOTH = {"x": 4, "y": 2}
SMALLER = "larger_rotated"
SCALAR = {"specs": (BY_ROWS, WHOLE), "out": WHOLE}
# a step, whether its other block should go round, and its permutes with those that suffice
STEPS = {
    "a loop": (Ringed(of.ring), True, ALL),
    "a scan": (Ringed(of.scanned), True, ALL),
    "unrolled": (Ringed(of.unrolled), True, None),
    "the last product after the loop": (Ringed(of.peeled), True, None),
    "backwards": (Ringed(of.backwards), True, ALL),
    "by three": (Ringed(of.by_three), True, ALL),
    "two a turn": (Ringed(of.two_a_turn), True, ALL),
    "both ways": (Ringed(of.both_ways), False, (16, 14)),
    "the right operand": (Ringed(of.on_the_right, out=P("x", None)), True, ALL),
    "bfloat16": (Ringed(of.ring, dtype=jnp.bfloat16), True, ALL),
    "float16": (Ringed(of.scanned, dtype=jnp.float16), True, ALL),
    "the first of two axes": (Ringed(of.ring, sizes=BOTH), True, ONE_FEWER),
    "the second of two axes": (Ringed(of.ring, sizes={"y": 2, "x": 4}), True, ONE_FEWER),
    "the other over both axes": (
        Ringed(of.ring, (BY_ROWS, P(None, ("y", "x"))), P(None, ("y", "x")), BOTH),
        False,
        ONE_FEWER,
    ),
    "layers": (Ringed(of.in_layers), False, (24, 21)),
    "the first block back home": (Ringed(of.ahead), True, ALL),
    "two buffers": (Ringed(of.buffered), True, None),
    "a block that is returned": (Ringed(of.returned, out=BY_ROWS), False, None),
    "products that are added": (Ringed(of.summed, out=P("x")), False, ALL),
    "products in other places": (Ringed(of.misplaced), False, ALL),
    "a result that is used": (Ringed(of.used_within), False, ALL),
    "a block that is looked at": (Ringed(of.looked_at), False, ALL),
    "blocks of a size": (Ringed(of.ring, columns=ROWS), False, ALL),
    "the other replicated": (Ringed(of.ring, (BY_ROWS, WHOLE), WHOLE), False, ALL),
    "a pipeline": (Ringed(of.piped, (BY_ROWS, WHOLE), BY_ROWS), False, None),
    "turns of an unknown number": (Ringed(of.until, **SCALAR), False, None),
}


def notes(step):
    found = judged_experiment(taken(step())).accidents
    return {each.kind: each for each in found if each.kind in RING_KINDS}


@pytest.mark.parametrize("name", STEPS)
def test_a_ring_that_sends_too_much_is_noted_and_no_other(name):
    step, is_larger, permutes = STEPS[name]
    found = notes(step)
    surplus = found.get("surplus_permute")
    assert (SMALLER in found) == is_larger
    assert (surplus and (surplus.ring.permutes, surplus.ring.needed)) == permutes
    assert all(each.source.startswith("ring_bodies.py:") for each in found.values())


def test_a_note_has_both_sizes_the_line_and_the_share_and_is_not_wrong():
    found = judged_experiment(taken(Ringed(of.ring)())).accidents
    listed = compiled_findings(StrategyResult(status="ok", accidents=found))
    rotated, surplus = (each for each in listed if each.kind in RING_KINDS)
    line = rotated.path
    assert rotated.sentence == (
        f"rotating w, 8.0 KiB, in place of x, 256.0 KiB, at {line} computes the same products and "
        "sends 32 times less; the result then is P('x', None)"
    )
    assert surplus.sentence == (
        f"8 permutes at {line} where 7 suffice: 1/8 of the bytes, 256.0 KiB a device and step; run 7 "
        "turns of 8, then the body once more without its last ppermute"
    )
    assert rotated.is_note and surplus.is_note
    assert not {*KINDS} & {*RING_KINDS}


@pytest.mark.parametrize("body", [of.ring, of.backwards, of.by_three, of.on_the_right])
def test_the_lines_of_a_note_compute_the_same_result(body):
    before = Ringed(body, out=P("x", None) if body is of.on_the_right else P(None, "x"))
    note = notes(before)[SMALLER]
    *lines, out_specs = [line for line in ring_code(note).splitlines() if not line.startswith("#")]

    def rotated(size, x, w):
        shape = [n * (size if at == note.ring.dim else 1) for at, n in enumerate(note.ring.shape)]
        names = {"jax": jax, "w": w, "out": jnp.zeros(shape)}
        for names["k"] in range(size):
            x_w = lax.dot_general(names["w"], x, (((0,), (1,)), ((), ())))
            names["product"] = x_w if body is of.on_the_right else x @ names["w"]
            exec("\n".join([*lines[1:], lines[0]]), names)
        return names["out"]

    exec(out_specs, place := {"P": P})
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = np.random.default_rng(0).integers(-4, 4, (ROWS, WIDTH)).astype(np.float32)
    w = np.random.default_rng(1).integers(-4, 4, (WIDTH, COLUMNS)).astype(np.float32)
    after = Ringed(rotated, out=place["out_specs"])
    results = [jax.jit(each.mapped(mesh))(x, w) for each in (before, after)]
    np.testing.assert_array_equal(*results)
    assert after.out != before.out

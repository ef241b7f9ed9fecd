"""Programs that map: what they say, and what they refuse in a sentence."""

import pytest

from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import parse_experiment, read_plan
from spmd_core.script import program_text
from spmd_core.workloads.strategies import MAP_STRATEGIES

DOT = {"workload": "dot", "target": "cpu:8", "mesh": {"x": 2, "y": 4}, "dims": {"n": 8, "k": 3}}
LAYER = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "dims": {"batch": 8, "in": 16, "out": 4},
}


def text(strategy, spec=DOT, **changes):
    return program_text(parse_experiment(spec | changes), strategy)


@pytest.mark.parametrize(
    ("strategy", "program"),
    [
        ("vmap", "jax.vmap(dot_one, in_axes=(0, 0))"),
        ("jit(vmap)", "jax.jit(jax.vmap(dot_one, in_axes=(0, 0)))"),
        ("pmap", "jax.pmap(dot_one, in_axes=(0, 0), devices=devices)"),
        ("jit(pmap)", "jax.jit(jax.pmap(dot_one, in_axes=(0, 0), devices=devices))"),
        ("pmap(jit)", "jax.pmap(jax.jit(dot_one), in_axes=(0, 0), devices=devices)"),
        (
            "pmap(vmap)",
            "jax.pmap(jax.vmap(dot_one, in_axes=(0, 0)), in_axes=(0, 0), devices=devices)",
        ),
    ],
)
def test_a_strategy_is_the_map_that_it_is_named_after(strategy, program):
    assert text(strategy).endswith(f"\n\n\nprogram = {program}\n") or text(strategy).endswith(
        f"\nprogram = {program}\n"
    )


def test_a_function_that_adds_along_the_mapped_dim_gets_a_block_and_a_name_for_the_devices():
    found = text(
        "pmap",
        {
            "workload": "normalize",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "dims": {"rows": 16, "cols": 4},
        },
    )
    assert "CONTRACTED_AXES = ('devices',)" in found
    assert "'x': operands['x'].reshape((8, 2, 4))," in found
    assert (
        "program = jax.pmap(normalize_shards, in_axes=(0,), axis_name='devices', devices=devices)"
        in found
    )


def test_in_axes_choose_the_dim_that_is_mapped():
    out = {"dims": {"batch": 3, "in": 16, "out": 16}, "options": {"in_axes": "None, 1, 0"}}
    assert "in_axes=(None, 1, 0), out_axes=1" in text("pmap(vmap)", LAYER | out)
    plan = read_plan(parse_experiment(LAYER | {"options": {"in_axes": "(1, 0, None)"}}), "pmap")
    assert (plan.dim, plan.blocks, plan.in_axes, plan.out_axes) == (
        "in",
        True,
        (1, 0, None),
        (None,),
    )
    assert read_plan(parse_experiment(LAYER), "pmap").dim == "batch"
    assert read_plan(parse_experiment(LAYER | {"dims": {"in": 4, "out": 8}}), "pmap").dim == "out"


@pytest.mark.parametrize(
    ("strategy", "spec", "changes", "sentence"),
    [
        (
            "pmap",
            DOT,
            {"dims": {"n": 16, "k": 3}},
            "pmap cannot map n=16 over 8 devices: it gives one to each; use n=8, or pmap(vmap), "
            "which gives each device several",
        ),
        (
            "jit(pmap)",
            DOT,
            {"dims": {"n": 9, "k": 3}},
            "jit(pmap) cannot map n=9 over 8 devices: it gives one to each; use n=8",
        ),
        (
            "pmap",
            DOT,
            {"dims": {"n": 4, "k": 3}},
            "pmap maps n=4 over 4 devices and the mesh has 8; use n=8, or a mesh of 4",
        ),
        (
            "pmap(vmap)",
            DOT,
            {"dims": {"n": 12, "k": 3}},
            "pmap(vmap) cannot split n=12 over 8 devices; use a multiple of 8",
        ),
        (
            "pmap",
            DOT,
            {"dims": {"n": 8, "k": 8}, "sharding": {"k": ["x", "y"]}},
            "pmap cannot express this sharding: it shards only n, which it maps, and k is sharded "
            "over x and y; leave k "
            "unsharded, or choose the mapped dim with "
            "in_axes",
        ),
        (
            "pmap",
            DOT,
            {"sharding": {"n": "y"}},
            "pmap cannot express this sharding: it shards n over all 8 devices; shard n over x "
            "and y, in this order",
        ),
        (
            "pmap",
            DOT,
            {"overrides": {"u": [None, None]}},
            "pmap cannot express the override of u; leave it out",
        ),
        (
            "vmap",
            DOT,
            {"memory": {"u": "pinned_host"}},
            "vmap cannot express memory kinds; leave all operands and results in device memory",
        ),
        (
            "vmap",
            DOT,
            {"options": {"in_axes": "0, 2"}},
            "vmap cannot take in_axes=0, 2: u has rank 2 and no axis 2; use an axis below "
            "2, or None",
        ),
        (
            "vmap",
            DOT,
            {"options": {"in_axes": "0, 1"}},
            "vmap cannot take in_axes=0, 1: it maps n and k at once; give every operand the axis "
            "of one dim, and None where it has none",
        ),
        (
            "vmap",
            DOT,
            {"options": {"in_axes": "None, None"}},
            "vmap cannot take in_axes=None, None: it maps nothing; give every operand the axis of "
            "one dim, and None where it has none",
        ),
        (
            "vmap",
            DOT,
            {"options": {"in_axes": "0, None"}},
            "vmap cannot take in_axes=0, None: u has n too; give it 0 instead of None",
        ),
        (
            "pmap(vmap)",
            LAYER,
            {"options": {"in_axes": "1, 0, None"}},
            "pmap(vmap) cannot map in of layer: it is added up, within a device and over devices; "
            "use pmap",
        ),
        (
            "vmap",
            {"workload": "convolve", "mesh": {"x": 1}, "target": "cpu:8"},
            {"options": {"in_axes": "1, None"}},
            "vmap cannot map length of convolve: each of its elements needs its neighbors; map "
            "another dim with in_axes",
        ),
    ],
)
def test_what_a_map_cannot_do_is_said_with_the_fix(strategy, spec, changes, sentence):
    with pytest.raises(Inexpressible) as caught:
        text(strategy, spec, **changes)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("in_axes", "sentence"),
    [
        ("0", "in_axes=0 has 1 entry: give one for each of v, u"),
        ("0, 0, None", "in_axes=0, 0, None has 3 entries: give one for each of v, u"),
        (
            "first",
            "in_axes='first' is not one axis or None for each operand: write for example 0, None",
        ),
        ("", "in_axes='' is not one axis or None for each operand: write for example 0, None"),
        (
            "-1, 0",
            "in_axes='-1, 0' is not one axis or None for each operand: write for example 0, None",
        ),
        (0, "in_axes=0 is not one axis or None for each operand: write for example 0, None"),
    ],
)
def test_in_axes_of_the_wrong_length_or_kind_are_refused(in_axes, sentence):
    with pytest.raises(RequestError) as caught:
        parse_experiment(DOT | {"options": {"in_axes": in_axes}})
    assert str(caught.value) == sentence


def test_an_unsharded_dim_is_cut_by_pmap_all_the_same():
    assert "'v': NamedSharding(mesh, P(('x', 'y')))," in text("pmap")
    assert text("pmap") == text("pmap", sharding={"n": ["x", "y"]})


def test_options_that_came_later_leave_an_experiment_what_it_was():
    assert parse_experiment(LAYER) == parse_experiment(
        LAYER | {"options": {"in_axes": "by position"}}
    )
    step = {"workload": "train_step", "mesh": {"x": 8}}
    assert parse_experiment(step).id == parse_experiment(step | {"options": {"steps": 0}}).id
    assert (
        parse_experiment(step).option("steps") == 0
        and parse_experiment(step | {"options": {"steps": 5}}).option("steps") == 5
    )


@pytest.mark.parametrize("strategy", MAP_STRATEGIES)
def test_texts_run_by_themselves(strategy):
    names = {}
    exec(compile(text(strategy), "program.py", "exec"), names)
    operands = names.get("arrange", dict)(names["make_operands"]())
    assert names["program"](*operands.values()).size == 8

"""Experiments: canonical forms and ids, defaults, and a sentence for everything that is refused."""

import json

import pytest
from hypothesis import given, strategies as st

from spmd_core.base import RequestError
from spmd_core.experiment import (
    Experiment,
    check_fits_target,
    parse_experiment,
    parse_experiment_text,
)
from spmd_core.workloads import WORKLOADS
from tests.specs import experiments

LAYER = {"workload": "layer", "mesh": {"x": 2, "y": 4}, "target": "cpu:8"}
ARRAY = {"workload": "array", "mesh": {"x": 2, "y": 4}, "target": "cpu:8"}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["x", "y", "in", "layer", "auto", "cpu:8"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "in", "out", "weights", "samples", "<b>"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
field_values = st.dictionaries(
    st.sampled_from([*Experiment.model_fields, "junk"]), json_values, max_size=4
)


@given(experiments())
def test_the_json_form_gives_the_same_experiment(experiment):
    again = parse_experiment_text(json.dumps(experiment.to_json()))
    assert again == experiment and again.id == experiment.id
    assert hash(again) == hash(experiment)


@given(json_values | field_values.map(lambda changes: LAYER | changes))
def test_any_json_value_is_an_experiment_or_one_sentence(value):
    try:
        experiment = parse_experiment(value)
    except RequestError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
        assert "validation error" not in str(error) and "is not valid:" not in str(error), error
    else:
        assert parse_experiment(experiment.to_json()) == experiment


@given(st.text() | st.binary())
def test_any_text_is_an_experiment_or_one_sentence(text):
    try:
        parse_experiment_text(text)
    except RequestError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"sharding": {"in": "x"}}, {"sharding": {"in": ["x"]}}),
        ({"sharding": {"in": "x", "out": None}}, {"sharding": [["in", "x"]]}),
        ({"sharding": {"out": "y", "in": "x"}}, {"sharding": {"in": "x", "out": "y"}}),
        ({"mesh": {"x": 2, "y": 4}}, {"mesh": [["x", 2], ["y", 4]]}),
        (
            {},
            {
                "dims": {"in": 32, "out": 4},
                "seed": 0,
                "dtype": "float32",
                "options": {},
                "timing": {},
                "version": 1,
            },
        ),
        ({"dims": {"out": 4, "in": 32}}, {"dims": {"in": 32, "out": 4}}),
        ({"dims": {"out": 4}}, {"dims": {"in": 32}}),
        ({"memory": {"weights": "device"}, "data": {"x": "normal"}}, {}),
        (
            {"overrides": {"weights": [["x"], []], "bias": [None]}},
            {"overrides": {"bias": [[]], "weights": ["x", None]}},
        ),
        ({"dtype": None, "timing": None, "sharding": None, "target": "cpu:08"}, {}),
        ({"timing": {"min_seconds": -0.0}}, {"timing": {"min_seconds": 0}}),
        (
            {"options": {"precision": "high", "device_order": "plain"}},
            {"options": [["device_order", "plain"], ["precision", "high"]]},
        ),
    ],
)
def test_equal_experiments_have_equal_ids(one, other):
    first, second = parse_experiment(LAYER | one), parse_experiment(LAYER | other)
    assert first.rows == second.rows and first.rows_by_key == second.rows_by_key
    assert first == second and first.id == second.id and first.to_json() == second.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"mesh": {"y": 4, "x": 2}},
        {"strategies": ["auto", "single"]},
        {"sharding": {"in": ["x", "y"]}},
        {"sharding": {"in": ["y", "x"]}},
        {"seed": 1},
        {"dtype": "bfloat16"},
        {"dims": {"batch": 1, "in": 32, "out": 4}},
        {"target": "cpu:16"},
        {"timing": {"samples": 21}},
        {"memory": {"bias": "pinned_host"}},
        {"data": {"x": "ones"}},
        {"options": {"precision": "highest"}},
        {"overrides": {"bias": [None]}},
    ],
)
def test_different_experiments_have_different_ids(change):
    ids = [
        parse_experiment(LAYER | {"sharding": {}} | other).id
        for other in ({}, {"strategies": ["single", "auto"]}, change)
    ]
    assert len(set(ids)) == 3


def test_ids_do_not_change_between_versions():
    """Stored runs and shared links are found again by these."""
    assert parse_experiment(LAYER).id == "cfcc849563f5708f"
    assert parse_experiment(ARRAY | {"sharding": {"d0": "x", "d1": ["y"]}}).id == "b1260be816505ea9"


def test_every_workload_has_defaults():
    for workload in WORKLOADS.values():
        if workload.name != "program":
            axis = "data" if workload.name == "serving_step" else "fsdp"
            where = (
                {"target": "tpu:v5e:2x4", "mesh": {axis: 8}}
                if workload.compile_only
                else {"mesh": {"x": 8}}
            )
            experiment = parse_experiment({"workload": workload.name, **where})
            assert (
                experiment.strategies == workload.default_strategies
                and experiment.sizes == dict(workload.defaults)
            )


def test_a_copy_with_changes_is_checked():
    experiment = parse_experiment(LAYER)
    assert experiment.vary(seed=7).seed == 7 and experiment.seed == 0
    with pytest.raises(
        RequestError, match="mesh axis 'z' is not in the mesh: use x, y, or leave the dim unsharded"
    ):
        experiment.vary(sharding={"in": "z"})


REFUSED = [
    (
        {"dims": {"batch": 30, "in": 64, "out": 16}, "sharding": {"batch": "y"}},
        "batch=30 does not divide over mesh axis y=4: use batch=28 or 32, y=3, or leave batch unsharded",
    ),
    (
        {"dims": {"in": 3, "out": 4}, "sharding": {"in": ["x", "y"]}},
        "in=3 does not divide over mesh axes x=2 and y=4: use in=8, or leave in unsharded",
    ),
    ({"dims": {"in": "a"}}, "in='a' is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": 0}}, "in=0 is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": -4}}, "in=-4 is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": True}}, "in=True is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": 1.5}}, "in=1.5 is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": 32.0}}, "in=32.0 is not a size: use a whole number from 1 to 1099511627776"),
    ({"dims": {"in": None}}, "in has no size: write a whole number from 1 to 1099511627776"),
    (
        {"mesh": {"x": None}},
        "mesh axis x has no size: write a whole number from 1 to 1099511627776",
    ),
    ({"dims": {"depth": 4}}, "dim 'depth' is not one of layer: use batch, in, out"),
    ({"dims": "big"}, 'dims=\'big\' is not an object: write for example {"in": 32, "out": 4}'),
    ({"dims": 0}, 'dims=0 is not an object: write for example {"in": 32, "out": 4}'),
    ({"dims": ["in"]}, 'dims=[\'in\'] is not an object: write for example {"in": 32, "out": 4}'),
    ({"dims": [["in", 8], ["in", 16]]}, "dims names 'in' twice: name it once"),
    ({"mesh": {"x": 0}}, "mesh axis x=0 is not a size: use a whole number from 1 to 1099511627776"),
    ({"mesh": {}}, "mesh with 0 axes is not a mesh: use 1 to 6 axes, for example x=8"),
    ({"mesh": [["x", 2], ["x", 4]]}, "mesh names 'x' twice: name it once"),
    ({"mesh": None}, "experiment without mesh is incomplete: add 'mesh'"),
    (
        {"mesh": {"<script>": 8}},
        "mesh axis '<script>' is not a name: use letters, digits and underscores, at most 32, for example x",
    ),
    (
        {"mesh": {"x": 2**40, "y": 2**40}},
        f"mesh of {2**80} devices is larger than anything built: use smaller axes",
    ),
    ({"mesh": 8}, 'mesh=8 is not an object: write for example {"x": 2, "y": 4}'),
    (
        {"sharding": {"in": "z"}},
        "mesh axis 'z' is not in the mesh: use x, y, or leave the dim unsharded",
    ),
    (
        {"sharding": {"in": ["x", "x"]}},
        "mesh axis 'x' is used twice on dim in: name each axis once",
    ),
    (
        {"sharding": {"in": 3}},
        'sharding of \'in\': 3 does not name mesh axes: use "x", ["x", "y"] or null',
    ),
    (
        {"sharding": {"in": "x", "out": "x"}},
        "mesh axis 'x' shards both in and out of weights: shard one of them over another axis, or override weights",
    ),
    (
        {"sharding": {"batch": "x"}},
        "sharding of batch names a dim that is left out of layer here: give batch a size, or leave it unsharded",
    ),
    ({"sharding": {"rows": "x"}}, "sharding of 'rows' names no dim of layer: use batch, in, out"),
    (
        {"overrides": {"weights": ["x"]}},
        "spec of weights with 1 entry does not fit its rank 2: give one entry for each of in, out",
    ),
    (
        {"overrides": {"weights": "x"}},
        "override of 'weights'='x' is not a list: give one entry per dim, for example [\"x\", null]",
    ),
    (
        {"overrides": {"w": ["x"]}},
        "overrides of 'w' names no array of layer: use x, weights, bias, y",
    ),
    (
        {"memory": {"weights": "tape"}},
        "memory of 'weights'='tape' is not a choice: use device or pinned_host",
    ),
    ({"data": {"y": "ones"}}, "data of 'y' names no array of layer: use x, weights, bias"),
    ({"dtype": "float99"}, "dtype 'float99' is not known here: use float32, bfloat16, float16"),
    ({"dtype": "int32"}, "dtype int32 makes no sense for layer: use float32, bfloat16, float16"),
    ({"dtype": 32}, "dtype=32 is not a text: write for example float32"),
    (
        {"strategies": []},
        "no strategy is chosen: choose at least one, such as Single device (single), Automatic (auto), Constrained (constrained) or shard_map",
    ),
    (
        {"strategies": ["pjit"]},
        f"strategy 'pjit' is not one of layer: use {', '.join(WORKLOADS['layer'].strategies)}",
    ),
    ({"strategies": ["auto", "auto"]}, "strategy 'auto' is listed twice: list each strategy once"),
    (
        {"strategies": "auto"},
        'strategies=\'auto\' is not a list of names: write for example ["auto", "shard_map"]',
    ),
    (
        {"options": {"precision": "utmost"}},
        "precision='utmost' is not a choice: use default, high, highest",
    ),
    (
        {"options": {"speed": 9}},
        "option 'speed' is not one of layer: use device_order or precision or in_axes or trace or shardings",
    ),
    ({"options": 0}, 'options=0 is not an object: write for example {"precision": "highest"}'),
    (
        {"timing": {"samples": 0}},
        "samples=0 is not a whole number from 1 to 1000: use for example 1",
    ),
    (
        {"timing": {"samples": True}},
        "samples=True is not a whole number from 1 to 1000: use for example 20",
    ),
    (
        {"timing": {"min_seconds": float("nan")}},
        "min_seconds=nan is not a number from 0 to 60: use for example 0.2",
    ),
    (
        {"timing": {"min_seconds": "1"}},
        "min_seconds='1' is not a number from 0 to 60: use for example 0.2",
    ),
    (
        {"timing": {"processes": 13}},
        "processes=13 is not a whole number from 0 to 12: use for example 12",
    ),
    ({"timing": {"margin": 3}}, "margin=3 is not a number from 0 to 0.5: use for example 0.03"),
    (
        {"timing": {"rounds": 3}},
        "timing field 'rounds' is not known here: use samples, min_seconds, processes, margin",
    ),
    ({"seed": -1}, "seed=-1 is not a seed: use a whole number from 0 to 4294967295"),
    ({"seed": 1.0}, "seed=1.0 is not a seed: use a whole number from 0 to 4294967295"),
    (
        {"target": "moon"},
        "target 'moon' is not a place to run: use local, cpu:8, cluster:local:2 or a topology such as tpu:v5e:4x4 or gpu:h100:8",
    ),
    (
        {"target": "cpu:257"},
        "target 'cpu:257' asks for 257 simulated devices: use cpu:1 to cpu:256",
    ),
    ({"target": 8}, "target=8 is not a text: write for example cpu:8"),
    (
        {"version": 2},
        "version 2 of the experiment format is not known here: update SPMD Lab, or use version 1",
    ),
    (
        {"version": True},
        "version True of the experiment format is not known here: update SPMD Lab, or use version 1",
    ),
    (
        {"workload": "transformer"},
        f"workload 'transformer' does not exist: use one of {', '.join(WORKLOADS)}",
    ),
    ({"workload": ["layer"]}, "workload ['layer'] is not a name: name one, for example layer"),
    (
        {"colour": "red"},
        f"field 'colour' is not part of an experiment: leave it out, or use one of {', '.join(Experiment.model_fields)}",
    ),
]


@pytest.mark.parametrize(
    ("change", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED]
)
def test_refusals_name_the_value_the_rule_and_a_fix(change, sentence):
    with pytest.raises(RequestError) as caught:
        parse_experiment(LAYER | change)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("dims", "sentence"),
    [
        (
            {},
            "dims={} make an array of rank 0, which cannot be sharded: name d0 at least, for example d0=8",
        ),
        (
            [],
            "dims={} make an array of rank 0, which cannot be sharded: name d0 at least, for example d0=8",
        ),
        ({"d0": 8, "d2": 8}, "dims d0, d2 skip one: use d0, d1"),
        ({"d1": 8}, "dims {'d1': 8} lack d0: add d0, for example d0=4"),
        ({"d6": 8}, "dim 'd6' is not one of array: use d0, d1, d2, d3, d4, d5"),
    ],
)
def test_arrays_have_rank_1_to_6(dims, sentence):
    with pytest.raises(RequestError) as caught:
        parse_experiment(ARRAY | {"dims": dims})
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[" * 60_000, "is not JSON"),
        ("9" * 60_000, "is not JSON"),
        ('{"seed": NaN}', "number NaN is not JSON: use a finite number, or leave the field out"),
        ('{"seed": -Infinity}', "number -Infinity is not JSON"),
        (
            '{"mesh": {"x": 2, "x": 4}, "workload": "layer"}',
            "key 'x' appears twice in one object: write it once",
        ),
        (
            "x" * 10_000_000,
            "experiment of 10000000 bytes is longer than 65536 bytes: leave out what is at its default",
        ),
        ("null", "experiment None is not a JSON object"),
        ("[" * 500 + "]" * 500, "is not a JSON object"),
        ('{"workload": "layer", "mesh": {"x": ' + "9" * 4000 + "}}", "is not a size"),
    ],
)
def test_texts_that_hold_no_experiment(text, words):
    with pytest.raises(RequestError) as caught:
        parse_experiment_text(text)
    assert (
        words in str(caught.value)
        and "\n" not in str(caught.value)
        and len(str(caught.value)) < 300
    )


def test_a_mesh_larger_than_the_target_is_refused():
    experiment = parse_experiment(LAYER | {"mesh": {"x": 16}})
    with pytest.raises(
        RequestError,
        match="mesh x=16 of 16 devices is larger than target cpu:8 with 8: use at most 8 devices, or another target",
    ):
        check_fits_target(experiment.mesh, experiment.place)
    check_fits_target(experiment.mesh, experiment.place, 16)


def test_in_axes_are_kept_as_one_text_however_they_were_written():
    spec = {"workload": "layer", "mesh": {"x": 8}, "strategies": ["vmap"], "target": "cpu:8"}
    texts = ("5,\n0, None", " (5 ,0,None,) ", "5, 0, None")
    found = [parse_experiment(spec | {"options": {"in_axes": text}}) for text in texts]
    assert {each.option("in_axes") for each in found} == {"5, 0, None"}
    assert len({each.id for each in found}) == 1


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4"])
def test_a_mesh_too_large_is_refused_before_sizes_that_do_not_divide_over_it(target):
    given = {"workload": "normalize", "target": target, "sharding": {"rows": "x"}}
    dims = {"dims": {"rows": 8192, "cols": 1024}}
    with pytest.raises(RequestError, match="mesh x=15 of 15 devices is larger than target"):
        parse_experiment(given | dims | {"mesh": {"x": 15}})
    with pytest.raises(
        RequestError, match="rows=8192 does not divide over mesh axis x=5: use rows=8190"
    ):
        parse_experiment(given | dims | {"mesh": {"x": 5}})

"""What differs between two studies, and nothing that does not."""

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.history.differences import NOT_THERE, difference_rows

LAYER = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "dims": {"batch": 8, "in": 32, "out": 16},
    "strategies": ["auto"],
}


def study(*variants, **shared):
    return parse_experiment(
        {
            "study": [
                {"name": name, "experiment": LAYER | {"sharding": {dim: "x"}} | shared | own}
                for name, dim, own in variants
            ]
        }
    )


ROWS, COLS = ("rows", "batch", {}), ("cols", "in", {})


def test_two_equal_studies_differ_in_nothing():
    assert difference_rows([study(ROWS, COLS), study(ROWS, COLS)]) == []


def test_what_all_variants_share_is_one_row_and_variants_that_are_equal_are_left_out():
    larger = LAYER["dims"] | {"out": 32}
    assert difference_rows([study(ROWS, COLS), study(ROWS, COLS, dims=larger)]) == [
        ("size of out", ["16", "32"])
    ]


def test_a_variant_shows_only_the_parts_that_differ_in_it():
    other = study(ROWS, ("cols", "in", {"dtype": "bfloat16"}))
    assert difference_rows([study(ROWS, COLS), other]) == [
        ("variant cols", ["dtype float32", "dtype bfloat16"]),
    ]
    alone = study(ROWS).members[0].experiment
    assert difference_rows([alone, other]) == [
        ("dtype", ["float32", "float32 (rows); bfloat16 (cols)"]),
        ("batch sharded over", ["x", "x (rows); none (cols)"]),
        ("in sharded over", ["none", "none (rows); x (cols)"]),
    ]


def test_a_renamed_variant_is_paired_by_its_place_and_a_new_one_stands_alone():
    changed = study(ROWS, ("out", "out", {}))
    assert difference_rows([study(ROWS, COLS), changed]) == [
        (
            "variant cols → out",
            [
                f"in sharded over x, out sharded over {NOT_THERE}",
                f"in sharded over {NOT_THERE}, out sharded over x",
            ],
        )
    ]
    (label, texts) = difference_rows([study(ROWS, COLS), study(ROWS, COLS, ("out", "out", {}))])[-1]
    assert label == "variant out" and texts[0] == NOT_THERE
    assert "out sharded over x" in texts[1]


@pytest.mark.parametrize(
    "change",
    [
        {"target": "cpu:4", "mesh": {"x": 4}},
        {"mesh": {"x": 4, "y": 2}},
        {"dims": {"batch": 16, "in": 32, "out": 16}},
        {"dtype": "bfloat16"},
        {"sharding": {"in": "x"}},
        {"overrides": {"weights": [None, "x"]}},
        {"options": {"device_order": "plain"}},
        {"strategies": ["shard_map"]},
        {"seed": 3},
        {"timing": {"samples": 7}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_experiments_with_two_ids_differ_in_a_part(change):
    one, other = (parse_experiment(LAYER | each) for each in ({}, change))
    assert one.id != other.id and difference_rows([one, other])


def test_a_spec_that_one_leaves_to_its_dims_is_named():
    layer = {"workload": "layer", "mesh": {"x": 8}, "sharding": {"batch": "x"}}
    layer["dims"] = {"batch": 64, "in": 256, "out": 128}
    alone, gathered = (
        parse_experiment(layer | more) for more in ({}, {"overrides": {"weights": ["x", None]}})
    )
    rows = difference_rows([gathered, alone])
    assert rows == [("spec of weights", ["P('x', None)", "replicated"])]

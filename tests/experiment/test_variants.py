"""A study: variants of an experiment, named by what differs, as JSON and as a link."""

import pytest

from spmd_core.errors import RequestError
from spmd_core.experiment import link
from spmd_core.experiment.experiment import Experiment, parse_experiment, study_of
from spmd_core.experiment.nearest import nearest

LAYER = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8",
         "dims": {"batch": 32, "in": 64, "out": 16}, "strategies": ["auto"]}
ROWS, COLUMNS = LAYER | {"sharding": {"batch": "x"}}, LAYER | {"sharding": {"in": "x"}}
GRID = LAYER | {"mesh": {"x": 2, "y": 4}, "sharding": {"batch": "x", "in": "y"}}


def study(*experiments, names=()):
    given = [*names, *[None] * len(experiments)]
    return parse_experiment({"study": [
        {"experiment": each} | ({"name": name} if name else {})
        for each, name in zip(experiments, given, strict=False)]})


def names(found: Experiment) -> list[str]:
    return [each.name for each in found.variants]


def test_variants_without_a_name_are_named_by_what_differs():
    assert names(study(ROWS, COLUMNS)) == ["batch over x", "in over x"]
    assert names(study(ROWS, GRID)) == ["mesh x=8, batch over x", "mesh x=2 y=4, batch over x, in over y"]
    assert names(study(ROWS, ROWS, names=["A"])) == ["A", "variant 2"]
    assert names(study(ROWS, ROWS, names=["variant 2"])) == ["variant 2", "variant 2 (2)"]
    assert names(study(ROWS, ROWS, ROWS)) == ["variant 1", "variant 2", "variant 3"]
    high = ROWS | {"options": {"precision": "highest"}, "memory": {"weights": "pinned_host"}}
    assert names(study(ROWS, high)) == ["weights in device, precision default",
                                        "weights in pinned_host, precision highest"]
    both, one = ({"strategies": each} for each in (["single", "auto"], ["shard_map"]))
    assert names(study(ROWS, ROWS | one)) == ["auto", "shard_map"]
    assert names(study(ROWS, ROWS | both)) == ["variant 1", "variant 2"]
    assert names(study(ROWS | both, COLUMNS)) == ["batch over x", "in over x"]


def test_a_study_is_its_first_variant_with_others_beside_it_and_comes_back_from_json_and_link():
    found = study(ROWS, GRID, names=["rows"])
    alone = parse_experiment(ROWS)
    assert found.mesh == alone.mesh and found.id != alone.id
    assert [row.key for row in found.rows] == [
        "rows/auto", "mesh x=2 y=4, batch over x, in over y/auto"]
    assert found.rows[1].experiment == parse_experiment(GRID)
    assert parse_experiment(found.to_json()) == found
    assert Experiment.model_validate_json(found.model_dump_json()) == found
    assert link.decode(link.encode(found)) == found
    assert link.screen_of(found) == "compare"


def test_an_experiment_alone_is_what_it_was_and_a_study_of_one_is_it():
    alone = parse_experiment(ROWS)
    assert "variants" not in alone.to_json() and alone.id == "e592eb4d603ad005"
    assert study(ROWS) == study_of([("rows", alone)]) == alone
    assert [row.key for row in alone.rows] == ["auto"]


def test_a_change_to_what_all_share_is_a_change_to_every_variant():
    larger = study(ROWS, GRID).vary(dims={"batch": 64, "in": 64, "out": 16})
    assert {each.experiment.sizes["batch"] for each in larger.variants} == {64}


@pytest.mark.parametrize(("given", "words"), [
    ({"study": []}, "study=[] is not a list of variants"),
    ({"study": [{"name": "a"}]}, "variant 1={'name': 'a'} has no object experiment"),
    ({"study": [{"experiment": ROWS, "color": 1}]}, "field 'color' of variant 1 is not known here"),
    ({"study": [{"experiment": ROWS}], "seed": 1}, "field 'seed' stands beside a study"),
    ({"study": [{"name": "a", "experiment": ROWS}] * 2}, "name 'a' is that of two variants"),
    ({"study": [{"name": "\n", "experiment": ROWS}] * 2}, "of variant 1 is not a name"),
    ({"study": [{"experiment": ROWS}] * 25}, "25 variants are more than a study's 24"),
    ({"study": [{"experiment": ROWS}, {"experiment": ROWS | {"sharding": {"in": "q"}}}]},
     "variant 2: mesh axis 'q' is not in the mesh"),
    ({"study": [{"experiment": ROWS}, {"experiment": {"workload": "matmul", "mesh": {"x": 8},
                                                      "target": "cpu:8"}}]},
     "variants 1 and 2 share no result to compare (layer batch=32 in=64 out=16; matmul"),
    ({"study": [{"experiment": ROWS}, {"experiment": LAYER | {
        "dims": {"batch": 64, "in": 64, "out": 16}}}]}, "share no result to compare"),
    ({"study": [{"experiment": ROWS}, {"experiment": ROWS | {"target": "cpu:16"}}]},
     "give all variants the same target"),
    ({"study": [{"experiment": {"workload": "array", "mesh": {"x": 8}, "target": "cpu:8"}}] * 2},
     "share no result to compare"),
    ({"study": [{"experiment": ROWS | {"study": []}}, {"experiment": ROWS}]},
     "variant 1 is itself a study"),
    (LAYER | {"variants": 7}, "variants=7 is not a list of variants"),
])
def test_a_bad_study_is_one_sentence(given, words):
    with pytest.raises(RequestError) as caught:
        parse_experiment(given)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_the_nearest_of_a_study_that_does_not_fit_is_its_first_variant():
    found = study(ROWS, COLUMNS)
    near = nearest(found.to_json(), device_count=4)
    assert not near.experiment.variants and near.experiment.device_count == 4
    assert "its first one is left" in near.changes[0]

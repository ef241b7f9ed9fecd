"""A study: variants of an experiment, named by what differs, as JSON and as a link."""

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import (
    Experiment,
    compiler_flags,
    link,
    own_flags,
    parse_experiment,
    study_of,
    with_shared,
)
from spmd_core.experiment.nearest import nearest

LAYER = {
    "workload": "layer",
    "mesh": {"x": 8},
    "target": "cpu:8",
    "dims": {"batch": 32, "in": 64, "out": 16},
    "strategies": ["auto"],
}
ROWS, COLUMNS = LAYER | {"sharding": {"batch": "x"}}, LAYER | {"sharding": {"in": "x"}}
GRID = LAYER | {"mesh": {"x": 2, "y": 4}, "sharding": {"batch": "x", "in": "y"}}


def study(*experiments, names=()):
    given = [*names, *[None] * len(experiments)]
    return parse_experiment(
        {
            "study": [
                {"experiment": each} | ({"name": name} if name else {})
                for each, name in zip(experiments, given, strict=False)
            ]
        }
    )


def names(found: Experiment) -> list[str]:
    return [each.name for each in found.variants]


def test_variants_without_a_name_are_named_by_what_differs():
    assert names(study(ROWS, COLUMNS)) == ["batch over x", "in over x"]
    assert names(study(ROWS, GRID)) == [
        "mesh x=8, batch over x",
        "mesh x=2 y=4, batch over x, in over y",
    ]
    assert names(study(ROWS, ROWS, names=["A"])) == ["A", "variant 2"]
    assert names(study(ROWS, ROWS, names=["variant 2"])) == ["variant 2", "variant 2 (2)"]
    assert names(study(ROWS, ROWS, ROWS)) == ["variant 1", "variant 2", "variant 3"]
    high = ROWS | {"options": {"precision": "highest"}, "memory": {"weights": "pinned_host"}}
    assert names(study(ROWS, high)) == [
        "weights in device, precision default",
        "weights in pinned_host, precision highest",
    ]
    both, one = ({"strategies": each} for each in (["single", "auto"], ["shard_map"]))
    assert names(study(ROWS, ROWS | one)) == ["auto", "shard_map"]
    assert names(study(ROWS, ROWS | both)) == ["variant 1", "variant 2"]
    assert names(study(ROWS | both, COLUMNS)) == ["batch over x", "in over x"]


def test_variants_on_several_targets_are_led_by_what_is_measured():
    absent = [ROWS | {"target": f"tpu:{each}:4x4", "mesh": {"x": 16}} for each in ("v5e", "v6e")]
    apart = study(*absent)
    assert names(apart) == ["v5e:4x4", "v6e:4x4"] and not apart.is_mixed
    found = study(*absent, ROWS)
    assert names(found) == ["v5e:4x4", "v6e:4x4", "cpu:8"]
    assert found.is_mixed and found.target == "cpu:8" and found.mesh == (("x", 8),)
    assert [row.experiment.target for row in found.rows] == ["tpu:v5e:4x4", "tpu:v6e:4x4", "cpu:8"]
    assert parse_experiment(found.to_json()) == found == link.decode(link.encode(found))
    assert names(study(*absent, absent[0] | {"mesh": {"y": 16}, "sharding": {}})) == [
        "v5e:4x4, mesh x=16, batch over x",
        "v6e:4x4",
        "v5e:4x4, mesh y=16, replicated",
    ]


PLAN = {
    "workload": "decoder",
    "target": "tpu:v5e:4x4",
    "mesh": {"fsdp": 16},
    "dims": {"batch": 32, "sequence": 2048},
    "options": {"model": "scaled:1", "remat": "full"},
}


def test_plans_may_differ_in_batch_remat_topology_and_compiler_flags():
    kept = {"model": "scaled:1", "remat": "minimal", "offload": "query"}
    found = study(
        PLAN,
        PLAN | {"options": kept},
        PLAN | {"target": "tpu:v6e:4x4", "dims": {"batch": 64, "sequence": 2048}},
    )
    assert names(found) == [
        "v5e:4x4, remat full, offload nothing",
        "v5e:4x4, remat minimal, offload query",
        "v6e:4x4",
    ]
    assert [each.experiment.tokens for each in found.variants] == [65536, 65536, 131072]
    shared, limit = compiler_flags(found), "xla_tpu_scoped_vmem_limit_kib"
    assert "xla_enable_async_all_gather" in shared and limit not in shared
    assert [own_flags(each.experiment, found) for each in found.variants] == [
        {},
        {},
        {limit: "98304"},
    ]
    alone = parse_experiment(PLAN)
    assert compiler_flags(alone) == alone.plan.flags and not own_flags(alone, alone)


def test_what_all_variants_of_plans_share_follows_the_one_that_is_edited():
    now = parse_experiment(PLAN).to_json() | {"dims": {"batch": 16, "sequence": 4096}}
    other = with_shared(parse_experiment(PLAN).to_json(), now)
    assert other["dims"] == {"batch": 32, "sequence": 4096}
    assert with_shared(now | {"target": "cpu:8"}, now)["target"] == "cpu:8"


def test_a_study_is_its_first_variant_with_others_beside_it_and_comes_back_from_json_and_link():
    found = study(ROWS, GRID, names=["rows"])
    alone = parse_experiment(ROWS)
    assert found.mesh == alone.mesh and found.id != alone.id
    assert [row.key for row in found.rows] == [
        "rows/auto",
        "mesh x=2 y=4, batch over x, in over y/auto",
    ]
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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"study": []}, "study=[] is not a list of variants"),
        ({"study": [{"name": "a"}]}, "variant 1={'name': 'a'} has no object experiment"),
        (
            {"study": [{"experiment": ROWS, "color": 1}]},
            "field 'color' of variant 1 is not known here",
        ),
        ({"study": [{"experiment": ROWS}], "seed": 1}, "field 'seed' stands beside a study"),
        ({"study": [{"name": "a", "experiment": ROWS}] * 2}, "name 'a' is that of two variants"),
        ({"study": [{"name": "\n", "experiment": ROWS}] * 2}, "of variant 1 is not a name"),
        ({"study": [{"experiment": ROWS}] * 25}, "25 variants are more than a study's 24"),
        (
            {"study": [{"experiment": ROWS}, {"experiment": ROWS | {"sharding": {"in": "q"}}}]},
            "variant 2: mesh axis 'q' is not in the mesh",
        ),
        (
            {
                "study": [
                    {"experiment": ROWS},
                    {"experiment": {"workload": "matmul", "mesh": {"x": 8}, "target": "cpu:8"}},
                ]
            },
            "variants 1 and 2 share no result to compare (layer batch=32 in=64 out=16; matmul",
        ),
        (
            {
                "study": [
                    {"experiment": ROWS},
                    {"experiment": LAYER | {"dims": {"batch": 64, "in": 64, "out": 16}}},
                ]
            },
            "share no result to compare",
        ),
        (
            {"study": [{"experiment": ROWS}, {"experiment": ROWS | {"target": "cpu:16"}}]},
            "give all variants the same target",
        ),
        (
            {
                "study": [
                    {"name": "here", "experiment": ROWS},
                    {"name": "pod", "experiment": ROWS | {"target": "tpu:v5e:4x4"}},
                    {"experiment": ROWS | {"target": "cpu:16"}},
                ]
            },
            "variants 'here' and 3 on cpu:8 and cpu:16 cannot be measured in the same rounds",
        ),
        (
            {
                "study": [
                    {"experiment": PLAN},
                    {"experiment": PLAN | {"dims": {"batch": 32, "sequence": 4096}}},
                ]
            },
            "share no result to compare (decoder scaled:1 sequence=2048; decoder scaled:1 "
            "sequence=4096): "
            "give them one model and sequence",
        ),
        (
            {
                "study": [
                    {"experiment": {"workload": "array", "mesh": {"x": 8}, "target": "cpu:8"}}
                ]
                * 2
            },
            "share no result to compare",
        ),
        (
            {"study": [{"experiment": ROWS | {"study": []}}, {"experiment": ROWS}]},
            "variant 1 is itself a study",
        ),
        (LAYER | {"variants": 7}, "variants=7 is not a list of variants"),
    ],
)
def test_a_bad_study_is_one_sentence(given, words):
    with pytest.raises(RequestError) as caught:
        parse_experiment(given)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_the_nearest_of_a_study_that_does_not_fit_is_its_first_variant():
    found = study(ROWS, COLUMNS)
    near = nearest(found.to_json(), device_count=4)
    assert not near.experiment.variants and near.experiment.device_count == 4
    assert "its first one is left" in near.changes[0]


def test_what_one_device_does_in_every_variant_is_computed_once():
    def variant(dim, *strategies, **more):
        sharded = LAYER | {"sharding": {dim: "x"}, "strategies": [*strategies]} | more
        return {"name": f"{dim} {len(more)}", "experiment": sharded}

    pair = [variant("batch", "single", "auto"), variant("in", "single", "auto")]
    study = parse_experiment({"study": pair})
    assert [row.key for row in study.rows_once] == ["batch 0/single", "batch 0/auto", "in 0/auto"]
    assert len(study.rows) == 4, "older results have all"
    other = variant("in", "single", "auto", dtype="bfloat16")
    assert len(parse_experiment({"study": [*pair, other]}).rows_once) == 5
    alone = parse_experiment({"study": [variant("batch", "single"), variant("in", "single")]})
    assert len(alone.rows_once) == 2, "each variant has a row"

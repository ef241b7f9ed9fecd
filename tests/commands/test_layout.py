"""`layout`: shards as JSON and as a picture."""

import json

from spmd_core.answers.drawn import devices_text
from tests.commands.calls import told


def test_layout_prints_shards_as_json():
    done = told("layout", "--mesh", "x=2,y=4", "--shape", "4,8", "--spec", '["x", ["y"]]', "--json")
    answer = json.loads(done.stdout)
    assert answer["shards"][0] == {"device": 0, "position": 0, "index": [[0, 2], [0, 2]]}
    assert answer["shards"][7] == {"device": 7, "position": 7, "index": [[2, 4], [6, 8]]}
    assert len(answer["shards"]) == 8 and answer["replication"] == 1
    assert (
        json.loads(told("layout", "recipe:layout_2x4", "--json").stdout)["shards"]
        == answer["shards"]
    )


def test_layout_of_many_devices():
    done = told(
        "layout", "--mesh", "x=256,y=256", "--shape", "256,512", "--spec", '["x", "y"]', "--json"
    )
    shards = json.loads(done.stdout)["shards"]
    assert len(shards) == 65_536 and shards[-1] == {
        "device": 65_535,
        "position": 65_535,
        "index": [[255, 256], [510, 512]],
    }


def test_layout_of_several_arrays():
    answer = json.loads(told("layout", "recipe:layer", "--json").stdout)
    assert (
        list(answer["arrays"]) == ["x", "weights", "bias", "y"]
        and answer["arrays"]["bias"]["replication"] == 8
    )
    assert (
        json.loads(told("layout", "recipe:layer", "--array", "weights", "--json").stdout)
        == answer["arrays"]["weights"]
    )


def test_results_have_a_dtype_of_their_own():
    spec = json.dumps(
        {"workload": "elementwise", "mesh": {"x": 2}, "dims": {"rows": 4}, "dtype": "int32"}
    )
    assert [
        (name, found["dtype"])
        for name, found in json.loads(told("layout", "-", "--json", stdin=spec).stdout)[
            "arrays"
        ].items()
    ] == [("x", "int32"), ("y", "float32")]
    assert "y: float32[4], P(None) on mesh x=2" in told("layout", "-", stdin=spec).stdout


def test_layout_draws_the_array():
    drawn = told("layout", "--mesh", "x=2,y=4", "--shape", "4,8", "--spec", '["x"]').stdout
    assert "array: float32[4, 8], P('x', None) on mesh x=2, y=4" in drawn
    assert "0:2 │ 0-3 │" in drawn and "2:4 │ 4-7 │" in drawn
    assert (
        "d0 2:4\n"
        in told(
            "layout", "--mesh", "x=2,y=4", "--shape", "4,8,8", "--spec", '["x",null,"y"]'
        ).stdout
    )
    assert (
        "and 4,080 more devices"
        in told("layout", "--mesh", "x=64,y=64", "--shape", "64,64", "--spec", '["x","y"]').stdout
    )


def test_device_numbers_are_said_briefly():
    assert (
        devices_text([5]) == "5"
        and devices_text([0, 1, 2, 3]) == "0-3"
        and devices_text([0, 4]) == "0 4"
    )
    assert devices_text(list(range(0, 64, 4))) == "0 4 8 … (16)"

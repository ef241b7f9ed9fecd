"""The sheet of collectives, by value."""

from bench.values import result, strategy
from spmd_core.answers import collectives_table
from spmd_core.answers.collective_sheet import program_lines
from tests.answers import records, texts

ALL_REDUCE = {
    "kind": "all-reduce",
    "axes": ["x"],
    "bytes": 16,
    "count": 1,
    "source": "layer_auto.py:2",
    "reason": "the parts are added over x",
}


def test_collectives_name_axes_bytes_and_the_line_that_is_shown():
    uncounted = ALL_REDUCE | {"count": None, "source": None}
    found = result(
        {
            "single": strategy(1e-5, collectives=[]),
            "auto": strategy(1e-5, collectives=[ALL_REDUCE, uncounted]),
        }
    )
    frame = records(collectives_table(found))
    second_line = program_lines(found.experiment, "auto")[1].strip()
    assert frame[0]["Collective"] == "no communication"
    assert [frame[1][each] for each in ("Collective", "Over", "Bytes", "Count")] == [
        "all-reduce", "x", "16 B", "1",
    ]  # fmt: skip
    assert frame[1]["Why, and where"] == f"Line 2: `{second_line}`. The parts are added over x"
    assert frame[2]["Count"] == "unknown"


def test_strategies_that_communicate_alike_share_a_row():
    later = ALL_REDUCE | {"source": "layer_explicit.py:4"}
    by_hand = ALL_REDUCE | {"source": "layer_shard_map.py:9", "reason": "the program adds them"}
    found = result(
        {
            "auto": strategy(1e-5, collectives=[ALL_REDUCE]),
            "explicit": strategy(1e-5, collectives=[later]),
            "shard_map": strategy(1e-5, collectives=[by_hand, by_hand]),
        }
    )
    frame = records(collectives_table(found))
    assert [each["Strategy"] for each in frame] == ["Automatic, Explicit", "shard_map"]
    assert frame[0]["Why, and where"].startswith("Line 2 (Automatic)")
    assert frame[0]["Why, and where"].count("The parts are added") == 1
    assert frame[1]["Count"] == "2" and frame[1]["In total"] == "32 B"
    assert frame[1]["Why, and where"].endswith(". The program adds them")


def test_strategies_that_share_a_row_each_name_what_sharded_them():
    origins = [
        {
            "axis": "x",
            "kind": "constraint",
            "name": "x",
            "source": f"layer.py:{line}",
            "spec": [["x"]],
        }
        for line in (33, 40)
    ]
    rows = {
        name: strategy(1e-5, collectives=[ALL_REDUCE | {"origin": [origin]}])
        for name, origin in zip(("constrained", "explicit"), origins, strict=True)
    }
    (one,) = records(collectives_table(result(rows), "document"))
    assert one["Set by"] != ""
    assert one["Set by"].index("Constrained: ") < one["Set by"].index("layer.py:33")
    assert one["Set by"].index("Explicit: ") < one["Set by"].index("layer.py:40")
    rows["explicit"] = rows["constrained"]
    (one,) = records(collectives_table(result(rows), "document"))
    assert "Constrained: " not in one["Set by"]


def test_a_count_that_is_unknown_is_not_added_up():
    found = result(
        {
            "auto": strategy(
                1e-5,
                collectives=[ALL_REDUCE, ALL_REDUCE | {"count": None}, ALL_REDUCE | {"count": 3}],
            )
        }
    )
    assert texts(collectives_table(found), "Count") == ["4", "unknown"]


def test_the_layers_of_a_model_share_a_row_and_their_reason_has_a_star():
    gathers = [
        ALL_REDUCE | {"reason": f"a matmul needs blocks/{layer}/up replicated"}
        for layer in range(3)
    ]
    (only,) = records(collectives_table(result({"auto": strategy(1e-5, collectives=gathers)})))
    assert only["Count"] == "3" and "blocks/*/up" in only["Why, and where"]
    (alone,) = records(collectives_table(result({"auto": strategy(1e-5, collectives=gathers[:1])})))
    assert "blocks/0/up" in alone["Why, and where"]

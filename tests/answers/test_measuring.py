"""Sheets of how a result came to be, by value."""

from bench.values import result, strategy
from spmd_core.answers.measuring import memory_table
from tests.answers import records

GIB = 2**30


def test_each_part_of_memory_stands_below_its_own_title():
    held = {"argument": 1 * GIB, "output": 2 * GIB, "temp": 3 * GIB, "peak": 5 * GIB}
    found = result({"auto": strategy(1e-5, memory_bytes=held)})
    (row,) = records(memory_table(found))
    shown = {name: row[name] for name in ("Arguments", "Results", "Temporaries", "Peak")}
    assert shown == {
        "Arguments": "1.0 GiB",
        "Results": "2.0 GiB",
        "Temporaries": "3.0 GiB",
        "Peak": "5.0 GiB",
    }

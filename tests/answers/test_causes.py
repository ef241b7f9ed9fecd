"""What each device computes, holds and communicates in the first rows of a result."""

import pytest

from bench.values import result, strategy
from spmd_core.answers import Cause, causes, differing
from spmd_core.sheets import NONE
from tests.results.test_study import of_shardings

SUMS = [{"kind": "all-reduce", "axes": ["x"], "bytes": 2**19, "count": 2}]
MATMUL = [{"kind": "matmul", "sizes": [8, 1024, 512]}, {"kind": "copy", "sizes": [4096]}]


def rows(**changes):
    """Two rows: `auto` is the fastest; each change is a pair of values, None for none."""
    made = {
        name: strategy(
            seconds, **{key: pair[at] for key, pair in changes.items() if pair[at] is not None}
        )
        for at, (name, seconds) in enumerate((("auto", 1e-3), ("single", 2e-3)))
    }
    return result(made)


def test_each_cause_is_in_words_and_over_the_largest_of_its_rows():
    names, known = causes(
        rows(
            collectives=(SUMS, []),
            memory_bytes=({"peak": 2**20}, {"peak": 2**22}),
            operations=(MATMUL, [MATMUL[0] | {"count": 8}]),
        )
    )
    assert names == ("auto", "single")
    assert {each.title: (each.texts, each.shares) for each in known} == {
        "computes": (("8.39 MFLOP", "67.1 MFLOP"), (0.125, 1.0)),
        "holds": (("1.0 MiB", "4.0 MiB"), (0.25, 1.0)),
        "sends": (("2.0 MiB, all-reduce over x", "nothing"), (1.0, 0.0)),
    }


@pytest.mark.parametrize(
    ("collectives", "sent"),
    [
        (([], []), ("nothing", "nothing")),
        ((None, None), None),
        ((SUMS, None), ("2.0 MiB, all-reduce over x", "–")),
        (([SUMS[0] | {"count": None}], []), ("–", "nothing")),
        (([*SUMS, SUMS[0] | {"kind": "all-gather"}], []), ("3.0 MiB", "nothing")),
    ],
)
def test_what_is_not_known_is_a_dash_and_no_column_where_nothing_is(collectives, sent):
    _, known = causes(rows(collectives=collectives))
    assert {each.title: each.texts for each in known} == ({"sends": sent} if sent else {})


@pytest.mark.parametrize(
    ("second", "texts"), [(MATMUL[1:], ("8.39 MFLOP", "–")), (None, ("8.39 MFLOP", "–"))]
)
def test_a_product_that_is_compiled_to_a_loop_is_not_called_no_computation(second, texts):
    """XLA:CPU writes small products as loops, whose FLOPs are not counted."""
    (known,) = causes(rows(operations=(MATMUL, second)))[1]
    assert (known.title, known.texts) == ("computes", texts)
    assert causes(rows(operations=(MATMUL[1:], second)))[1] == ()


def test_one_row_has_nothing_to_compare_with():
    assert causes(result({"auto": strategy(1e-3, collectives=SUMS)}))[1] == ()


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"holds": (3.5, 5.0)}, "Each device holds less than with shard_map."),
        ({"holds": (5.0, 3.5)}, "Each device holds more than with shard_map."),
        ({"holds": (4.0, 4.05)}, "What each device holds is alike."),
        ({"holds": (8.0, 64.0), "sends": (4.0, 0.0)}, "Each device holds less but sends more than with shard_map."),
    ],
)  # fmt: skip
def test_what_a_device_does_otherwise_than_in_the_next_row_is_a_sentence(amounts, words):
    known = [
        Cause(
            title, tuple(f"{each} MiB" for each in ends), tuple(each / max(ends) for each in ends)
        )
        for title, ends in amounts.items()
    ]
    assert differing(tuple(known), "shard_map") == words


def test_what_is_not_known_of_a_row_is_neither_alike_nor_otherwise():
    unknown = Cause("sends", (NONE, "2.0 MiB"), (None, 1.0))
    assert differing((unknown,), "shard_map") == ""
    held = Cause("holds", ("4.0 MiB", "4.0 MiB"), (1.0, 1.0))
    assert differing((held, unknown), "shard_map") == "What each device holds is alike."


def test_what_each_device_writes_stands_for_unknown_flops():
    def outputs(rows):
        shards = [{"device": 0, "index": [[0, rows], [0, 1024]]}]
        return {"y": {"shape": [8192, 1024], "dtype": "float32", "shards": shards}}

    _, known = causes(rows(outputs=(outputs(1024), outputs(8192))))
    assert (known[0].title, known[0].shares) == ("writes", (0.125, 1.0))
    assert differing(known, "shard_map") == "Each device writes less than with shard_map."
    _, known = causes(rows(outputs=(outputs(1024), outputs(8192)), operations=(MATMUL, MATMUL)))
    assert "writes" not in [each.title for each in known]


def test_the_rows_of_a_study_are_the_best_of_each_variant():
    study = of_shardings((2e-4, 2e-4), (9e-5, 5e-5))
    assert causes(study)[0] == ("out/auto", "in/auto")

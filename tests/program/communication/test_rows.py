"""The list of collectives as rows: what is alike, and what is small."""

from spmd_core.facts import Collective
from spmd_core.program import kind_words, rows


def collective(kind="all-gather", seconds=0.01, count=1, **more):
    total = None if count is None else seconds * count
    return Collective(
        **{
            "kind": kind,
            "axes": ("x",),
            "bytes": 2**20,
            "count": count,
            "seconds": seconds,
            "seconds_total": total,
            "exposed_s": seconds / 2,
            "exposed_total_s": None,
            "route": "a ring",
        }
        | more
    )


def test_what_is_alike_is_one_row_and_the_longest_comes_first():
    found = rows([collective(count=2), collective("all-reduce", 0.5), collective(count=3)])
    assert [
        (row.what, row.count, round(row.seconds, 9), round(row.exposed_s, 9)) for row in found
    ] == [("all-reduce", 1, 0.5, 0.25), ("all-gather", 5, 0.05, 0.025)]


def test_the_steps_of_collective_matmuls_are_one_row_named_by_what_they_implement():
    steps = [
        collective("collective-permute", asked="all-gather", bytes=size)
        for size in (2**20, 2**22, 2**20)
    ]
    (row,) = rows(steps)
    assert (row.what, row.count, row.size) == (
        "all-gather as a ring of collective-permutes",
        3,
        "1.0 to 4.0 MiB",
    )
    assert row.bytes_total == 2**20 * 6


def test_what_is_together_under_one_percent_is_one_row():
    small = [collective("all-reduce", 0.002, bytes=size) for size in (4, 8, 16)]
    found = rows([collective(seconds=1.0), *small])
    assert [(row.what, row.rest) for row in found] == [
        ("all-gather", False),
        ("3 others", True),
    ]
    assert sum(len(row.members) for row in found) == 4
    larger = [collective("all-reduce", 0.004, bytes=size) for size in (4, 8, 16)]
    # two of the three
    assert [row.rest for row in rows([collective(seconds=1.0), *larger])] == [False, False, True]


def test_without_a_cost_nothing_is_small():
    bare = [Collective(kind="all-reduce", axes=("x",), bytes=size, count=1) for size in (4, 2**30)]
    assert [row.rest for row in rows(bare)] == [False, False]


def test_an_unknown_count_stays_unknown_and_is_not_added_to_known_ones():
    known, unknown = rows([collective(count=None), collective(count=2)])
    assert (unknown.count, unknown.bytes_total) == (None, None)
    assert (known.count, known.bytes_total) == (2, 2 * known.first.bytes)


def test_asked_and_compiled():
    assert (
        kind_words(collective("all-reduce", asked="reduce-scatter"))
        == "reduce-scatter requested, all-reduce compiled"
    )


def test_alike_collectives_with_different_warnings_are_rows_of_their_own():
    warned = [collective(warning=each) for each in ("replicated", "replicated", "resharded", None)]
    assert sorted(len(row.members) for row in rows(warned)) == [1, 1, 2]

"""The change of what a program requests: appears, vanishes, stays, more and fewer."""

from functools import cache

import pytest

from bench.exported import MESH, sgd_step
from spmd_core.answers import WHAT_IF, WhatIf
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Estimate
from spmd_core.results import Operation
from spmd_core.runs import Partitioned, Requested
from spmd_core.workloads import programs
from spmd_lab.ui.programs.what_if import RESHARDED

pytestmark = pytest.mark.usefixtures("read_here")


def _asked(kind, axis, size, count: int | None = 1, dim=0):
    reason, places = f"dim {dim} of f32[8]", {"dim": dim, "source": "model.py:3"}
    return Requested(kind=kind, axes=(axis,), bytes=size, count=count, reason=reason, **places)


@cache
def _experiment():
    given = {"workload": "program_file", "program": programs.take(sgd_step()).program}
    return parse_experiment(given | {"mesh": MESH, "target": "cpu:8"})


def _answer(before, after, **after_more):
    experiment = _experiment()
    other = experiment.vary(specs={"params/embed/kernel": [None, None]})
    was, now = Partitioned(collectives=before), Partitioned(collectives=after, **after_more)
    return WhatIf(experiment, other, (was, now))


def test_what_changes_is_first_and_named():
    gather, total = _asked("all-gather", "fsdp", 2**20), _asked("all-reduce", "tensor", 2**10, 3)
    more = _asked("all-gather", "tensor", 2**8, 5)
    answer = _answer(
        [total, more, gather], [more, more, _asked("all-gather", "fsdp", 2**21), gather]
    )
    changes = [(each.change, each.before, each.after) for each in answer.rows]
    assert changes == [("appears", 0, 1), ("vanishes", 3, 0), ("more", 5, 10), ("stays", 1, 1)]
    assert answer.headline == (
        "Adds 1 all-gather over fsdp and removes 3 all-reduces over tensor: "
        "1.0 → 3.0 MiB per step and device."
    )
    table = WHAT_IF.table(answer.changed, "terminal")
    assert [cell.text for cell in table.column("Count")] == ["0 → 1", "3 → 0", "5 → 10"]
    assert table.column("Of, and where")[0].text == "dim 0 of f32[8]. model.py:3"


def test_a_place_that_the_reason_names_is_not_said_again():
    sum_ = _asked("all-reduce", "fsdp", 2**10).model_copy(
        update={"reason": "partial sums of dot_general (model.py:3)"}
    )
    (cell,) = WHAT_IF.table(_answer([], [sum_]).rows, "screen").column("Of, and where")
    assert cell.text.count("model.py:3") == 1


def test_a_sum_is_counted_by_what_was_requested():
    """The compiler makes an all-reduce of both."""
    total, gather = _asked("all-reduce", "fsdp", 2**10, 6), _asked("all-gather", "fsdp", 2**10)
    scattered = total.model_copy(update={"asked": "reduce-scatter", "reason": "in shards"})
    assert _answer([scattered, gather], [total]).headline.startswith(
        "Adds 6 all-reduces over fsdp and removes 6 reduce-scatters over fsdp and 1 other: "
    )


def test_the_most_bytes_are_named_first():
    few, many = _asked("all-reduce", "fsdp", 2**31), _asked("all-gather", "fsdp", 2**10, 7)
    assert _answer([few, many], []).headline.startswith(
        "Removes 1 all-reduce over fsdp and 7 others: "
    )


def test_what_moves_more_bytes_is_told_first_whichever_way():
    small, large = _asked("all-gather", "fsdp", 2**10), _asked("all-reduce", "tensor", 2**20, 3)
    assert _answer([large], [small]).headline.startswith(
        "Removes 3 all-reduces over tensor and adds 1 all-gather over fsdp: "
    )
    # one of twelve less is less than the one that appears
    twelve = _asked("all-reduce", "tensor", 2**8, 12)
    rows = _answer([twelve], [twelve.model_copy(update={"count": 11}), small]).rows
    assert [each.change for each in rows] == ["appears", "fewer"]


def test_nothing_appears_or_vanishes():
    gather = _asked("all-gather", "fsdp", 2**20)
    answer = _answer([gather], [gather])
    assert answer.headline.startswith("No collective appears or vanishes: ")
    assert not answer.changed


def test_a_loop_of_unknown_count_stays_unknown():
    loop = _asked("all-gather", "fsdp", 2**20, None)
    assert [each.change for each in _answer([loop], [loop]).rows] == ["stays"]
    assert [each.change for each in _answer([], [loop]).rows] == ["appears"]
    assert _answer([], [loop]).json()["collectives"][0]["after"] is None
    assert [each.change for each in _answer([loop], []).rows] == ["vanishes"]
    known = _asked("all-gather", "fsdp", 2**20, 3)
    assert [each.change for each in _answer([loop], [known]).rows] == ["fewer"]
    assert [each.change for each in _answer([known], [loop]).rows] == ["more"]


def test_arguments_take_what_their_specs_leave_on_a_device():
    was, now = _answer([], []).argument_bytes
    assert was < now


def test_figures_have_time_and_memory_where_both_are_known():
    names = [each.title for each in _answer([], [], peak_bytes=2**20).figures]
    assert names == ["Arguments per device"]
    answer = _answer([], [])
    was, now = (
        Partitioned(
            collectives=(),
            peak_bytes=size,
            predicted_s=Estimate(low=0.9 * time, estimate=time, high=1.1 * time),
        )
        for size, time in ((2**20, 4e-3), (2**21, 2e-3))
    )
    changed = WhatIf(answer.before, answer.after, (was, now))
    assert changed.figures[:2] == (
        ("Peak memory per device", "1.0 → 2.0 MiB", "", 0.0, "fits"),
        ("Estimated step", "4 → 2 ms", "range 3.60 to 4.40 → 1.80 to 2.20 ms", 0.0, "fits"),
    )
    assert changed.json()["estimated_s"]["after"]["estimate"] == 2e-3


def test_what_was_compiled_to_its_end_is_not_called_partitioned():
    answer = _answer([], [], is_compiled=True)
    assert answer.made == "One of the two compiled to the end" and answer.agreement
    both = WhatIf(answer.before, answer.after, (answer.programs[1],) * 2)
    assert both.json()["marked"] == "compiled to the end" and not both.agreement
    assert _answer([], []).made == "Partitioned, not compiled"


def test_propagation_alone_names_shardings_and_no_collective():
    answer = _answer([], [], values=[("model.py:3", "f32[8@fsdp]", 2), ("model.py:4", "f32[]", 1)])
    was = Partitioned(collectives=[], values=[("model.py:3", "f32[8]", 2), ("model.py:4", "f32[]", 1)])  # fmt: skip
    answer = WhatIf(answer.before, answer.after, (was, answer.programs[1]))
    assert answer.made == "Propagated, not compiled" and "compiler begins with" in answer.agreement
    assert answer.headline == "Changes the sharding of 2 values on 1 line."
    table = RESHARDED.table(answer.resharded, "terminal")
    assert [[cell.text for cell in table.column(name)] for name in ("Line", "Before", "After")] == [
        ["model.py:3"],
        ["f32[8]"],
        ["f32[8@fsdp]"],
    ]
    same = WhatIf(answer.before, answer.after, (was, was))
    assert same.headline == "No value is sharded otherwise."


GIB = 2**30


@pytest.mark.parametrize(
    ("peaks", "sent", "flops", "times", "raised"),
    [
        # a peak that falls a little for twice the bytes, and for the fewer products
        ((5.8, 4.7), (1.2, 2.3), (2145, 1635), None, ("Sent per device and step",)),
        ((5.8, 2.1), (1.2, 0.6), (2145, 536), None, ()),
        ((2.14, 1.89), (0.58, 0.53), (536, 536), None, ()),
        ((8.0, 2.0), (1.0, 2.0), (9, 9), None, ()),  # half the memory is worth them
        ((1.0, 0.9), (0.0, 0.1), (8, 2), None, ()),  # a quarter of the work, where nothing was sent
        ((1.0, 0.9), (0.0, 0.1), (8, 8), None, ("Sent per device and step",)),
        ((1.0, 0.9), (1.0, 1.0), (4, 8), None, ("Matmul FLOPs per device",)),
        ((2.8, 2.5), (0.25, 1.4), (9, 9), (26.2, 41.3), ("Estimated step",)),
        ((2.8, 2.5), (0.25, 1.4), (9, 9), (26.2, 20.0), ()),  # a known time decides
        ((2.1, 3.6), (0.6, 0.5), (9, 9), None, ("Peak memory per device",)),
        ((2.10, 2.11), (0.6, 0.6), (9, 9), None, ()),  # as near as partitioned ones are
        # a faster step may hold more of an HBM that has room
        ((1.2, 1.7), (0.3, 0.3), (9, 9), (17.4, 15.6), ()),
        ((1.2, 1.7), (0.3, 0.3), (9, 9), (17.4, 17.3), ("Peak memory per device",)),
        ((1.2, 14.0), (0.3, 0.3), (9, 9), (17.4, 15.6), ("Peak memory per device",)),
    ],
)
def test_a_change_is_worse_by_peak_and_time_or_by_what_it_sends_and_computes(
    peaks, sent, flops, times, raised
):
    programs_ = [
        Partitioned(
            collectives=[_asked("all-reduce", "fsdp", int(moved * GIB))] if moved else [],
            peak_bytes=int(peak * GIB),
            operations=[Operation(kind="matmul", sizes=(1, work * 10**6, 1))],
            predicted_s=time and Estimate(low=time, estimate=time, high=time),
        )
        for peak, moved, work, time in zip(peaks, sent, flops, times or (None, None), strict=True)
    ]
    known = _answer([], [])
    on_v5e = (each.vary(target="tpu:v5e:2x4") for each in (known.before, known.after))
    answer = WhatIf(*on_v5e, tuple(programs_))
    assert answer.raised == raised
    for title in raised:
        assert f"{title[0].lower()}{title[1:]} rises " in answer.verdict
    assert bool(answer.verdict) == bool(raised)
    is_as_long = bool(raised and times) and abs(times[1] / times[0] - 1) <= 0.02
    assert ("the step is no shorter" in answer.worse_by) == is_as_long
    assert ("not compared: step time" in answer.verdict) == (bool(raised) and times is None)
    titles = [each.title for each in answer.figures]
    assert ("Matmul FLOPs per device" in titles) == (times is None)

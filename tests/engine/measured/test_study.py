"""A study is measured as one run: all rows take turns in the same rounds."""

import ast
from itertools import cycle

import pytest

from spmd_core.engine import timing
from spmd_core.engine.measured import check
from spmd_core.engine.measured.run import run_again
from spmd_core.experiment import parse_experiment
from spmd_core.script import script_text

pytestmark = pytest.mark.this_python

LAYER = {
    "workload": "layer",
    "target": "cpu:8",
    "dims": {"batch": 8, "in": 32, "out": 16},
    "timing": {"samples": 4, "min_seconds": 0.0},
}
STUDY = [
    {
        "name": "rows",
        "experiment": LAYER
        | {"mesh": {"x": 8}, "sharding": {"batch": "x"}, "strategies": ["auto", "shard_map"]},
    },
    {
        "name": "cut",
        "experiment": LAYER
        | {"mesh": {"x": 2, "y": 4}, "sharding": {"in": "y"}, "strategies": ["auto"]},
    },
    {"name": "mapped", "experiment": LAYER | {"mesh": {"x": 8}, "strategies": ["pmap"]}},
]


def test_variants_take_turns_in_the_same_rounds_and_each_is_its_own_program(run, monkeypatch):
    rounds, drawn = [], []
    one_round, references = timing._round, check.references
    monkeypatch.setattr(
        timing,
        "_round",
        lambda programs, order: (rounds.append(len(programs)), one_round(programs, order)),
    )
    monkeypatch.setattr(
        check, "references", lambda *given: (drawn.append(given), references(*given))[1]
    )
    finished = run(study=STUDY)
    result = finished.result
    assert list(result.strategies) == ["rows/auto", "rows/shard_map", "cut/auto", "mapped/pmap"]
    measured = ["rows/auto", "rows/shard_map", "cut/auto"]
    assert all(
        len(result.strategies[name].samples_s) == 4 and result.strategies[name].correct
        for name in measured
    )
    assert rounds.count(max(rounds)) >= 4 and max(rounds) >= 3
    assert {result.comparison.fastest, *(each.strategy for each in result.comparison.ratios)} >= {
        *measured
    }
    assert result.strategies["rows/auto"].collectives == ()
    (found,) = result.strategies["cut/auto"].collectives
    assert (found.kind, found.axes) == ("all-reduce", ("y",))
    assert {event.strategy for event in run.events if event.event == "texts"} >= {*measured}
    assert len(drawn) == 1  # of the reference: what all have in common is computed once
    ast.parse(script_text(result.experiment, result))


def test_rows_that_compile_to_one_program_name_the_first(run):
    experiment = LAYER | {"mesh": {"x": 8}, "strategies": ["single", "auto", "constrained"]}
    study = [
        {"name": name, "experiment": experiment | {"sharding": {name: "x"}}}
        for name in ("batch", "in")
    ]
    found = run(study=study).result.strategies
    assert {name: each.same_program for name, each in found.items()} == {
        "batch/single": None,
        "batch/auto": None,
        "batch/constrained": "batch/auto",
        "in/auto": None,
        "in/constrained": "in/auto",
    }, "what one device does is measured once"


@pytest.mark.parametrize(("scatter", "is_busy"), [(1.001, False), (1.3, True)])
def test_a_further_process_measures_longer_on_a_busy_machine(
    environment, monkeypatch, scatter, is_busy
):
    """All of its rows alike; what they took here is replaced, since it is busy by chance."""
    took_s = cycle((1e-4, 1e-4 * scatter, 1e-4 / scatter))
    monkeypatch.setattr(timing, "time_calls", lambda call, arguments, count: next(took_s))
    study = parse_experiment({"study": STUDY})
    names, nothing = ["rows/auto", "rows/shard_map"], lambda event: None
    again = run_again(study, "run-1", environment, nothing, lambda: False, names, 2).result
    counts = {len(again.strategies[name].turns_s) for name in names}
    assert counts == {16 if is_busy else 4}

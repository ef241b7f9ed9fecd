"""The screens and the command line say the same of the same result, and say it first."""

import re

import pytest

from bench.values import ENVIRONMENT, comparison, result, strategy
from spmd_core.advice import in_words
from spmd_core.commands.printed.report import report
from spmd_core.experiment import link, parse_experiment
from spmd_core.facts import Estimate
from spmd_core.results import Result
from spmd_core.terms import experiment_words
from spmd_lab.ui.compare import view
from tests.ui import opened, read
from tests.ui.predictions import MODEL, TOO_LARGE, predicted, prediction, store

LAYER = MODEL.vary(
    workload="layer",
    dims={"batch": 256, "in": 256, "out": 256},
    options={},
    sharding={"in": "fsdp"},
    strategies=["auto", "explicit", "shard_map"],
)


def timed(low, estimate, high):
    time = Estimate(low=low * 1e-6, estimate=estimate * 1e-6, high=high * 1e-6)
    return prediction().model_copy(update={"predicted_s": time})


def program(**found):
    experiment = parse_experiment(
        {
            "workload": "program",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "options": {"program": "local_shape"},
        }
    )
    return Result.model_validate(
        {
            "run": "20260101-000000-abcdef",
            "experiment": experiment,
            "environment": ENVIRONMENT,
            "strategies": {"as_written": {"status": "ok"} | found},
        }
    )


MEASURED = {
    "fastest": result(
        {"auto": strategy(25e-6), "single": strategy(10e-6)},
        comparison=comparison("single", ("auto", 2.5, True)),
    ),
    "order": result(
        {"shard_map": strategy(316e-6), "auto": strategy(347e-6), "single": strategy(5.6e-6)},
        comparison=comparison("single", ("auto", 61.97, True), ("shard_map", 62.89, True)),
    ),
    "tied": result(
        {"single": strategy(10e-6), "auto": strategy(10.1e-6)},
        comparison=comparison("single", ("auto", 1.01, False)),
    ),
    "alone": result({"auto": strategy(25e-6)}),
    "wrong": result({"auto": strategy(5e-6, correct=False), "single": strategy(10e-6)}),
    "program": program(),
    "failed program": program(status="error", error={"kind": "X", "message": "no"}),
}
PREDICTED = {
    "one": predicted(),
    "too large": predicted(auto=TOO_LARGE),
    "overlap": predicted(LAYER, auto=timed(9, 10, 12), explicit=timed(9, 11, 13)),
    "fastest": predicted(LAYER, auto=timed(9, 10, 12), shard_map=timed(25, 30, 35)),
    "none fits": predicted(LAYER, auto=TOO_LARGE, explicit=TOO_LARGE),
}


def headings(page, data_folder, found):
    """The headings of a screen that shows a stored result, then its sentences and its figures."""
    view.forget()  # a run of the same id may have been shown before
    store(data_folder, found)
    screen = opened(page, experiment=link.encode(found.experiment), run=found.run)
    cells = [str(cell) for each in screen.table for cell in each.value.to_numpy().ravel()]
    texts = [each.value for each in (*screen.subheader, *screen.markdown)] + cells
    texts = [read(each).replace("\u00a0", " ") for each in texts]
    told = [each.removeprefix(":red[:material/error: ").removesuffix("]") for each in texts]
    figures = [
        each.proto.body for each in screen.get("html") if 'class="figure"' in each.proto.body
    ]
    named = re.search(r"<small>(?:<b.*?</b>)?\W*(.+)</small>", figures[0]) if figures else None
    return [named[1] if named else "", *told, *figures]


@pytest.mark.parametrize("case", MEASURED)
def test_compare_says_what_the_command_line_says(data_folder, case):
    found = MEASURED[case]
    figure, heading, *_ = headings("compare", data_folder, found)
    name, is_named, answer = heading.partition(" is fastest. ")
    if not is_named:
        name, answer = figure.rpartition(", ")[0].removeprefix("per call"), heading
    said = report(found)[0]
    assert said.startswith(name) and answer.rstrip(".") and answer.rstrip(".") in said
    assert figure or answer == said, "without a figure all of it"


@pytest.mark.parametrize("case", PREDICTED)
def test_predict_says_what_the_command_line_says(data_folder, case):
    found = PREDICTED[case]
    said, shown = report(in_words(found))[0], headings("predict", data_folder, found)
    if case == "one":  # a timed plan has a table and badges below the answer of its training run
        values = re.findall(r"[\d.]+ (?:ms|GiB)|[\d.]+%|fits", said)
        assert len(values) == 5 and all(
            value in " ".join(shown).lower() for value in map(str.lower, values)
        )
    else:
        assert said in shown


def test_experiments_that_differ_have_names_that_differ():
    layer = MEASURED["alone"].experiment
    found = [
        MODEL,
        MODEL.vary(dims={"batch": 1536, "sequence": 2048, "layers": 2}),
        MODEL.vary(options={"model": "scaled:16", "remat": "minimal"}),
        MODEL.vary(options={"model": "scaled:16", "offload": "query"}),
        MODEL.vary(options={"model": "scaled:16", "state_dtype": "bfloat16"}),
        layer,
        layer.vary(sharding={}),
        layer.vary(overrides={"weights": ["x", None]}),
        layer.vary(memory={"weights": "pinned_host"}),
        layer.vary(data={"x": "ones"}),
        layer.vary(options={"precision": "highest"}),
        layer.vary(seed=1),
        layer.vary(strategies=["single", "auto"]),
        layer.vary(timing={"samples": 5}),
    ]
    names = [experiment_words(each) for each in found]
    assert len(set(names)) == len({each.id for each in found}) == len(found)
    assert "layers=2" in names[1] and not any("unsharded" in name for name in names)
    assert "replicated" in names[6]

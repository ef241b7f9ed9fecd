"""Doors to sentences of searches in states that none is stored in, of facts that are rare, and of what
only a compile leads to: remedies of a collective, of all kinds, and what a plan changes against a
baseline.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from spmd_core.advice import doing_words, removal_words, what_words, with_sentence
from spmd_core.commands import predict
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import (
    Change,
    Collective,
    Nothing,
    Predicted,
    Ratio,
    Remedy,
    Removal,
    TriedChange,
)
from spmd_core.history import foreign_search_words, imported_words, origin_words
from spmd_core.lab import Lab
from spmd_core.reports import Baseline
from spmd_core.results import ArrayReport, Environment, Roofline, StrategyResult
from spmd_core.runs import Origin
from spmd_core.search import Answer, link
from spmd_core.surveys.search import answer as said
from spmd_core.terms import bandwidth, names
from spmd_core.trials import searches
from spmd_core.words import runs, traces
from spmd_core.workloads import VALUE
from spmd_lab.ui.predict import keep, tables
from tests.golden.folder import apart
from tests.golden.seldom import BY_ARGUMENT, BY_LINE, MEASURED, PLAN
from tests.golden.states import SAID, TPUS
from tests.golden.values import Line

LARGE = "20261124-173714-cdc495"
SEARCHES = ("31e9b57ad937662d", "764eefab73175025", "04b9b73e836c3768")
SENTENCES = (
    *(said.search_headline, said.sure_words, said.risk_words, said.ahead_words, said.verdict_words),
    *(said.nothing_left, said.next_label, said.next_words, said.state_words, said.ranked_words),
    said.space_words,
)


def doors(
    printed: Callable[..., list[Line]], lab: Lab
) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    yield "seldom-text/remedies", partial(_remedies, lab)
    for form in ("text", "json"):
        yield f"seldom-{form}/baseline", partial(_against, printed, lab, form)
    for id in SEARCHES:
        yield f"said/search {id}", partial(_searched, id)
    yield "said/rare", _rare
    yield "said/plan", _of_plan


def _searched(id: str) -> list[Line]:
    """What is said of a search as it was, cut short, with failures, and without what it found."""
    with apart() as lab:
        kept = next(each for each in lab.searches.listed() if each.id == id)
        stored = searches.stored(lab).find(kept.search)
        assert stored is not None
        search = searches.start(lab, link.question_of(stored.question), None)
        while not search.is_over:
            time.sleep(0.01)
        found = replace(search.answer, seconds=1.5)
    failed = [
        replace(each, stage="failed", detail="it ran out of memory.") if at % 3 == 0 else each
        for at, each in enumerate(found.found)
    ]
    none = [replace(each, stage="failed", detail="no such axis") for each in found.found]
    estimated = [
        each if each.stage != "measured" else replace(each, stage="estimated", measured_s=None)
        for each in found.found
    ]
    answers = (
        found,
        replace(found, complete=False, is_partial=True, space=7 * found.space, seconds=61.0),
        replace(found, complete=False, seconds=2.5),
        replace(found, found=failed, complete=False),
        replace(found, found=none, proof=None, space=2 * found.space),
        replace(found, found=(), proof=None),
        replace(found, found=estimated, proof=None, complete=False),
        *(
            replace(found, question=found.question.model_copy(update={"minimize": goal}))
            for goal in ("memory", "chip-seconds")
        ),
    )
    lines = [[each.__name__, each(answer)] for answer in answers for each in SENTENCES]
    for answer in answers:
        lines += [
            ["doing", said.doing(answer, "estimating", 12.0, 30.0)],
            ["doing", said.doing(answer, "compiling", 12.0)],
            ["cost", *_costs(answer)],
        ]
        if winner := answer.winner:
            lines += [["best", said.best_words(answer, winner)]]
    return [[" ".join(each.split()) for each in line] for line in lines]


def _costs(answer: Answer) -> Iterator[str]:
    return (said.cost_text(each.candidate, "chip-seconds", {}) for each in answer.ranking[:2])


def _rare() -> list[Line]:
    """Sentences of facts that few machines and runs have."""
    absent = parse_experiment(
        {"workload": "layer", "target": "tpu:v5e:2x4", "mesh": {"x": 8}, "strategies": ["auto"]}
    )
    here = absent.vary(target="cpu:8")
    origins = (Origin("examples", 1.79e9), Origin("4f2a", 1.79e9))
    roofs = {"compute_s": 1e-3, "memory_s": 2e-3, "communication_s": 3e-4, "dispatch_s": 1e-5}
    gpu = {"platform": "gpu", "device_kind": "NVIDIA H100 80GB HBM3"}
    devices = TPUS.model_dump()["devices"]
    environment = Environment.model_validate(SAID["environment"] | gpu | {"devices": devices})
    values = [float(each) for each in range(40)]
    one = ArrayReport(shape=(5, 8), dtype="float32", values=tuple(values))
    other = ArrayReport(shape=(5, 8), dtype="float32", values=tuple(each + 1 for each in values))
    timed = {"status": "ok", "median_s": 2e-3}
    outcomes = (
        timed,
        {"status": "ok", "predicted_s": {"low": 1e-3, "estimate": 2e-3, "high": 4e-3}},
        {"status": "ok"},
    )
    return [
        *([origin_words(each, of, "TPU v5e")] for each in origins for of in (absent, here)),
        *([imported_words(*each)] for each in ((3, 2, 1), (0, 0, 4), (0, 0, 0))),
        [foreign_search_words("4f2a")],
        *(
            [str(bandwidth.roofline_words(Roofline(**roofs, **more)))]
            for more in ({"share": 0.5, "mfu": 0.25}, {"share": 1.5}, {"share": 0.5, "ideal_s": 1})
        ),
        [str(names.pool_words(environment))],
        [traces.unattributed_words(0.25)],
        [str(runs.differing_text(one, other, "Automatic"))],
        *([str(runs.time_words(StrategyResult.model_validate(each)))] for each in outcomes),
    ]


def _of_plan() -> list[Line]:
    """The arrays of a plan, and its baseline against one that does not fit, both ways."""
    with apart() as lab:
        fitting, large = (_baseline(lab, run) for run in (PLAN, LARGE))
    bytes_now = {name: 2 * size for name, size in fitting.buffers.items()}
    larger = fitting.model_copy(
        update={"buffers": bytes_now, "peak": 2 * (fitting.peak or 0), "estimate_s": 9.0}
    )
    pairs = ((fitting, large), (large, fitting), (fitting, larger), (larger, fitting))
    held: dict[str, Any] = tables.arrays_table(fitting.plan)
    return [
        *([name, *cells] for name, cells in held.items()),
        *([each] for one, other in pairs for each in keep.changes(one.to_text().encode(), other)),
    ]


def _baseline(lab: Lab, run: str) -> Baseline:
    facts = lab.facts(run)
    assert facts and facts.experiment.plan
    prediction = facts.strategies["auto"].prediction
    assert prediction
    return Baseline.of(facts.experiment.plan, prediction)


RATIO = Ratio(
    strategy="auto",
    ratio=1.25,
    interval=(0.9, 1.4),
    verdict="cannot tell",
    differs=False,
    rounds=20,
)


def _removals(experiment: Experiment) -> Iterator[tuple[Removal, Collective]]:
    """Answers to what would remove a collective, of all kinds."""
    over = {"field": "sharding", "name": "in", "before": ["x", "y"], "after": ["x"]}
    shard = (Change(**over),)
    more = (Change(**over | {"after": []}), Change(**over | {"name": "out", "before": []}))
    alone = (Change(**over), Change(**over | {"name": "out"}))
    array = (Change(field="overrides", name="weights", before=None, after=[["x"], ["y"]]),)
    result = (Change(field="overrides", name="y", before=None, after=[[], ["x"]]),)
    line = (Change(field="specs", name=f"{VALUE}step.py:7", after=[["x"], []]),)
    argument = (Change(field="specs", name="w", after=[[], ["x"]]),)
    other = (Change(field="strategies", before="auto", after="shard_map"),)
    memory = (Change(field="memory", name="w", before="pinned_host", after="device"),)
    takes = Predicted(before=4e-3, after=3e-3)
    gathers = Collective(
        kind="all-gather", axes=("x",), bytes=64, count=2, origin=(BY_ARGUMENT, BY_LINE)
    )
    sums = Collective(kind="all-reduce", axes=("x",), bytes=128, count=1, reason="it is asked for")
    scatter = {"kind": "reduce-scatter", "axes": ("x",)}
    for changes, facts in (
        (shard, {"memory_bytes": 4 * 2**20}),
        (
            more,
            {"memory_bytes": -(3 * 2**20), "new": (scatter, {"kind": "all-to-all", "axes": ()})},
        ),
        (alone, {"memory_bytes": 0, "others": 2, "count": 5}),
        (line, {"memory_bytes": None, "removes": False, "bytes_moved": (512, 128)}),
        (argument, {"memory_bytes": None, "removes": False, "bytes_moved": (512, 512)}),
        (other, {"memory_bytes": None, "measured_s": takes, "ratio": RATIO}),
        (memory, {"memory_bytes": None}),
        (array, {"memory_bytes": 512}),
        (result, {"memory_bytes": 512}),
    ):
        given = {"experiment": experiment, "predicted_s": takes, "changes": changes} | facts
        yield Remedy.model_validate(given), gathers
    tried = tuple(
        TriedChange(changes=changes, removes=removes, seconds=seconds)
        for changes, removes, seconds in (
            (shard, True, 5e-3),
            (more, True, 6e-3),
            (line, False, 2e-3),
            (argument, None, None),
            (other, True, 7e-3),
            (memory, True, 9e-3),
            (array, False, 2e-3),
            (result, True, 8e-3),
        )
    )
    for facts in (
        {"is_small": True},
        {"tried": tried},
        {"tried": tried[3:4]},
        {"tried": tried, "best": 0, "seconds": 4e-3},
        {"tried": tried[:3], "best": 2, "seconds": 4e-3, "experiment": experiment},
        {"tried": tried[:2], "best": 1, "seconds": 4e-3, "experiment": experiment}
        | {"measured_s": takes, "ratio": RATIO},
        {},
    ):
        yield Nothing.model_validate(facts), sums
        yield Nothing.model_validate(facts), gathers


def _remedies(lab: Lab) -> list[Line]:
    facts = lab.facts(MEASURED)
    assert facts is not None
    base = facts.row("auto").experiment.vary(sharding={"in": ["x"]})
    lines = [
        [what_words(each), removal_words(with_sentence(removal, base, each))]
        for removal, each in _removals(base)
    ]
    doing = ((0, 0, ""), (0, 2, "compiling"), (1, 3, ""), (2, 3, "timing", 41.2))
    return lines + [["doing", doing_words(*each)] for each in doing]


def _against(printed: Callable[..., list[Line]], lab: Lab, form: str) -> list[Line]:
    """A baseline of one plan against what is stored of another, as if it was compiled again."""
    one, other = (lab.facts(run) for run in (PLAN, "20261124-173703-9ed8b8"))
    assert one and other and one.experiment.plan
    old, new = (each.strategies["auto"].prediction for each in (one, other))
    assert old and new
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "baseline.json"
        file.write_text(Baseline.of(one.experiment.plan, old).to_text(), "utf-8")
        found = SimpleNamespace(prediction=new)
        with mock.patch.object(predict, "compiled", lambda *_, **__: found):
            words = ("predict", "--baseline", str(file))
            lines = printed(form, *words, *(("--json",) if form == "json" else ()))
    return [line for line in lines if not line[0].startswith(".") or ".changes" in line[0]]

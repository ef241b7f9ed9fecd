"""Doors to texts of answers, plans, layouts and searches in forms that no stored result has."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from spmd_core.advice import nearest, results as following
from spmd_core.answers import candidates as of_candidates, drawn, what_if
from spmd_core.commands import numbers, output, predict_arguments
from spmd_core.commands.printed import predict_lines
from spmd_core.experiment import layout_of, parse_experiment
from spmd_core.lab import Lab
from spmd_core.machine import get_topology
from spmd_core.pictures import Move, Product
from spmd_core.plan import PLAN_FIELDS
from spmd_core.reports import Baseline, Subject, markdown_text, report_document
from spmd_core.search import Proof, link
from spmd_core.surveys.search import answer as of_search, candidates
from spmd_core.terms import costs, experiments
from spmd_core.time import MeshAxis, NearestFit, estimate_step, mesh_axes
from spmd_core.trials import searches
from spmd_core.words import facts as of_facts, predictions, strategies, traces
from spmd_core.workloads import parse_plan
from spmd_lab.ui.charts import glimpse, layout_words, torus_chart
from spmd_lab.ui.collectives import moved
from spmd_lab.ui.compare import beside, changed, study, trace
from spmd_lab.ui.predict import torus
from tests.golden.asked import ARRAY, STUDY
from tests.golden.folder import apart
from tests.golden.progress import SWEPT, refusal
from tests.golden.seldom import MEASURED
from tests.golden.sentences import LARGE, PLAN, SEARCHES, SENTENCES
from tests.golden.states import LAYER
from tests.golden.values import Line, of_terminal

GIB = 2**30
TRACED = ("20261124-173546-b0cb24",)
TORI = ("v4:4x4x4", "v5p:4x4x4", "v5p:16x16x24", "v5p:2x2x1", "v5e:4x8", "v5e:16x16", "v5e:4x4*2")
ORDERED = (
    ("tpu:v5e:8x8", (("x", 16), ("y", 4))),
    ("tpu:v5p:4x4x4", (("x", 2), ("y", 32))),
    ("tpu:v5p:4x4x8", (("x", 8), ("y", 4), ("z", 4))),
    ("tpu:v5e:4x4", (("x", 16),)),
)
OTHER_FITS = (
    {"batch_per_device": 4096},
    {"batch_per_device": 2.5, "mesh": (("fsdp", 4), ("tensor", 4))},
    {"remat": "none"},
    {"remat": "minimal"},
    {"mesh": (("fsdp", 4), ("tensor", 4))},
    {"target": "tpu:v5e:8x8", "mesh": (("fsdp", 64),)},
    {"offload": ["query", "key", "value"]},
    {"save": ["mlp_up"]},
)


def doors(lab: Lab) -> Iterator[tuple[str, Callable]]:
    """Name and rendering of each."""
    yield "rare/texts", _texts
    yield "rare/layouts", _layouts
    yield "rare/plans", partial(_plans, lab)
    yield "rare/runs", partial(_runs, lab)
    yield "rare/flags", _flags
    yield "rare/searches", _searched
    yield "rare/sentences", partial(_sentences, lab)


def _texts() -> list[Line]:
    """Texts of single facts."""
    cost = costs.StepCost(0.5, 2.0, 3.0, 4.2, 1e-3, 7.0)
    values = {"row": "auto", "slower_times": 2.5, "took_s": 2e-3, "held_bytes": 2**21, "count": 7}
    fits = (
        (20 * GIB, "does not fit", 4 * GIB, None),
        (10 * GIB, "does not fit", 0, (50 * GIB, 40 * GIB)),
        (None, "does not fit", 0, None),
        (None, "fits", 0, (3 * GIB, 40 * GIB)),
    )
    numbers_of = ([0], [0, 4], [0, 1, 2, 3], list(range(0, 64, 4)), list(range(0, 99, 9)))
    return [
        *([predictions.days_text(days)] for days in (0.02, 0.5, 1, 22.71, 729, 900)),
        *(
            [predictions.memory_words(peak, 16 * GIB, fit, missing, host)]
            for peak, fit, missing, host in fits
        ),
        *(
            [strategies.ends_text(ends)]
            for ends in ((0.05, 0.5), (1.0, 1.0), (1.2, 12.34), (99.0, 12345.6))
        ),
        *([*row] for step in (True, False) for row in costs.rows(cost, step).items()),
        *([experiments.ignored_words(names)] for names in ((), ("rope_theta",), ("a", "b"))),
        *([name, str(of_facts._value(name, value))] for name, value in values.items()),
        *([what_if._some(types)] for types in ((), ("f32[8]",), tuple("abcd"))),
        *([drawn.devices_text(devices)] for devices in numbers_of),
        *([torus_chart.caption(get_topology(f"tpu:{each}"))] for each in TORI),
        *([str(torus.difference(*_orders(target, mesh)))] for target, mesh in ORDERED),
        [moved.plan_words(parse_experiment(SWEPT))],
        *([beside.beside_words(_pairs(count))] for count in (0, 1, 2, 9)),
        *(
            [text, refusal(numbers.number, text, units)]
            for text in ("8", "2k", "x", "1e999")
            for units in ({}, {"k": 1e3, "m": 1e6})
        ),
        *(
            [refusal(output.check_output, "--keep", path, False)]
            for path in ("-", "/proc", "/nosuchfolder/file")
        ),
    ]


def _orders(target: str, mesh: tuple[tuple[str, int], ...]) -> list[tuple[MeshAxis, ...]]:
    """The axes of a mesh on chips, in the order of the torus and in plain order."""
    topology = get_topology(target)
    return [mesh_axes(topology, mesh, order) for order in ("topology", "plain")]


def _pairs(count: int) -> list[beside.Pair]:
    times = ((1.0, 2.0), (2.0, 2.1), (2.0, 1.5), (4.0, 9.0), (3.0, 0.5))
    return [beside.Pair("r", f"p{at}", *times[at % 5]) for at in range(count)]


def _layouts() -> list[Line]:
    """Layouts over several hosts, and of more devices than are listed."""
    lines = []
    for mesh, count in (({"x": 2, "y": 4}, 2), ({"x": 16, "y": 16}, 64)):
        spec = ARRAY | {"target": "tpu:v5e:16x16" if count > 2 else "cpu:8", "mesh": mesh}
        spec |= {"dims": {"d0": 512, "d1": 16}, "sharding": {"d0": "x"}}
        layout = layout_of(parse_experiment(spec), "array")
        for hosts in (np.arange(layout.device_count) % count, np.arange(layout.device_count) // 4):
            apart = replace(layout, hosts=hosts)
            lines += [
                [str(layout_words.hosts_text(apart))],
                [str(layout_words.sharing_text(apart))],
            ]
        lines += [[each] for each in drawn._listed(layout, ("d0", "d1"))]
    return lines


def _plans(lab: Lab) -> list[Line]:
    """What is said of plans near one that is stored."""
    facts = lab.facts(PLAN)
    assert facts is not None
    plan = facts.experiment.plan
    assert plan is not None
    lines = []
    for changes in OTHER_FITS:
        near = parse_plan(plan.to_json() | changes)
        fit = NearestFit(near, estimate_step(near))
        for one, other in ((plan, fit), (near, NearestFit(plan, estimate_step(plan)))):
            lines += [
                [nearest.change_words(one, other)],
                [nearest.arguments(one, other.plan)],
            ]
    for run in (PLAN, LARGE, "20261124-173703-9ed8b8"):
        stored = lab.facts(run)
        prediction = stored and stored.strategies["auto"].prediction
        assert stored and stored.experiment.plan and prediction
        tried = following._more_chips(stored.experiment.plan, prediction)
        lines += [[run, tried.sentence if tried else ""]]
        lines += of_terminal(Baseline.of(stored.experiment.plan, prediction).to_text())
    forms = [
        (name, dict(facts.experiment.to_json()) | {"data": data})
        for name, data in (("one", {}), ("two", {"w": "zeros"}), ("three", {}), (None, {}))
    ]
    lines += [
        [changed._sentence("Attention", forms[:count], dropped)]
        for count, dropped in ((1, ()), (2, ()), (2, (1,)), (4, (0, 1)), (4, (0, 1, 2, 3)))
    ]
    members = lab.status(STUDY).experiment.variants
    shown = study._members(members)
    lines += [[*map(str, row)] for row in (shown.columns, *shown.to_numpy().tolist())]
    layer = parse_experiment(LAYER)
    return [*lines, [*map(str, study._cells(layer, None).items())]]


def _runs(lab: Lab) -> list[Line]:
    """The instructions of traces, on one device and on each."""
    return [
        [run, name, *map(str, row.items())]
        for run in TRACED
        for facts in [lab.facts(run)]
        if facts
        for name, each in trace.traced(facts).items()
        for by_device in (False, True)
        for row in trace.instruction_rows(each, by_device)
    ]


def _flags() -> list[Line]:
    """The flags of a plan's fields, and the columns of candidates, which are made on import."""
    flags = {**predict_arguments.flags_of(PLAN_FIELDS)}
    return [
        *(
            [
                flag,
                *(f"{name}={getattr(value, '__name__', value)}" for name, value in words.items()),
            ]
            for flag, words in flags.items()
        ),
        *(
            [each.title]
            for one in (True, False)
            for other in (True, False)
            for each in of_candidates._times(one, other)
        ),
    ]


def _searched() -> list[Line]:
    """What is said of candidates that were excluded by their estimates or by a rule."""
    with apart() as lab:
        kept = {each.id: each for each in lab.searches.listed()}
        stored = searches.stored(lab).find(kept[SEARCHES[0]].search)
        assert stored is not None
        search = searches.start(lab, link.question_of(stored.question), None)
        while not search.is_over:
            time.sleep(0.01)
        found = replace(search.answer, seconds=1.5)
    far = [
        replace(each, stage="pruned", reason="estimate far above the best", detail=f"rule {at % 3}")
        if each.stage == "estimated"
        else each
        for at, each in enumerate(found.found)
    ]
    none = [
        replace(
            each,
            stage="pruned",
            reason="does not divide",
            detail=f"rule {at % 3}",
            memory_bytes=None,
        )
        for at, each in enumerate(found.found)
    ]
    guess = [
        replace(each, stage="estimated" if at < count else each.stage)
        for count in (1, 2)
        for at, each in enumerate(found.found)
    ]
    half = len(found.found)
    answers = (
        replace(found, found=far, proof=None, complete=True),
        replace(found, found=none, proof=None),
        replace(found, found=guess[:half]),
        replace(found, found=guess[half:]),
    )
    lines = [[each.__name__, each(answer)] for answer in answers for each in SENTENCES]
    if found.proof:
        lines += [[of_search.proof_words(found.proof)]]
    for at, each in enumerate(entry.candidate for entry in found.ranking[:4]):
        spanned = replace(each, memory_span=(GIB * (at + 1), GIB * (at + 3)))
        lines += [[candidates.memory_words(one) for one in (each, spanned)]]
        lines += [[candidates.time_of_tokens(one) for one in (each, replace(each, step=None))]]
    return [[" ".join(each.split()) for each in line] for line in lines]


def _sentences(lab: Lab) -> list[Line]:
    """Sentences about many rows, a proof that is certain, offloaded arrays and what is left out."""
    facts, traced = lab.facts(MEASURED), lab.facts(TRACED[0])
    planned = lab.facts(PLAN)
    assert facts and facts.comparison and traced and planned and planned.experiment.plan
    timed = {name: 1e-3 * (1 + at) for at, name in enumerate(facts.strategies)}
    answer = facts.comparison.model_copy(
        update={"fastest": facts.comparison.ratios[1].strategy, "tied": ()}
    )
    medians = {each.strategy: 1e-3 * (1 + at) for at, each in enumerate(answer.ratios)}
    proof = Proof(MEASURED, facts.experiment, answer, medians, (3, 1, 2), 9)
    lines = [[of_search.proof_words(proof)]]
    for count in (2, 4, 7):
        rows = [*timed.items()][:count]
        lines += [
            [strategies._Called(None).tied(rows, all_tie, last)]
            for all_tie in (True, False)
            for last in ("and", "or")
        ]
    for name, outcome in traced.strategies.items():
        for left_out in (0, 1234) if outcome.trace else ():
            trace = outcome.trace and outcome.trace.model_copy(update={"left_out": left_out})
            assert trace
            lines += [[name, *traces._notes(trace, outcome, traced.environment)]]
    layer = parse_experiment(LAYER)
    used = tuple((array.name, layer.spec(array.name)) for array in layer.what.arrays)
    for dims in ((0,), (0, 1)):
        move = Move("slice", ("x",), 64, dims, array="weights")
        lines += [[layout_words.why(layer, Product((), (move,), used, ()), move)]]
    for is_result in (True, False):
        lines += [[glimpse._copy(10.0, 20.0, 90.0, 12.0, is_result, True)]]
    known = planned.strategies["auto"].prediction
    assert known
    for room in (None, 40 * GIB):
        memory = known.memory_bytes.model_copy(update={"host": 5 * GIB})
        held = known.model_copy(update={"memory_bytes": memory, "host_capacity_bytes": room})
        lines += [[line] for line in predict_lines._lines(held, None, predict_lines.Wanted())]
    texts = {MEASURED: {name: {"program": name, "hlo": "HLO"} for name in facts.strategies}}
    summary = next(each for each in lab.history(limit=1000, over=True) if each.run == MEASURED)
    document = report_document([Subject(summary, facts, {})], texts)
    return [*lines, *([line] for line in markdown_text(document).splitlines() if "summary" in line)]

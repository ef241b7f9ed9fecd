"""Doors to texts that no stored result leads to: commands that somebody stops, findings of programs,
fields that are taken to other machines, and what is searched through but not shown.
"""

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from spmd_core.advice import doctor, programs as of_programs
from spmd_core.answers import program_sheet, serving_sheet, what_if
from spmd_core.base import LabError
from spmd_core.commands import predict, predict_sweep, spec as of_spec
from spmd_core.experiment import Experiment, link, parse_experiment
from spmd_core.facts import Collective
from spmd_core.history import cells
from spmd_core.lab import Batch, Lab
from spmd_core.machine import get_topology
from spmd_core.results import ArrayReport, Result
from spmd_core.runs import Labels, Origin, RunStatus
from spmd_core.search import read_serving, serve
from spmd_core.sheets import sheet
from spmd_core.terms import bandwidth, experiments
from spmd_core.words.origins import set_by
from spmd_core.workloads import Finding, Program
from spmd_lab.ui import course
from spmd_lab.ui.charts import colors, torus_chart
from spmd_lab.ui.compare import beside, small_program
from spmd_lab.ui.predict import drafts
from tests.golden.asked import SMALL_PLAN, STUDY
from tests.golden.rare import TORI
from tests.golden.seldom import BY_ARGUMENT, BY_LINE, EXPORTED, MEASURED, PLAN, TRAINED
from tests.golden.states import LAYER, SAID
from tests.golden.values import Line, drawn_by

QUESTIONS = (
    *("all-gather", "Which all gather waits?", "pod slice v5p", "nosuchthing", "mesh of two axes"),
    *("layer", "how do I shard a layer?", "moe expert", "psum of pmap", "host memory copy"),
)
TARGETS = ("cpu:8", "tpu:v5e:1x1", "tpu:v5e:4x8", "tpu:v5p:4x4x8*2", "gpu:h100:2x8", "gpu:h100:1x4")
SERVED = (
    {"model": "deepseek-v3-671b", "chips": "h200:8,h200:16,h200:32", "kv_dtype": "int8"},
    {"model": "llama-3.1-70b", "chips": "v5e:16,h100:4,h100:16", "tpot": "40ms"},
    {"model": "qwen3-8b", "chips": "v6e:16,v5e:4", "rate": 64, "weights_dtype": "bfloat16,fp8"},
)


def doors(
    printed: Callable[..., list[Line]], lab: Lab, runs: Sequence[Any]
) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    yield "unseen/stopped", partial(_stopped, printed, lab)
    yield "unseen/programs", partial(_programs, lab)
    yield "unseen/drafts", _drafts
    yield "unseen/served", _served
    yield "unseen/searched through", partial(_searched_through, runs)
    yield "unseen/texts", partial(_texts, lab)
    for width in ("60", "90"):
        yield f"unseen/{width} columns", partial(_narrow, printed, width)


def _stopped(printed: Callable[..., list[Line]], lab: Lab) -> list[Line]:
    """What commands say that somebody stops, or that a file is refused to."""
    layer, plan = (link.encode(parse_experiment(each)) for each in (LAYER, SMALL_PLAN))
    stored = lab.status(MEASURED).experiment
    found = lab.facts(MEASURED)
    ends = itertools.cycle([None, KeyboardInterrupt])

    def carried(self: Batch, experiment: Experiment) -> tuple[None, Result | None]:
        if (end := next(ends)) is not None:
            raise end
        return None, found and found.model_copy(update={"experiment": experiment})

    lines = []
    with mock.patch.object(Batch, "run", carried):
        for form in ("text", "json"):
            more = ("--json",) if form == "json" else ()
            lines += printed(form, "run", layer, "--sizes", "4", *more)
    with (
        tempfile.TemporaryDirectory() as temporary,
        mock.patch.object(predict, "is_current", lambda _: True),
    ):
        file = Path(temporary) / "trace.json"
        for run in (PLAN, "20261124-173714-cdc495"):
            asked = link.encode(lab.status(run).experiment)
            said = printed("text", "predict", asked, "--trace", str(file))
            lines += [[each.replace(str(file), "FILE") for each in line] for line in said]
    for words in (("--model", "qwen3-8b"), ("--estimate", "--fresh"), ("--chips", "8")):
        lines += printed("text", "predict", plan, *words)
    late = RunStatus("RUN", "cancelled", stored, 9.0)
    with mock.patch.object(predict, "run_to_end", lambda *_: (late, False)):
        lines += [[_error(predict.compiled, lab, stored, timeout, True)] for timeout in (0.0, 1e9)]
    said: list[str] = []
    with mock.patch.object(predict_sweep, "show_progress", lambda text="": said.append(text)):
        status = RunStatus("RUN", "running", stored, 9.0, started_at=10.0, finished_at=22.5)

        def waited(_: Lab, run: str, timeout_s: float, shown: Callable) -> RunStatus:
            shown(status)
            return replace(status, state="succeeded")

        point = SimpleNamespace(experiment=stored, label="16 chips")
        asked_runs: Any = SimpleNamespace(runs={stored.id: "RUN"})
        with mock.patch.object(predict_sweep, "wait", waited):
            predict_sweep._wait(lab, point, asked_runs, 9.0, set())  # pyright: ignore
    lines += [[each] for each in said]
    opened = (stored, lab.status(EXPORTED).experiment)
    return [*lines, *([str(sorted(of_spec._opened(each).items()))] for each in opened)]


def _error(door: Callable[..., Any], *given: Any) -> str:
    try:
        return str(door(*given))
    except LabError as error:
        return str(error)


def _programs(lab: Lab) -> list[Line]:
    """Findings of an exported program on each mesh, and what it holds; rows of programs."""
    facts = lab.facts(EXPORTED)
    assert facts and facts.experiment.exported
    program: Program = facts.experiment.exported
    bare = replace(program, described=program.described.model_copy(update={"mesh": ()}))
    leaves = [leaf.path for leaf in program.described.arguments]
    path, other = leaves[0], leaves[-1]
    state = next(iter(program.described.optimizer.items()), (path, other))
    found = [
        Finding(kind="rule", path=each, bytes_per_device=64, others=others, spec=spec, meant=meant)
        for each, others in ((path, ()), (path, (other, path)), (state[0], (state[1],)))
        for spec, meant in ((((), ("x",)), (("x",), ())), (None, None))
    ]
    found += [
        Finding(kind="replicated", path=each, bytes_per_device=2**20, others=others)
        for each, others in ((path, ()), (other, (path,)))
    ]
    lines = [
        [of_programs.finding_words(each, of)]
        for of in (program, bare, replace(bare, specs=((path, ((),)),)))
        for each in found
    ]
    for of in (program, bare):
        for held in (*of.arguments(), *of.outputs()):
            unused = replace(held, leaf=held.leaf.model_copy(update={"is_kept": False}), spec=None)
            lines += [[of_programs.held_spec(each)] for each in (held, unused)]
    sized = replace(program, dims={"batch": 32, "length": 128})
    lines += [
        [each] for of in (program, sized) for each in experiments._of_program(of, facts.experiment)
    ]
    for run in (MEASURED, EXPORTED, PLAN):
        known = lab.facts(run)
        assert known is not None
        for letter, outcome in zip("ABC", [None, *known.strategies.values()], strict=False):
            row = program_sheet.ProgramRow(letter, known.experiment, outcome)
            lines += [[run, *map(str, (row.words, row.flops, row.collectives, row.sent))]]
    changes = [
        SimpleNamespace(values=(("step.py:7", "f32[8,{x}]", number), ("step.py:9", "f32[4]", 1)))
        for number in (2, 5)
    ]
    pairs = ((changes[0], changes[1]), (changes[0], changes[0]), (changes[1], changes[0]))
    for pair in pairs:
        answer = what_if.WhatIf(facts.experiment, facts.experiment, pair)  # pyright: ignore
        lines += [
            [answer.headline, answer.made, answer.agreement],
            *([*map(str, each)] for each in answer.resharded),
        ]
    return lines


def _drafts() -> list[Line]:
    """Fields of workloads on other machines, and meshes that one click sets."""
    block = {"workload": "transformer_block", "target": "tpu:v5e:4x4", "mesh": {"x": 4, "y": 4}}
    pair = LAYER | {"target": "tpu:v5e:4x4", "mesh": {"x": 4, "y": 4}, "strategies": ["auto"]}
    pair |= {"sharding": {"in": "y", "batch": ["x"]}, "overrides": {"weights": [["x"], ["y"]]}}
    given = [dict(parse_experiment(each).to_json()) for each in (SMALL_PLAN, pair, block)]
    lines = []
    for draft in given:
        lines += [_of_draft(drafts.on_target(draft, target)) for target in TARGETS]
        lines += [_of_draft(drafts.switched(draft, name)) for name in drafts.workloads()]
        lines += [
            _of_draft(drafts.with_mesh(draft, mesh, 16))
            for mesh in ([["x", 8]], [["z", 32]], [["y", 4], ["fsdp", 2]])
        ]
        for target in TARGETS[1:]:
            topology, mesh = get_topology(target), [list(axis) for axis in draft["mesh"]]
            lines += [[target, str(drafts.filled(draft, topology))]]
            for name in (draft["workload"], "layer"):
                lines += [
                    [words, str(mesh)]
                    for words, mesh in drafts.presets(name, topology, mesh).items()
                ]
    return lines


def _of_draft(draft: dict[str, Any]) -> Line:
    return [f"{name}={value}" for name, value in draft.items() if name not in ("timing", "seed")]


def _served() -> list[Line]:
    """Why not on others, for loads where meshes lack units, pools or room; each also without some."""
    lines = []
    for question in SERVED:
        answer = serve(read_serving(question))
        for of in (answer, replace(answer, rows=()), replace(answer, rows=answer.rows[::-1])):
            lines += [[*each] for each in serving_sheet.left_out(of)]
        known = sorted(
            (row for row in answer.rows if row.pool and row.served),
            key=lambda row: (row.plan.repeats, row.plan.topology.devices),
        )
        for lead, row in itertools.permutations((*known[:3], *known[-3:]), 2):
            lines += [[" ".join(serving_sheet._reasons(lead, row))]]
    return lines


def _searched_through(runs: Sequence[Any]) -> list[Line]:
    """What a search of History and of Recipes looks through, and finds."""
    origins = (None, Origin("examples", 1.79e9), Origin("4f2a", 1.79e9))
    marks = (Labels(name="By rows", tags=("one", "two"), is_pinned=True), Labels())
    firsts = {each.experiment.workload: each for each in runs}
    return [
        *([cells.row_text(each, "UTC")] for each in firsts.values()),
        *(
            [cells.labels_words(replace(runs[0], origin=origin, labels=label))]
            for origin in origins
            for label in marks
        ),
        *([words, *(each.name for each in course.matching(words))] for words in QUESTIONS),
    ]


def _texts(lab: Lab) -> list[Line]:
    """Texts of arrays, traces, points and products in forms that no stored result has."""
    values = tuple(float(each) / 4 for each in range(12))
    reports = [
        ArrayReport(shape=shape, dtype=dtype, values=values)
        for shape in ((12,), (3, 4))
        for dtype in ("bfloat16", "float32", "int32")
    ]
    lines = [[small_program.shape_text(each), small_program.array_text(each)] for each in reports]
    for run in lab.history(limit=3, over=True, workload="collectives"):
        facts = lab.facts(run.run)
        for sweep in facts.strategies.values() if facts else ():
            sizes = sorted({point.bytes for point in sweep.points})
            for keep in (sizes, sizes[:-2], sizes[::2]):
                listed = [point for point in sweep.points if point.bytes in keep]
                peaked = [
                    point.model_copy(
                        update={
                            "time_s": 1e-9
                            * point.bytes
                            * (
                                1
                                + 0.6
                                * max(
                                    2 - sizes.index(point.bytes), 3 * sizes.index(point.bytes) - 6
                                )
                            )
                        }
                    )
                    for point in listed
                ]
                lines += [[*bandwidth.sweep_words(each)] for each in (listed, peaked)]
    for place, width_px in itertools.product(TORI, (300, 900)):
        topology = get_topology(f"tpu:{place}")
        axes = [("x", topology.shape[0]), ("y", topology.devices // topology.shape[0])]
        if topology.slices == 1:
            chart = torus_chart.torus_chart(topology, axes, "x", "topology", width_px)
            lines += drawn_by(json.dumps(chart))
    for run in (MEASURED, STUDY, TRAINED):
        known = lab.facts(run)
        assert known is not None
        lines += [[colors.marked(known.experiment, known.order[:4], "name")]]
        lines += [[str(small_program.parts(each))] for each in known.strategies.values()]
    schedulers = [facts for name, facts in SAID["readings"] if name in ("dask", "clusters")]
    schedulers += [{"schedulers": []}]
    with mock.patch.dict(doctor._TESTS, {"dask": doctor._schedulers("VARIABLE", "no cluster")}):
        lines += [[*map(str, doctor.check("dask", facts))] for facts in schedulers]
    origins = (BY_LINE, BY_ARGUMENT.model_copy(update={"axis": "y"}))
    for axes in (("x",), ("y",), ("x", "y")):
        moved = Collective(kind="all-gather", axes=axes, bytes=64, count=2, origin=origins)
        lines += [[set_by.set_by_words(moved)]]
    with mock.patch.dict(what_if._AGREE, {"cpu": ("CPU", 120, 90, 60)}):
        lines += [[what_if.agreement_words(parse_experiment(LAYER))]]
    pairs = [beside.Pair("r", f"p{at}", 1.0 + at % 3, 2.0 + at % 5) for at in range(7)]
    lines += [[str(beside.beside_chart(pairs[:count]))] for count in (1, 7)]
    return lines


def _narrow(printed: Callable[..., list[Line]], width: str) -> list[Line]:
    """Tables on a terminal of a few columns."""
    with mock.patch.object(sheet, "_room", lambda: int(width)):
        return [
            line for run in (MEASURED, STUDY) for line in printed("text", "history", "--run", run)
        ]

"""Doors to what is said while something runs, and of what is refused: the states of a run at fixed
facts, results that were cut short, searches of History, links and commands.
"""

import contextlib
import io
import itertools
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast
from unittest import mock

from spmd_core.base import CLEAR, RequestError
from spmd_core.commands import waiting
from spmd_core.experiment import Experiment, link, parse_experiment
from spmd_core.history import read_search
from spmd_core.lab import Lab
from spmd_core.reports import Baseline
from spmd_core.reports.comparison import check_compared
from spmd_core.results import Result
from spmd_core.runs import Pace, RunStatus, paced
from spmd_core.words import left_words, progress_words, runs as said
from spmd_lab.ui import choices, links
from tests.golden.seldom import CHANGES, MEASURED, PLAN, TRAINED
from tests.golden.states import LAYER, MODEL
from tests.golden.values import Line, of_terminal

SWEPT = {"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}}
LINEAR = {"workload": "train_step", "target": "cpu:8", "mesh": {"x": 8}}
LINEAR |= {"dims": {"batch": 64, "in": 3, "out": 1}, "sharding": {"batch": "x"}}
LINEAR |= {"options": {"model": "linear", "steps": 200}, "strategies": ["single", "auto"]}
OF = (LAYER, LAYER | {"timing": {"processes": 5}}, MODEL, SWEPT, LINEAR)
NONE = {"phases_s": {}, "points": ()}
MEDIANS = {"medians_s": {"single": 2.5e-3, "auto": 1.25e-3}}
MEDIANS |= {"intervals_s": {"single": (2.4e-3, 2.7e-3), "auto": (1.2e-3, 1.3e-3)}}
# states of a run: seconds since it began, None where it waits, and its facts
STATES: tuple[tuple[str, float | None, dict[str, Any]], ...] = (
    ("queued", None, {}),
    ("queued", None, {"queue_position": 2}),
    ("queued", None, {"queue_position": 3, "waiting_for": "compiler"}),
    ("starting", 0.4, {}),
    ("starting", 61.0, {"waiting_for": "compiler", "stderr_tail": "one\nit loads\n"}),
    ("starting", 2.0, {"waiting_for": "devices", "stderr_tail": "one\nit loads\n"}),
    *(
        ("running", 3.0, {"waiting_for": f"{each}: 4 of 7"})
        for each in ("room to write", "timed run", "earlier runs", "of a later version")
    ),
    *(
        ("running", 20.0 + at, {"phase": phase, "strategy": "auto"})
        for at, phase in enumerate(said._PHASES)
    ),
    ("running", 61.0, {"phase": "optimize", "paused_for": "RUN"}),
    ("running", 12.0, {"phase": "sample", "done": 7, "of": 20} | MEDIANS),
    ("running", 30.0, {"phase": "sample", "done": 20, "of": 20} | MEDIANS),
    ("running", 90.0, {"phase": "sample", "process": 2, "done": 3, "of": 20} | MEDIANS),
    ("running", 400.0, {"phase": "repeat", "process": 5, "done": 18, "of": 20} | MEDIANS),
)
SEARCHED = (
    *("", "layer", "all-gather", "all-reduce v5e tag:ring", "today", "yesterday today layer"),
    *("tag:layer is:pinned all-gather all-reduce", "layer x=8 foo:bar bar:foo", "by:me state:ok"),
)
SCREENS = ("compare", "predict", "layout", "collectives", "programs", "search", "history")
# parameters of an address
READ = (
    *(("arrows", ("x",)), ("arrows", ("3", "4")), ("at", ("7",)), ("once", ("yes",))),
    *(("candidate", ("best",)), ("show", ("all",)), ("scaling", ("none",)), ("meshes", ("a",))),
    *(("with", ("a",)), ("collection", ("a",)), ("measured", ("0",)), ("tokens", ("1e99",))),
    *(("days", ("-1",)), ("dollars", ("many",)), ("price", ("v5p=",)), ("tab", ("a" * 2001,))),
    *(("experimnt", ("1",)), ("nosuchthing", ("1",)), ("columns", ("a", "b")), ("price", ("4.2",))),
)
REFUSED = (
    ("layout", "--mesh", "x=2", "--shape", "1,2,3,4,5,6,7,8,9"),
    ("layout", "--mesh", "x=2", "--shape", "8,8", "--spec", '["x",null,null]'),
    ("layout", "--mesh", "x=2"),
    ("compare", MEASURED, MEASURED),
    ("compare", MEASURED, TRAINED, "--baseline", PLAN),
    ("history", "--run", "20260101-000000-aaaaaa"),
)


def doors(printed: Callable[..., list[Line]], lab: Lab) -> Iterator[tuple[str, Callable]]:
    """Name and rendering of each."""
    yield "progress/states", _states
    yield "progress/kept", partial(_kept, lab)
    yield "progress/searches", _understood
    yield "progress/addresses", partial(_addresses, lab)
    yield "progress/refusals", partial(_refusals, printed, lab)


def _states() -> list[Line]:
    """What a screen and a terminal say of runs at work."""
    lines = []
    for spec, (state, since_s, facts) in itertools.product(OF, STATES):
        experiment = parse_experiment(spec)
        times = {} if since_s is None else {"started_at": 10.0, "finished_at": 10.0 + since_s}
        status = RunStatus("RUN", state, experiment, 9.0, **cast(Any, times | facts))
        pace, left_s = paced(status, Pace())
        later = RunStatus("RUN", state, experiment, 9.0, **_later(times | facts))
        lines += [
            [experiment.workload, *map(str, (state, since_s, *facts.values()))],
            [said.phase_words(status)],
            [str(said.waiting_words(status, "run {}".format))],
            *(["compiled", *map(str, said.compile_words(status, last))] for last in (None, 0, 40)),
            ["left", left_words(status), progress_words(status, left_s)],
            ["left", *(str(each) for each in (pace.share, *_after(later, pace)))],
            *of_terminal(_shown(status)),
        ]
    return lines


def _later(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run after five further rounds and seconds."""
    if "done" not in facts:
        return {**facts}
    return {**facts, "done": facts["done"] + 5, "finished_at": facts["finished_at"] + 5}


def _after(later: RunStatus, before: Pace) -> tuple[float, str]:
    pace, left_s = paced(later, before)
    return pace.share, progress_words(later, left_s)


def _shown(status: RunStatus) -> str:
    out = io.StringIO()
    with (
        contextlib.redirect_stderr(out),
        mock.patch.object(out, "isatty", lambda: True, create=True),
    ):
        waiting.Follower()(status)
    return out.getvalue().removeprefix(CLEAR)


def _kept(lab: Lab) -> list[Line]:
    """What is left of runs that were interrupted."""
    lines = [[str(said.kept_words(None))]]
    for run in (*CHANGES, "20261124-180114-6a0435"):
        facts = lab.facts(run)
        assert facts is not None
        lines += [[run, said.kept_words(each)] for each in _cut_short(facts)]
        lines += [[run, str(said.floor_words(facts)), said.samples_words(facts)]]
    return lines


def _cut_short(facts: Result) -> Iterator[Result]:
    """A result as it is, and with less and less of what was measured."""
    yield facts
    names = list(facts.strategies)
    untimed = {"median_s": None, "samples_s": ()}
    for without, changes in itertools.product(
        (names[1:], names),
        (untimed, {"samples_s": ()}, {"samples_s": (1e-3, 2e-3)}, untimed | NONE),
    ):
        outcomes = {
            name: type(each).model_validate(
                {**each.model_dump(exclude={"status"}), "status": each.status} | changes
            )
            if name in without
            else each
            for name, each in facts.strategies.items()
        }
        yield facts.model_copy(update={"strategies": outcomes})


def _understood() -> list[Line]:
    return [[text, read_search(text, "UTC", 1.79e9).words] for text in SEARCHED]


def _refusals(printed: Callable[..., list[Line]], lab: Lab) -> list[Line]:
    ids = [each.run for each in lab.history(limit=9, over=True)]
    return [
        *(line for words in REFUSED for line in printed("text", *words)),
        *([refusal(check_compared, asked, None)] for asked in (ids, ids[:1])),
    ]


def refusal(door: Callable[..., Any], *given: Any) -> str:
    try:
        return str(door(*given))
    except (RequestError, ArgumentTypeError) as error:
        return str(error)


def _addresses(lab: Lab) -> list[Line]:
    """Links that a screen does not show, or not wholly."""
    runs = (*CHANGES, "20261124-174251-0dcdaf", "20261124-180114-6a0435")
    stored = [lab.status(run).experiment for run in runs]
    asked: list[Experiment] = [*stored, *map(parse_experiment, OF)]
    return [
        *(
            [each.workload, screen, str(links.wrong_screen(screen, each))]
            for each in asked
            for screen in SCREENS[:5]
        ),
        *(
            [screen, name, refusal(choices._check, screen, name, values)]
            for screen in SCREENS
            for name, values in READ
        ),
        *([refusal(link.decode, code)] for code in ("", "1.", "1.x", "2.abc", "1." + "A" * 99)),
        *([refusal(Baseline.read, content)] for content in (b"", b"[]", b"{}", b" " * (2**20 + 1))),
    ]

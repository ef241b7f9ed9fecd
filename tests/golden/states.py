"""Doors to states that no stored run is in: a machine that is unwell, runs at work, collections, and
results with what seldom happens. Each in a folder of its own.
"""

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from spmd_core.advice import Check, check
from spmd_core.base import CLEAR
from spmd_core.commands import waiting
from spmd_core.experiment import link, parse_experiment, screen_of
from spmd_core.lab import Lab, doctor
from spmd_core.lab.store.store import Store
from spmd_core.machine import Hardware
from spmd_core.machine.hardware import Holder
from spmd_core.results import Environment
from spmd_core.runs import states
from tests.golden import screens
from tests.golden.folder import apart
from tests.golden.values import Line, of_terminal

GIB = 2**30
NOW_S = 1.8e9  # of a clock that stands still: runs at work began before it
SAID = json.loads((Path(__file__).parent / "states.json").read_text("utf-8"))
TPUS = Environment.model_validate(
    SAID["environment"]
    | {
        "devices": [
            {
                "id": number,
                "process": number // 4,
                "coords": [number % 2, number // 2, 0],
                "core": 0,
                "memory_bytes": 16 * GIB + number,
                "memory_kinds": ["device", "pinned_host"],
            }
            for number in range(8)
        ]
    }
)
HOST = Hardware(
    accelerator="tpu",
    name="TPU v5e",
    device_files=("/dev/accel0", "/dev/accel1"),
    holders=(Holder("/dev/accel0", 7, "python3"),),
    cores=112,
    memory_bytes=188 * GIB,
    available_bytes=170 * GIB,
    slice_host=1,
    slice_hosts=4,
    chips=4,
)
LAYER = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
LAYER |= {"dims": {"batch": 512, "in": 256, "out": 128}, "strategies": ["single", "auto"]}
MODEL = {"workload": "decoder", "target": "tpu:v5e:4x4", "mesh": {"fsdp": 16}}
MODEL |= {"dims": {"batch": 16, "sequence": 2048}, "options": {"model": "scaled:1"}}
# of a run: its spec, how far it is, and seconds since it began; None: it waits
WORK: dict[str, tuple[tuple[dict[str, Any], dict[str, Any], float | None], ...]] = {
    "measured": (
        (
            LAYER,
            {"phase": "sample", "strategy": "auto", "done": 7, "of": 20}
            | {"medians_s": {"single": 2.5e-3, "auto": 1.25e-3}}
            | {"intervals_s": {"single": (2.4e-3, 2.7e-3), "auto": (1.2e-3, 1.3e-3)}},
            12.0,
        ),
        (LAYER | {"seed": 5}, {}, None),
        (MODEL, {"phase": "optimize", "paused_for": "RUN"}, 61.0),
    ),
    "again": ((LAYER | {"seed": 7}, {}, None), (LAYER, {"phase": "compile"}, 3.0)),
    "of the machine": (
        (
            {"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}},
            {"phase": "sample", "done": 4, "of": 10},
            8.0,
        ),
    ),
    "compiled": ((MODEL, {"phase": "optimize"}, 61.0),),
    "waiting": ((MODEL, {"waiting_for": "compiler"}, 61.0), (MODEL | {"seed": 3}, {}, None)),
    "swept": (
        (MODEL, {"phase": "optimize", "done": 1, "of": 2}, 61.0),
        (
            MODEL
            | {
                "target": "tpu:v5e:8x8",
                "mesh": {"fsdp": 64},
                "dims": {"batch": 64, "sequence": 2048},
            },
            {},
            None,
        ),
    ),
    "trained": (
        (
            {"workload": "train_step", "target": "cpu:8", "mesh": {"x": 8}}
            | {"dims": {"batch": 64, "in": 3, "out": 1}, "sharding": {"batch": "x"}}
            | {"options": {"model": "linear", "steps": 200}, "strategies": ["single", "auto"]},
            {"phase": "train", "done": 3, "of": 200}
            | {"series": {"single/loss": (3.0, 2.0, 1.5), "auto/loss": (3.0, 2.1)}},
            4.0,
        ),
    ),
}


def doors(printed: Callable[..., list[Line]]) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    for form in ("text", "json"):
        yield f"state-{form}/doctor", partial(_unwell, partial(printed, form), form)
        more = ("--json",) if form == "json" else ()
        yield f"state-{form}/devices", partial(_attached, printed, form, "devices", *more)
    yield "state-screen/doctor", _tested
    yield "state-screen/devices", _attached
    yield "state-screen/cluster", _cluster
    for name, work in WORK.items():
        yield f"state-screen/at work, {name}", partial(_at_work, work)


def _checks() -> list[Check]:
    return [check(name, facts) for name, facts in SAID["readings"]]


def _unwell(show: Callable[..., list[Line]], form: str) -> list[Line]:
    """The self-test of machines that are unwell, each in its way."""
    with mock.patch.object(doctor, "examine", _checks):
        lines = show("doctor", *(["--json"] if form == "json" else []))
    return [line for line in lines if not line[0].startswith(".versions")]


def _tested() -> list[Line]:
    """Overview after self-tests, of which some, or none, failed."""
    well = [each for each in _checks() if each.status != "fail"]
    with apart():
        return [
            line
            for checks in (_checks(), well)
            for line in screens.lines_of(None, {}, {"self_test": checks})
        ]


def _cluster() -> list[Line]:
    """Overview with a cluster of two hosts, and one whose hosts are not known."""
    clusters = {"SPMD_LAB_CLUSTERS": "pod=tcp://127.0.0.1:1,new=tcp://127.0.0.1:2"}
    with apart() as lab, mock.patch.dict(os.environ, clusters):
        with closing(Store(lab.folder)) as store:
            store.keep_environment("cluster:pod", TPUS)
        return screens.lines_of(None, {})


def _attached(show: Callable[..., list[Line]] | None = None, *words: str) -> list[Line]:
    """Attached TPUs, as the command or Overview shows them."""
    with (
        apart() as lab,
        mock.patch.object(Lab, "hardware", lambda _: HOST),
        mock.patch.object(Lab, "probe", lambda *_, **__: TPUS),
        mock.patch.dict(os.environ, {"SPMD_LAB_TARGET": "local"}),
    ):
        with closing(Store(lab.folder)) as store:
            store.keep_environment("local", TPUS)
        return show(*words) if show else screens.lines_of(None, {})


def _at_work(work: Sequence[tuple[dict[str, Any], dict[str, Any], float | None]]) -> list[Line]:
    """The screen of the first of some runs at work, what a terminal says of it, and Overview."""
    with ExitStack() as stack:
        lab = stack.enter_context(apart())
        stack.enter_context(mock.patch.object(states, "time", SimpleNamespace(time=lambda: NOW_S)))
        # as if a process worked the queue
        stack.enter_context(mock.patch.object(Lab, "_seen", lambda _, status, *__: status))
        runs = []
        with closing(Store(lab.folder)) as store:
            for number, (spec, progress, since_s) in enumerate(work):
                experiment, run = parse_experiment(spec), f"20260101-000000-aaaaa{number}"
                runs.append(run)
                store.submit(run, experiment)
                if since_s is not None:
                    assert store.start(run)
                    began = replace(store.status(run), state="running", started_at=NOW_S - since_s)
                    store.note(replace(began, **progress))
        first = lab.status(runs[0])
        query = {"experiment": link.encode(first.experiment), "run": first.run}
        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            mock.patch.object(said, "isatty", lambda: True, create=True),
        ):
            waiting.Follower()(first)
        if work is WORK["swept"]:
            query |= {"show": "sweep", "sweep": "chips=16,64"}
        return [
            *of_terminal(said.getvalue().removeprefix(CLEAR)),
            *screens.lines_of(screen_of(first.experiment), query),
            *screens.lines_of(None, {}),
        ]

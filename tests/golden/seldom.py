"""Doors to what seldom happens: stored results with wrong values, hosts that fall behind, lost batches,
and the shardings of a program.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest import mock

from spmd_core.commands.printed.report import shardings_report
from spmd_core.experiment import link, screen_of
from spmd_core.facts import (
    Accident,
    AxisOrigin,
    LostBatch,
    OriginStep,
    Reshard,
    Shardings,
    Step,
)
from spmd_core.results import StrategyResult
from spmd_core.words import texts
from tests.golden import screens
from tests.golden.folder import apart
from tests.golden.values import Line, of_terminal
from tests.ui.predictions import store

STORED_S = 1.79e9  # seconds since the epoch
MEASURED, TRAINED = "20261124-173534-6893dc", "20261124-173552-f3d3fc"
EXPORTED, PLAN = "20261124-173907-0a046e", "20261124-173657-9126a7"
BY_ARGUMENT = AxisOrigin(axis="x", kind="argument", name="w", spec=((), ("x",)), values=1)
BY_LINE = AxisOrigin(
    axis="x",
    kind="constraint",
    source="step.py:7",
    called="step.py:11",
    spec=(("x",), ()),
    steps=(
        OriginStep(operation="dot_general", source="step.py:8"),
        OriginStep(operation="while", source="step.py:9", backward=True),
    ),
    values=8,
)


def _wrong(count: int, of: int, **worst: Any) -> dict[str, Any]:
    place = {"result": "y", "index": [3, 7], "got": 1.25, "expected": 2.5, "bound": 0.0001}
    return {
        "correct": False,
        "wrong": {"count": count, "of": of, "share": count / of, "worst": place | worst},
    }


# what is changed of a stored result, by strategy
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    MEASURED: {
        "auto": {
            "hosts": [
                {"host": f"h{at}", "process": at, "devices": 2, "median_s": 1e-3 * (1 + at)}
                for at in (0, 1, 5)
            ],
            "remeasured_s": [1.1e-3, 1.2e-3, 1.3e-3],
            "floor_s": 3e-4,
        },
        "constrained": _wrong(512, 16_384),
        "explicit": {
            "imprecise": {"count": 12, "of": 2048, "share": 0.006, "off": 0.1, "terms": 1024}
            | {"dtype": "bfloat16"},
        },
        "shard_map": {"status": "error", "error": {"kind": "ValueError", "message": "no such"}},
        "vmap": _wrong(1, 1, index=[], got="nan", expected=1e-7, bound="inf"),
        "pmap": {"correct": False, "max_rel_error": 0.25, "tolerance": 0.001},
        "jit(pmap)": {
            "hosts": [
                {"host": f"h{at}", "process": at, "devices": 4, "median_s": 1e-3 + at * 1e-4}
                for at in (0, 1)
            ]
        },
        "pmap(jit)": {
            "median_s": None,
            "samples_s": [],
            "predicted_s": {"low": 1e-4, "estimate": 2e-4, "high": 4e-4},
        },
        "jit(vmap)": {
            "collectives": None,
            "facts": [
                {
                    "kind": "beyond",
                    "values": {"name": "y", "of": 2048, "dtype": "float16", "infinite": 3}
                    | {"unjudged": 5, "undefined": 1, "unresolved": 0},
                }
            ],
        },
    },
    TRAINED: {"auto": {"series": {"loss": [3.5, 2.25, 1.125], "step_s": [2e-3, 3e-3, 5e-3]}}},
    EXPORTED: {
        "auto": {
            "lost_batch": LostBatch(
                axes=("fsdp", "tensor"),
                source="step.py:9",
                work=4.0,
                share=0.25,
                places=({"source": "step.py:9", "spec": (("fsdp",), ())},),
                origin=(BY_ARGUMENT,),
            ).model_dump(),
            "accidents": [
                each.model_dump()
                for each in (
                    Accident(
                        kind="repeated_work",
                        axes=("tensor",),
                        source="a.py:3",
                        share=0.5,
                        work=2.0,
                        dropped_at="a.py:2",
                    ),
                    Accident(kind="repeated_work", axes=("tensor",), share=0.125, work=4.0),
                    Accident(kind="wide_products", share=0.75, dtype="f32"),
                    Accident(kind="constant", bytes=3 * 2**20, source="a.py:5"),
                    Accident(
                        kind="gathered_whole",
                        axes=("fsdp",),
                        bytes=5 * 2**30,
                        source="a.py:6",
                        origin=(BY_LINE,),
                    ),
                    Accident(
                        kind="dropped_batch",
                        axes=("fsdp",),
                        source="a.py:7",
                        spec=(("fsdp",), (), ("tensor",)),
                    ),
                )
            ],
        }
    },
    PLAN: {},
}


def _steps() -> tuple[Step, ...]:
    """Steps of a program, of all kinds."""
    return (
        Step(name="w", operation="operand", shape=(8, 4), dtype="f32", spec=((), ("x",)), bytes=64),
        Step(
            name="y",
            operation="dot_general",
            shape=(16, 4),
            dtype="bf16",
            spec=(("x",), ()),
            bytes=3 * 2**20,
            source="step.py:8",
            code="y = x @ w",
            sums=("x", "y"),
            collectives=("all-reduce",),
            origins=(BY_LINE, BY_ARGUMENT.model_copy(update={"axis": "y"})),
            reshards=(
                Reshard(operand="w", before=(("x",), ()), after=((), ("x",)), free=True),
                Reshard(
                    operand="x",
                    before=(("x",), ()),
                    after=((), ()),
                    origins=(BY_ARGUMENT,),
                    against=(BY_LINE, BY_LINE.model_copy(update={"axis": "y"})),
                ),
            ),
        ),
        Step(operation="add", shape=(16,), dtype="f32", spec=None, manual=("x", "y"), bytes=512),
        Step(name="z", operation="neg", shape=(2,), dtype="s32", spec=((),), manual=("x",)),
    )


def doors(printed: Callable[..., list[Line]]) -> Iterator[tuple[str, Callable]]:
    """Name and rendering of each."""
    for run, changes in CHANGES.items():
        for form in ("text", "md"):
            yield f"seldom-{form}/{run}", partial(_changed, printed, run, changes, form)
        yield f"seldom-screen/{run}", partial(_changed, printed, run, changes, "screen")
    yield "seldom-text/shardings", _shardings
    for form in ("text", "md", "json"):
        yield f"seldom-{form}/versions", partial(_versions, printed, form)
    yield "seldom-screen/versions", partial(_versions, printed, "screen")


def _changed(
    printed: Callable[..., list[Line]], run: str, changes: Mapping[str, Any], form: str
) -> list[Line]:
    """A stored result with what seldom happens, in one form."""
    with apart() as lab:
        facts = lab.facts(run)
        assert facts is not None
        strategies = {
            name: StrategyResult.model_validate(
                {**each.model_dump(exclude={"status"}), "status": each.status}
                | changes.get(name, {})
            )
            for name, each in facts.strategies.items()
        }
        new = facts.model_copy(update={"run": f"{run[:-6]}bbbbbb", "strategies": strategies})
        with mock.patch("time.time", lambda: STORED_S):
            store(lab.folder, new)
        if form != "screen":
            word = ("history", "--run") if form == "text" else ("report",)
            return printed(form, *word, new.run, *(("--format", form) if form == "md" else ()))
        query = {"experiment": link.encode(new.experiment), "run": new.run}
        page = screen_of(new.experiment)
        tabs = ({}, {"tab": "Details", "detail": "Values"}, {"tab": "Details", "detail": "Samples"})
        return [line for tab in tabs for line in screens.lines_of(page, query | tab)]


def _versions(printed: Callable[..., list[Line]], form: str) -> list[Line]:
    """A program beside one with other specs, and beside another program."""
    with apart() as lab:
        facts = lab.facts(EXPORTED)
        assert facts is not None
        specs = {"params/*": [None, "fsdp"], "*/bias": [], "batch": [["fsdp", "tensor"]]}
        outcome = facts.strategies["auto"]
        memory = outcome.memory_bytes and outcome.memory_bytes.model_copy(update={"peak": 2**30})
        new = facts.model_copy(
            update={
                "run": f"{EXPORTED[:-6]}cccccc",
                "experiment": facts.experiment.vary(specs=specs),
                "strategies": {
                    "auto": outcome.model_copy(
                        update={"collectives": outcome.collectives[:3], "memory_bytes": memory}
                    )
                },
            }
        )
        with mock.patch("time.time", lambda: STORED_S):
            store(lab.folder, new)
        beside = (EXPORTED, new.run, "20261124-180459-f83c04")
        if form == "screen":
            query = {"experiment": link.encode(new.experiment), "run": new.run}
            return [
                *screens.lines_of("history", {"runs": ",".join(beside)}),
                *screens.lines_of(screen_of(new.experiment), query),
            ]
        return printed(form, "compare", *beside, "--format", form)


def _shardings() -> list[Line]:
    with apart() as lab:
        facts = lab.facts(MEASURED)
    assert facts is not None
    known = Shardings(steps=_steps(), left_out=3)
    outcomes = {
        name: each.model_copy(update={"shardings": known if name == "auto" else None})
        for name, each in facts.strategies.items()
    }
    lines = list(shardings_report(facts.model_copy(update={"strategies": outcomes})))
    code = {"step.py:7": "seven", "step.py:9": "nine", "step.py:10": "ten", "step.py:11": "eleven"}
    return [
        *of_terminal("\n".join(lines)),
        *([*chip] for step in known.steps for chip in texts.chips(step)),
        *([*place] for step in known.steps for place in texts.path_lines(step, code)),
        [texts.left_steps(known.left_out)],
    ]

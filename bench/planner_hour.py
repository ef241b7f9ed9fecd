"""Memory of the Streamlit process after an hour of a planner's day, without the pauses: searches of
25,000 candidates, predictions and sweeps by the estimate, and some that are compiled.

    python -m bench.planner_hour [--searches 10] [--ended 2] [--predictions 12] [--compiles 4]

One viewer over the websocket, in one session, as in one tab. The first `--ended` searches go on to
their end, with what they compile; the others are cancelled once their estimates are ranked. After
each search the viewer opens `--predictions` plans of its model, and sweeps each third of them.
"""

import argparse
import asyncio
import itertools
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from bench.dashboard import Drawn, Viewer, busy, dashboard, estimated, memory_mb, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from spmd_core.experiment import encode, experiment_of
from spmd_core.search import ModelQuestion, link, read_question
from spmd_core.workloads import parse_plan

LIMIT_MB, OF_SEARCHES_MB = 400.0, 200.0
MODELS = ("llama-2-7b", "llama-3.1-8b", "llama-2-13b", "llama-2-70b", "llama-3.1-70b")
CHIPS, BATCH = ("v5p:64", "v6e:64"), 512
MESHES = ((("fsdp", 64),), (("fsdp", 16), ("tensor", 4)), (("data", 4), ("fsdp", 16)))


def questions(count: int) -> Iterator[ModelQuestion]:
    """Questions of some 25,000 candidates each, all different."""
    each = itertools.product((2048, 4096, 1024, 8192), CHIPS, MODELS)
    for sequence, chips, model in itertools.islice(each, count):
        yield read_question(
            {"model": model, "chips": [chips], "global_batch": BATCH, "sequence": sequence}
        )


def plans(question: ModelQuestion, count: int) -> Iterator[dict[str, Any]]:
    """Plans of a question's model, as a planner varies them by hand."""
    targets = ("tpu:v5p:4x4x4", "tpu:v6e:8x8")
    each = itertools.product((1, 2, 4, 8), ("full", "minimal"), MESHES, targets)
    for batch, remat, mesh, target in itertools.islice(each, count):
        yield {
            "target": target,
            "model": question.model,
            "mesh": mesh,
            "sequence": question.sequence,
            "batch_per_device": batch,
            "remat": remat,
        }


async def press(session: Viewer, page: str, query: str, button: str) -> None:
    """Open a link and press the button of that label, where there is one."""
    drawn = await session.open(page, query)
    if button in drawn.buttons:
        drawn = await session.open(page, query, press=drawn.buttons[button])
    _check(page, drawn)


async def until_over(session: Viewer, server: Server, page: str, cancel: bool = False) -> None:
    """Look as the screen's timers do until nothing is at work; with `cancel` only until a search has
    its estimates, and cancel it then.
    """
    while busy(server.folder / "data"):
        drawn = await session.look()
        _check(page, drawn)
        if cancel and estimated(server.folder / "data") and "Cancel" in drawn.buttons:
            await session.look(press=drawn.buttons["Cancel"])
            cancel = False
        await asyncio.sleep(0.5)


def _check(page: str, drawn: Drawn) -> None:
    if drawn.exceptions:
        raise SystemExit(f"{page} shows {drawn.exceptions[0]}")


async def play(server: Server, options: argparse.Namespace) -> dict[str, float]:
    """The hour: MB of the server at its marks."""
    assert server.process is not None
    pid, marks, compiled = server.process.pid, {}, 0
    async with viewer(server, "", "") as session:
        await session.rerun()
        marks["before"] = memory_mb(pid)
        asked = list(questions(options.searches))
        for number, question in enumerate(asked):
            code = urlencode({"search": link.encode(question)})
            await press(session, "search", code, "Search")
            await until_over(session, server, "search", cancel=number >= options.ended)
            _check("search", await session.open("search", code))
            print(f"{question.model} {question.chips[0]}: {memory_mb(pid):.0f} MB", flush=True)
        marks["after searches"] = memory_mb(pid)
        for question in asked:
            for number, plan in enumerate(plans(question, options.predictions)):
                code = encode(experiment_of(parse_plan(plan)))
                await press(session, "predict", urlencode({"experiment": code}), "")
                if number % 3 == 0:
                    view = {"experiment": code, "sweep": "chips", "scaling": "weak"}
                    await press(session, "predict", urlencode(view), "")
            if compiled < options.compiles:
                compiled += 1
                await press(session, "predict", urlencode({"experiment": code}), "Compile")
                await until_over(session, server, "predict")
            print(f"{question.model}, predicted: {memory_mb(pid):.0f} MB", flush=True)
        marks["after predictions"] = memory_mb(pid)
    return marks


def main(options: Asked, figures: Figures) -> None:
    with dashboard([]) as (server, _):
        marks = asyncio.run(play(server, options))
    note = ", ".join(f"{mb:.0f} MB {when}" for when, mb in marks.items())
    grown = marks["after searches"] - marks["before"]
    figures.add(f"kept of {options.searches} searches", grown, "MB", most=OF_SEARCHES_MB, note=note)
    figures.add("the Streamlit process after an hour", max(marks.values()), "MB", most=LIMIT_MB)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        searches=10,
        ended=(2, "searches that go on to their end"),
        predictions=(12, "of each search's model"),
        compiles=4,
    )

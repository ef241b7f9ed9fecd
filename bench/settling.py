"""How often a screen's script runs before it settles: whatever link it is opened with, and whatever
screen was open before; and that nothing is computed by it.

    python -m bench.settling [--part 1/1] [--json]

A running dashboard over its websocket. Each link is opened on each screen, its words typed into the
fields that it fills, and from there a screen by the menu, another for each, all in one session: each
two of screen, link and next screen meet. Timers go on as in a browser: what they redraw counts too.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from bench.dashboard import LAYER, MOST_RUNS, Drawn, Viewer, Visits, computed, dashboard, viewer
from bench.figures import Asked, Figures, measure, of_part
from bench.hostile_links import QUESTIONS, SCREENS, code_of
from bench.server import Server
from spmd_core.experiment import encode, parse_experiment
from spmd_core.workloads import DEFAULT_SPEC

MENU = ("", *SCREENS, "search", "recipes", "history", "notebook")
_CHIPS = {"workload": "layer", "mesh": {"x": 8}, "target": "tpu:v5e:2x4", "sharding": {"in": "x"}}
# a link of each screen; on the others it lies on the wrong one
SPECS: tuple[dict[str, Any], ...] = (
    {"workload": "array", "mesh": {"x": 8}, "dims": {"d0": 16}, "sharding": {"d0": "x"}},
    LAYER,
    {"workload": "program", "mesh": {"x": 4}, "options": {"program": "linear_gradient"}},
    {"study": [{"experiment": LAYER}, {"experiment": LAYER | {"mesh": {"x": 4}}}]},
    _CHIPS,
    DEFAULT_SPEC,
    {"workload": "collectives", "mesh": {"x": 8}},
    {"workload": "calibrate", "mesh": {"x": 8}},
)
VIEWS = (
    {"tab": "Machine"},
    {"tab": "nowhere", "strategy": "auto", "text": "hlo", "view": "x", "show": "sweep"},
    {"sweep": "chips", "scaling": "strong"},
    {"sweep": "batch:1,2", "with": "auto", "price": "x", "at": "0"},
    {"measured": "nan", "tokens": "inf", "price": "nan", "at": "nan"},
    {"measured": "1e-9", "tokens": "-1", "with": "0.5"},
)
# words where a screen filters by them, and names of widgets of other screens
WORDS: tuple[dict[str, str], ...] = (
    {"search": "psum"},
    {"search": "psum", "workload": "layer", "state": "succeeded", "part": "Basics"},
    dict.fromkeys(("run", "place", "measure", "predict", "release", "remedies", "ask"), "true"),
)


def queries(run: str) -> Iterator[dict[str, str]]:
    """What links say: experiments, valid and broken, with a run or a view; questions; words."""
    codes = [encode(parse_experiment(spec)) for spec in SPECS]
    yield {}
    yield {"run": run}
    yield {"run": "20200101-000000-abcdef"}
    yield {"collection": "c-absent", "edit": "true", "runs": run, "open": run}
    for code in codes:
        yield {"experiment": code}
    for view in VIEWS:
        yield {"experiment": codes[1], "run": run} | view
        yield {"experiment": codes[5]} | view
    yield {"experiment": codes[1][:-9], "run": "a b"}
    yield {"experiment": code_of({"workload": "layer", "mesh": {"x": 16}, "target": "cpu:8"})}
    yield {"experiment": code_of({"workload": "layer", "mesh": {"x": 8}, "dims": {"in": 30}})}
    for question in QUESTIONS:
        yield {"search": code_of(question)}
    yield from WORDS


async def visit(server: Server, run: str, count: Visits, part: str) -> None:
    """Open each link on each screen, and from there a screen by the menu; of all of these a part."""
    opened = itertools.product(enumerate(MENU), enumerate(queries(run)))
    left = of_part(
        [(screen, query, MENU[(at + to) % len(MENU)]) for (at, screen), (to, query) in opened], part
    )
    while left:  # anew after one that ran for ever: its session is of no more use
        async with viewer(server, "", "") as session:
            while left and await _visited(session, *left.pop(0), count):
                pass


async def _visited(
    session: Viewer, screen: str, query: dict[str, str], then: str, count: Visits
) -> bool:
    """Open a link, type what it says into the fields that it fills, and go to a screen by the menu;
    whether each came to an end.
    """
    words, code = f"{screen or 'overview'} {str(query)[:90]}", urlencode(query)
    drawn = whole(words, await session.open(screen, code))
    if not await count.settled(session, drawn, words):
        return False
    typed = {widget: query[name] for name, widget in drawn.fields.items() if name in query}
    if typed:
        drawn = whole(words, await session.open(screen, code, typed=typed))
        if not await count.settled(session, drawn, f"{words}, typed"):
            return False
    words = f"{words}, then {then or 'overview'} by the menu"
    return await count.settled(session, whole(words, await session.open(then, "")), words)


def whole(words: str, drawn: Drawn) -> Drawn:
    """What was drawn, without an exception."""
    if drawn.exceptions:
        raise SystemExit(f"{words}: {drawn.exceptions[0]}")
    return drawn


def main(options: Asked, figures: Figures) -> None:
    count = Visits()
    logging.disable(logging.CRITICAL)
    with dashboard([LAYER]) as (server, (run,)):
        asyncio.run(visit(server, run, count, options.part))
        runs, searches = computed(server.folder / "data")
    for words, times in count.long.most_common(20):
        print(f"{times:5}  {words}")
    note = f"of {count.count} visits"
    figures.add("script runs of one visit", count.most, most=MOST_RUNS, note=note)
    figures.add("visits of more script runs", count.long.total(), most=0, note=note)
    figures.add("runs stored by visits", runs - 1, most=0)
    # Search answers its first question, by estimates alone, for who comes without a link
    figures.add("searches stored by visits", searches, most=1)


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "of the visits, for example 3/20"))

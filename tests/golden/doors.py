"""What the goldens render of the stored runs: commands, documents and screens, by name."""

import contextlib
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from spmd_core.__main__ import main as command
from spmd_core.experiment import link, parse_experiment, screen_of
from spmd_core.lab import Lab
from spmd_core.machine import read_hardware
from spmd_core.search import AnyQuestion, link as search_link
from spmd_core.trials import searches
from tests.golden import (
    asked,
    boxes,
    by_rule,
    edited,
    kept,
    progress,
    rare,
    screens,
    seldom,
    sentences,
    states,
    unseen,
)
from tests.golden.folder import opened
from tests.golden.runs import SPECS
from tests.golden.values import READERS, Line, of_terminal

Door = Callable[[], list[Line]]
_MACHINE = {"memory_bytes": 2**30, "available_bytes": 2**30, "accelerator": None}
_SEARCHED = 4  # runs of searches
_ENOUGH = 3  # runs of one kind whose samples are written as CSV
# tabs of a screen, beside the one that opens
_TABS = {
    "compare": ("Why", "Fix it", "From which size", "Program", "Details"),
    "predict": ("Arrows", "Memory", "Beside", "Programs"),
}
_SERVED = (
    ("--model", "qwen3-32b", "--chips", "v6e:8", "--ttft", "2s"),
    ("--model", "llama-3.1-70b", "--chips", "h100:8", "--tpot", "40ms"),
)
_SPENT = re.compile(r'(?<="spent_s": )[\d.e-]+|(?<=, in )\d[\d.]* m?s\b')  # of a search


def printed(form: str, *words: str) -> list[Line]:
    """The standard output of a command in one form; where it refuses, the sentence."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command(list(words))
        except SystemExit as ended:  # of help
            code = ended.code
    texts = [_text(stream) for stream in (out, err)]
    lines = READERS[form](texts[0]) if texts[0].strip() else []
    return [*lines, *([["code", str(code)]] if code else []), *of_terminal(texts[1])]


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return _SPENT.sub("0", stream.read())


def doors(lab: Lab) -> Iterator[tuple[str, Door]]:
    """Name and rendering of each, in order. A name begins with the kind of its renderer."""
    searched = lab.history(limit=1000, over=True, searched=True)[:_SEARCHED]
    runs = [*lab.history(limit=1000, over=True, searched=False)[::-1], *searched]
    yield from _of_runs(runs)
    for number, spec in enumerate(SPECS["refused"]):
        yield f"refused/{number} {spec['workload']}", partial(_refused, spec)
    yield from _of_experiments(runs)
    yield from _of_several([each.run for each in runs if each.state == "succeeded"])
    yield from _of_searches(lab)
    for form in ("text", "json"):
        yield f"history/{form}", partial(printed, form, "history", "--searches", *_json(form))
    yield from _of_views(runs)
    for words in _SERVED:
        yield from _both(f"serve/{words}", "serve", *words)
    for line in asked.COMMANDS:
        yield from _both(f"asked/{line}", *line.split())
    yield from asked.views(runs)
    yield from states.doors(printed)
    yield from seldom.doors(printed)
    yield from edited.doors(printed, lab)
    yield from progress.doors(printed, lab)
    yield from rare.doors(lab)
    yield from kept.doors(printed, runs)
    yield from sentences.doors(printed, lab)
    yield from by_rule.doors(lab, runs)
    yield from boxes.doors(lab, runs)
    yield from unseen.doors(printed, lab, runs)
    yield "screen/overview", partial(screens.lines_of, None, {})
    yield "screen/history", partial(screens.lines_of, "history", {})
    yield "screen/notebook", partial(screens.lines_of, "notebook", {})
    yield "screen/recipes", partial(screens.lines_of, "recipes", {})
    for name, door in _both(f"asked/program {asked.PROGRAM}", "program", asked.PROGRAM):
        yield name, partial(_without_keeping, lab, door)


def _without_keeping(lab: Lab, door: Door) -> list[Line]:
    """What a door shows that holds a program, which no other door is to show: in any order."""
    held, lines = {each.program for each in lab.programs()}, door()
    for each in lab.programs():
        if each.program not in held:
            lab.delete_program(each.program)
    return lines


def _of_views(runs) -> Iterator[tuple[str, Door]]:
    """The tabs of the first run of some kinds, the sweeps of a plan, and two runs side by side."""
    firsts: dict[tuple[str, bool, bool], Any] = {}
    for each in (one for one in runs if one.state == "succeeded"):
        what, page = each.experiment, screen_of(each.experiment)
        if page in _TABS:
            firsts.setdefault((page, what.place.is_absent, bool(what.variants)), each)
    for (page, *_), each in firsts.items():
        query = {"experiment": link.encode(each.experiment), "run": each.run}
        for tab in _TABS[page]:
            name = f"screen/{each.run} {tab}"
            yield name, partial(screens.lines_of, page, query | {"tab": tab})
    plan = next(each.experiment for each in runs if each.experiment.plan)
    for sweep in ("chips=8,16,64", "batch-per-device=1,2,4,64"):
        asked = {"experiment": link.encode(plan), "show": "sweep", "sweep": sweep}
        yield f"screen/sweep {sweep}", partial(screens.lines_of, "predict", asked)
    pairs = [each.run for each in firsts.values()][:2]
    yield "screen/side by side", partial(screens.lines_of, "history", {"runs": ",".join(pairs)})


def _refused(spec: dict[str, Any]) -> list[Line]:
    """The sentence that refuses a run which needs more than a machine of a fixed size has."""
    with mock.patch.object(Lab, "hardware", lambda _: replace(read_hardware(), **_MACHINE)):
        return printed("text", "run", link.encode(parse_experiment(spec)))


def _json(form: str) -> tuple[str, ...]:
    return ("--json",) if form == "json" else ()


def _of_runs(runs) -> Iterator[tuple[str, Door]]:
    sampled: dict[str, int] = {}
    for each in runs:
        run, what = each.run, each.experiment.workload
        name = f"{run} {what} {each.experiment.target}"
        sampled[what] = sampled.get(what, 0) + 1
        for form in ("text", "json"):
            yield (
                f"run-{form}/{name}",
                partial(printed, form, "history", "--run", run, *_json(form)),
            )
        if sampled[what] <= _ENOUGH:
            yield f"run-csv/{name}", partial(printed, "csv", "history", "--run", run, "--csv")
        for form in ("md", "html"):
            yield f"run-{form}/{name}", partial(printed, form, "report", run, "--format", form)
        query = {"experiment": link.encode(each.experiment), "run": run}
        yield f"screen/{name}", partial(screens.lines_of, screen_of(each.experiment), query)


def _of_experiments(runs) -> Iterator[tuple[str, Door]]:
    """What is said of an experiment before it runs: estimates of plans, layouts of arrays."""
    for experiment in dict.fromkeys(each.experiment for each in runs):
        name, word = f"{experiment.workload} {experiment.target} {experiment.id[:8]}", ""
        if experiment.variants:
            continue
        word = link.encode(experiment)
        if experiment.plan:
            yield from _both(
                f"estimate/{name}", "predict", word, "--estimate", "--price-per-chip-hour", "1.2"
            )
            for sweep in ("chips=8,16,64", "batch-per-device=1,2,4,64"):
                yield from _both(
                    f"sweep/{name} {sweep}", "predict", word, "--estimate", "--sweep", sweep
                )
        if experiment.dims and not experiment.plan:
            yield from _both(f"layout/{name}", "layout", word)


def _both(name: str, *words: str) -> Iterator[tuple[str, Door]]:
    yield f"{name} text", partial(printed, "text", *words)
    yield f"{name} json", partial(printed, "json", *words, "--json")


def _of_several(runs: list[str]) -> Iterator[tuple[str, Door]]:
    """Comparisons of neighbors and of eight."""
    groups = [runs[at : at + 2] for at in range(0, len(runs) - 1, 3)]
    groups += [runs[at : at + 8] for at in range(0, len(runs) - 7, 20)]
    for number, group in enumerate(groups):
        name = f"{group[0]} and {len(group) - 1}"
        for form in ("text", "md", "csv"):
            yield (
                f"compare-{form}/{name}",
                partial(printed, form, "compare", *group, "--format", form),
            )
        yield f"compare-json/{name}", partial(printed, "json", "compare", *group, "--json")
        if number % 4 == 0:
            yield (
                f"compare-html/{name}",
                partial(printed, "html", "report", *group, "--format", "html"),
            )


def _of_searches(lab: Lab) -> Iterator[tuple[str, Door]]:
    kept, beside = lab.searches.listed()[::-1], lab.folder.parent
    drawn: dict[tuple[str, str], AnyQuestion] = {}
    for each in kept:
        for form in ("md", "html"):
            yield (
                f"search-{form}/{each.id}",
                partial(printed, form, "report", each.id, "--format", form),
            )
        stored = searches.stored(lab).find(each.search)
        if stored is not None:
            question = search_link.question_of(stored.question)
            # a search anew takes seconds: one of each kind and goal
            if drawn.setdefault((question.kind, question.minimize), question) is question:
                yield f"screen-search/{each.id}", partial(_search_screen, beside, question)
    for words in (*SPECS["commands"]["searches"], *map(str.split, asked.SEARCHES)):
        if words[1] == "--model":
            again = [*words, *(() if "--no-compile" in words else ("--no-compile",))]
            yield f"search-text/{words}", partial(_searched, beside, "text", *again, "--axis-rules")
            yield f"search-json/{words}", partial(_searched, beside, "json", *again, "--json")
    ids = [each.id for each in kept]
    if len(ids) > 1:
        for form in ("text", "md", "csv"):
            yield f"searches-{form}", partial(printed, form, "compare", *ids[:8], "--format", form)
        yield "searches-json", partial(printed, "json", "compare", *ids[:8], "--json")


def _searched(beside: Path, form: str, *words: str) -> list[Line]:
    """What a search prints, in a folder of its own: it stores that it was opened."""
    with opened(_folder(beside)):
        return [line for line in printed(form, *words) if line[0] != ".seconds"]


def _folder(beside: Path) -> Path:
    """A new folder, which stays: a search that is over is still being stored."""
    return Path(tempfile.mkdtemp(dir=beside)) / "data"


def _search_screen(beside: Path, question: AnyQuestion) -> list[Line]:
    """The screen of a stored search, in a folder of its own."""
    with opened(_folder(beside)) as lab:
        search = searches.start(lab, question, None)
        while not search.is_over:
            time.sleep(0.01)
        return screens.lines_of("search", {"search": search_link.encode(question)})

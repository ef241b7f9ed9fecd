"""Doors to what people keep: collections, answers of serving, names and notes; to predictions that are
stored; and to the help of commands. What is kept is kept in a folder of its own.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from spmd_core.answers import compiled_table, serving_headline, serving_table, why_not_served
from spmd_core.commands import predict
from spmd_core.experiment import link
from spmd_core.lab import collections as of_lab
from spmd_core.runs import collection
from spmd_core.search import CompiledDecode, read_serving, serve, with_compiled
from tests.golden import screens
from tests.golden.folder import apart
from tests.golden.seldom import STORED_S
from tests.golden.values import Line

RUNS = ("20261124-173534-6893dc", "20261124-173534-6893dc", "20261124-173657-9126a7")
MORE = ("20261124-173703-9ed8b8", "20261124-175232-f752c7", "20261124-173557-dd7509")
SWEPT = "20261124-175252-1cd9d9"  # of three sizes of a target that are stored
PAGE = "c-20260101-00000001"
TEXT = "## Two ways\nThe first **waits** for `x`.\n- less of it\n- more of it"
# commands that make a page, one after another
WRITTEN = (
    ("collection", "new", "Rings and sums", *RUNS[1:]),
    ("collection", "add", PAGE, "--text", TEXT),
    ("collection", "add", PAGE, *MORE),
    ("collection", "add", PAGE, "--search", "04b9b73e836c3768"),
    ("collection", "add", PAGE, "--search", "764eefab73175025"),
    ("name", RUNS[0], "By rows"),
    ("note", RUNS[0], "It **waits** for nothing."),
    ("tag", RUNS[0], "rows", "second", "--pin"),
)
# what is said of it, in each form
READ = (
    ("text", ("collection", "list")),
    ("json", ("collection", "list", "--json")),
    ("text", ("collection", "show", PAGE)),
    ("json", ("collection", "show", PAGE, "--json")),
    ("md", ("report", PAGE, "--format", "md")),
    ("html", ("report", PAGE, "--format", "html")),
    ("text", ("history", "--text", "tag:rows")),
    ("text", ("collection", "remove", PAGE, "no-such-part")),
)
SERVED = (
    ("serve", "--model", "qwen3-8b", "--chips", "v6e:4", "--ttft", "2s", "--keep"),
    (
        *("serve", "--model", "qwen3-8b", "--chips", "v6e:4,h100:4"),
        *("--rate", "2", "--input", "512..2048", "--keep"),
    ),
)
HELPED = ("predict", "serve", "search", "history", "run", "collection", "layout", "program")


def doors(printed: Callable[..., list[Line]], runs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Name and rendering of each."""
    for form in ("text", "json", "md", "html"):
        yield f"kept-{form}/collection", partial(_collected, printed, form)
    for form in ("text", "md", "screen"):
        yield f"kept-{form}/served", partial(_served, printed, form)
    for query in ({}, {"collection": PAGE}, {"collection": PAGE, "edit": "true"}):
        yield f"kept-screen/notebook {query}", partial(_collected, printed, "screen", query)
    absent = [
        each for each in runs if each.experiment.place.is_absent and not each.experiment.variants
    ]
    for each in absent:
        what = each.experiment
        if (
            each.state == "succeeded"
            and not what.what.is_of_machine
            and (what.plan or len(what.strategies) == 1)
        ):
            words = ("predict", link.encode(what), "--price-per-chip-hour", "1.2")
            yield f"predicted-text/{each.run}", partial(_stored, printed, "text", *words)
            yield f"predicted-json/{each.run}", partial(_stored, printed, "json", *words, "--json")
    swept = link.encode(next(each.experiment for each in runs if each.run == SWEPT))
    for form, more in (("text", ()), ("json", ("--json",))):
        words = ("predict", swept, "--sweep", "chips=4,8,16", *more)
        yield f"predicted-{form}/sweep", partial(printed, form, *words)
    yield "kept-text/decoded", _decoded
    for name in HELPED:
        yield f"help/{name}", partial(_help, printed, name)


def _collected(
    printed: Callable[..., list[Line]], form: str, query: dict[str, str] | None = None
) -> list[Line]:
    """A page that commands make, as commands or the notebook show it."""
    counted = itertools.count(1)
    of_tokens = SimpleNamespace(token_hex=lambda size: f"{next(counted):0{2 * size}x}")
    clock = SimpleNamespace(strftime=lambda _: "20260101", time=lambda: STORED_S)
    with (
        apart(),
        mock.patch.object(collection, "secrets", of_tokens),
        mock.patch.object(of_lab, "secrets", of_tokens),
        mock.patch.object(of_lab, "time", clock),
    ):
        with mock.patch("time.time", lambda: STORED_S):
            written = [line for words in WRITTEN for line in printed("text", *words)]
            asked = [line for of, words in READ if of == form for line in printed(of, *words)]
        if form == "screen":
            return screens.lines_of("notebook", query or {})
        return [*(written if form == "text" else []), *asked]


def _served(printed: Callable[..., list[Line]], form: str) -> list[Line]:
    """Answers of serving that are kept, as commands or History show them."""
    with apart() as lab:
        before = {each.id for each in lab.searches.listed()}
        with mock.patch("time.time", lambda: STORED_S):
            lines = [line for words in SERVED for line in printed("text", *words)]
        kept = [each.id for each in lab.searches.listed() if each.id not in before][::-1]
        if form == "screen":
            asked = (",".join(kept), kept[0])
            return [
                line for ids in asked for line in screens.lines_of("history", {"searches": ids})
            ]
        if form == "text":
            return lines + printed(form, "compare", *kept)
        return [line for id in kept for line in printed(form, "report", id, "--format", form)]


def _decoded() -> list[Line]:
    """What is said of decode steps that are compiled: in time, late, or too large."""
    question = {"model": "qwen3-8b", "chips": "v6e:4,h100:4", "tpot": "20ms"}
    answer = serve(read_serving(question))
    plans = [row.plan for row in answer.rows if row.served][:4]
    steps = {
        plan: CompiledDecode(seconds, 1e-2, 9 * 2**30 + at, seconds < 1)
        for at, (plan, seconds) in enumerate(zip(plans, (8e-3, 2e-2, 3e-2, 5.0), strict=True))
    }
    known = with_compiled(answer, steps)
    return [
        [serving_headline(known)],
        *([cell.text for cell in row] for row in compiled_table(known).rows),
        *([each] for each in why_not_served(known)),
        *([cell.text for cell in row] for row in serving_table(known, 9).rows),
    ]


def _stored(printed: Callable[..., list[Line]], form: str, *words: str) -> list[Line]:
    """A prediction as it is stored: one of other versions is compiled again elsewhere."""
    with mock.patch.object(predict, "is_current", lambda _: True):
        return printed(form, *words)


def _help(printed: Callable[..., list[Line]], name: str) -> list[Line]:
    """What a command says of itself, on a terminal of one width."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        return printed("text", name, "--help")

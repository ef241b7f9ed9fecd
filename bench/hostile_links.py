"""Mutated links and valid experiments on every screen: no traceback, no page error, nothing
computed, and no visit of more script runs than it should have.

Links go to a running dashboard over its websocket as a browser sends them (the query string, one
session after another; after each, a screen by the menu), through the commands in one process, and
some through processes of their own. `--part` does one part of all of these.

    python -m bench.hostile_links [--page 10000] [--commands 10000] [--processes 300] [--part 1/1]
"""

import asyncio
import base64
import contextlib
import io
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.dashboard import MOST_RUNS, Drawn, Viewer, Visits, computed, dashboard, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from spmd_core.experiment import encode, parse_experiment
from spmd_core.recipes import RECIPES
from spmd_core.workloads import DEFAULT_SPEC, WORKLOADS, programs

ROOT = Path(__file__).resolve().parents[1]
SCREENS = ("layout", "compare", "predict", "collectives", "programs")
OTHERS = ("", "history", "recipes", "notebook")  # show no experiment of a link
MENU = (*SCREENS, *OTHERS, "search")
QUESTIONS: tuple[dict[str, Any], ...] = (  # as the Search screen has them in its links
    {
        "kind": "model",
        "model": "llama-3.1-70b",
        "chips": ["v5p:64"],
        "global_batch": 512,
        "sequence": 8192,
        "fixed": {"fsdp": 16},
        "remat": ["full"],
        "memory_bytes": 2**34,
    },
    {
        "kind": "model",
        "model": "scaled:1",
        "chips": ["v5e:16", "v6e:8"],
        "batch_per_device": 2,
        "minimize": "price",
        "price": {"v5e": 1.2, "v6e": 2.7},
        "plan": {"tied": True},
    },
    {
        "kind": "array",
        "spec": {"workload": "layer", "dtype": "bfloat16"},
        "targets": ["cpu:8"],
        "searched": ["mesh", "sharding"],
        "devices": 8,
    },
    {
        "kind": "array",
        "spec": {"workload": "contraction", "mesh": {"x": 2, "y": 4}},
        "targets": ["tpu:v5e:2x4"],
        "searched": ["overrides"],
        "minimize": "memory",
    },
)
COMMANDS = ("layout", "script", "link", "history")
VISITORS = 4  # at once
LINKS_A_SESSION = 20  # what one link leaves in a session must not break the next
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    3,
    7,
    2**31,
    2**70,
    1.5,
    1e308,
    "",
    "x",
    "y",
    "batch",
    "__class__",
    "=1+1",
    "a" * 70,
    "x\ny",
    "\x00",
    "😀",
    "${7*7}",
    "<b>",
    "`",
    "../x",
    "nan",
    [],
    [[]],
    ["x"],
    ["x", "x"],
    {},
    {"x": 8},
    {"x": {"y": 1}},
    [["x", 2], ["x", 4]],
    {"d0": 8},
    "local",
    "cpu:0",
    "cpu:4",
    "cpu:999",
    "cpu:256",
    "tpu:v5e:2x2",
    "tpu:v9z:2x2",
    "tpu:v5e:4x5",
    "tpu:v5p:2x2x1*2",
    "tpu:v5p:99999x99999",
    "decoder",
    "array",
    "program",
    "program_file",
    "0" * 64,
    "train_step",
    "transfer",
    "layer",
    "5,\n0",
    "by position",
    "bfloat16",
    "float64",
    "arange",
    "pinned_host",
    "highest",
    "vmap",
    "place",
    "xla_dump_to=/tmp/x",
    "xla_tpu_scoped_vmem_limit_kib=1",
    "--xla_enable_async_all_gather=false",
)


def specs() -> list[dict[str, Any]]:
    """Valid experiments of every workload and recipe, on simulated devices and on absent TPUs."""
    found = [dict(recipe.spec) for recipe in RECIPES.values()] + [dict(DEFAULT_SPEC)]
    for name in WORKLOADS:
        for target, mesh in (
            ("cpu:8", {"x": 2, "y": 4}),
            ("cpu:8", {"x": 16}),
            ("local", {"x": 4}),
            ("tpu:v5e:2x4", {"x": 8}),
            ("tpu:v5e:4x5", {"x": 20}),
            ("tpu:v9z:2x2", {"x": 4}),
        ):
            found.append({"workload": name, "target": target, "mesh": mesh})
    for program in sorted(
        {spec["options"]["program"] for spec in found if spec.get("options", {}).get("program")}
    ):
        found.append(
            {
                "workload": "program",
                "target": "tpu:v9z:2x2",
                "mesh": {"x": 4},
                "options": {"program": program},
            }
        )
    for each in programs.held():
        handed_in = {"workload": "program_file", "program": each.program, "mesh": each.mesh}
        found += [handed_in | {"target": target} for target in ("cpu:8", "tpu:v5e:2x4")]
        found += [handed_in | {"specs": {"**": ["x"]}, "dims": {"b": 32}}]
    return found


def hold_example(folder: Path) -> None:
    """Hold the example program in a data folder, which is this process's from then on."""
    os.environ |= {"SPMD_LAB_DATA": str(folder), "SPMD_LAB_TARGET": "cpu:8"}
    programs.take((ROOT / "spmd_core/recipes/example.jaxexport").read_bytes(), "Example")


def valid_codes() -> list[str]:
    """The codes of those that are experiments."""
    codes = []
    for spec in specs():
        with contextlib.suppress(ValueError):
            codes.append(encode(parse_experiment(spec)))
    return codes


def code_of(value: Any) -> str:
    """A code as a sender who means harm packs it: whatever the value."""
    text = json.dumps(value).encode()
    return "1." + base64.urlsafe_b64encode(zlib.compress(text, 9)).decode().rstrip("=")


def mutated(value: Any, dice: random.Random) -> Any:
    """A JSON value with one place changed: replaced, left out, doubled, or put elsewhere."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        kind = dice.randrange(6)
        if kind == 0:
            return {name: part for name, part in value.items() if name != key}
        if kind == 1:
            return value | {
                dice.choice(("x", "batch", "new", "options", "sharding")): dice.choice(JUNK)
            }
        if kind == 2:
            return value | {key: dice.choice(JUNK)}
        return value | {key: mutated(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.7:
        at = dice.randrange(len(value))
        part = dice.choice((value[at], mutated(value[at], dice), dice.choice(JUNK)))
        return [*value[:at], part, *value[at + dice.randrange(2) :]]
    if isinstance(value, int) and dice.random() < 0.5:
        return value + dice.choice((-1, 1, 3, 8, -value))
    return dice.choice(JUNK)


def hostile(count: int, seed: int) -> Iterator[str]:
    """Codes: a third valid ones, the others mutated in a place or more, or damaged on their way."""
    dice, pool, valid = random.Random(seed), specs(), valid_codes()
    for number in range(count):
        if number % 3 == 0:
            yield valid[number // 3 % len(valid)]
            continue
        spec: Any = dice.choice(pool)
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            spec = mutated(spec, dice)
        yield damaged(code_of(spec), dice)


def damaged(code: str, dice: random.Random) -> str:
    """One code in ten as if it were copied badly."""
    if dice.random() >= 0.1:
        return code
    at = dice.randrange(len(code))
    return code[:at] + dice.choice(("", "A", "%", "\x00", "é", code)) + code[at + 1 :]


def searched(dice: random.Random) -> dict[str, str]:
    """The query of a link to the Search screen: one of its questions, most of them mutated."""
    question: Any = dice.choice(QUESTIONS)
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        question = mutated(question, dice)
    return {"search": damaged(code_of(question), dice)}


def queries(count: int, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """(screen, query): a link on each screen in turn, at times with a run or a view as well, at
    times on Search.
    """
    dice, turn = random.Random(seed), 3 * len(valid_codes())
    for number, code in enumerate(hostile(count, seed)):
        query = {"experiment": code}
        if dice.random() < 0.2:
            query["run"] = dice.choice(("20200101-000000-abcdef", "x" * 80, "a b", "", "../../x"))
        if dice.random() < 0.1:
            query |= {
                "sweep": dice.choice(("chips", "batch:1,2", "x" * 600, "mesh:=1=2", "chips:0"))
            }
        if dice.random() < 0.05:
            query["collection"] = dice.choice(("c-absent", "c-" + "x" * 80, "a b", "../x", "\x00"))
        if dice.random() < 0.05:
            del query["experiment"]
        if dice.random() < 0.15:
            yield "search", searched(dice)
            continue
        # the step moves on with each turn through the valid ones: each of them meets each screen
        screen = SCREENS[(number // 3 + number // turn) % len(SCREENS)]
        yield dice.choice(OTHERS) if dice.random() < 0.05 else screen, query


class Dashboard:
    """Links on a running dashboard, over its websocket; the exceptions that it shows are counted."""

    def __init__(self, server: Server):
        self.seen: Counter[str] = Counter()
        self.shown = self.crashed = 0
        self.visits = Visits()
        self._server, self._dice = server, random.Random(0)

    async def visit(self, links: Iterator[tuple[str, dict[str, str]]]) -> None:
        """Open the links, session after session, until there are none left."""
        while some := list(islice(links, LINKS_A_SESSION)):
            async with viewer(self._server, "", "") as session:
                for screen, query in some:
                    if not await self._opened(session, screen, urlencode(query, errors="replace")):
                        break  # the session of before is not to blame for the next link's

    async def _opened(self, session: Viewer, screen: str, query: str) -> bool:
        self.shown += 1
        drawn = await session.open(screen, query)
        if not await self._held(session, drawn, screen, query):
            return False
        nearest = [
            each for label, each in drawn.buttons.items() if label.startswith("Use the nearest")
        ]
        if nearest:
            drawn = await session.open(screen, query, press=nearest[0])
            if not await self._held(session, drawn, f"{screen}, the nearest", query):
                return False
        then = self._dice.choice(MENU)
        drawn = await session.open(then, "")
        return await self._held(session, drawn, f"{screen}, then {then or 'overview'}", query)

    async def _held(self, session: Viewer, drawn: Drawn, words: str, query: str) -> bool:
        """Whether a visit ended, and its screen showed no exception."""
        if drawn.exceptions:
            self.crashed += 1
            lines = self._server.log.splitlines()  # the page itself tells no details
            self.seen[f"{words}: {lines[-1][:160] if lines else drawn.exceptions[0]}"] += 1
            return False
        return await self.visits.settled(session, drawn, f"{words}: {query[:90]}")


def over_websocket(links: Iterator[tuple[str, dict[str, str]]]) -> tuple[Dashboard, int]:
    """Send links to a dashboard of its own; what it showed, and what was computed there."""
    with dashboard([]) as (server, _):
        hold_example(server.folder / "data")
        opened = Dashboard(server)

        async def visitors() -> None:
            await asyncio.gather(*(opened.visit(links) for _ in range(VISITORS)))

        asyncio.run(visitors())
        runs, searches = computed(server.folder / "data")
        # Search answers its first question, by estimates alone, for who comes by the menu
        return opened, runs + max(0, searches - 1)


def through_commands(codes: Iterator[str]) -> Counter[str]:
    """Give links to the commands, in this process; what was not a result or a sentence."""
    from spmd_core.__main__ import main

    bad: Counter[str] = Counter()
    for number, code in enumerate(codes):
        words = [COMMANDS[(number + number // 10) % len(COMMANDS)], code]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(_Text(out)), contextlib.redirect_stderr(_Text(err)):
            try:
                status: Any = main(words)
            except BaseException as error:
                status = f"{type(error).__name__}: {str(error)[:100]}"
        if problem := _problem(status, out.getvalue(), err.getvalue()):
            bad[f"{words[0]}: {problem}"] += 1
    return bad


class _Text(io.TextIOBase):
    """A stream that can be reconfigured, as those of a process can."""

    def __init__(self, kept: io.StringIO):
        self._kept = kept

    def write(self, text: str) -> int:
        return self._kept.write(text)

    def reconfigure(self, **_: Any) -> None: ...


def _problem(status: Any, out: str, err: str) -> str | None:
    if status not in (0, 1, 2):
        return f"ended with {status}"
    if "Traceback" in err:
        return f"traceback: {err.strip().splitlines()[-1][:110]}"
    if status == 2 and (out or err.count("\n") != 1):
        return "a refusal that is not one line"
    return None


def through_processes(codes: Iterator[str]) -> Counter[str]:
    """The same in processes of their own."""
    bad: Counter[str] = Counter()
    for number, code in enumerate(codes):
        word = COMMANDS[number % len(COMMANDS)]
        told = subprocess.run(
            [sys.executable, "-m", "spmd_core", word, code.replace("\x00", "")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if problem := _problem(told.returncode, told.stdout, told.stderr):
            bad[f"{word}: {problem}"] += 1
    return bad


def main(options: Asked, figures: Figures) -> None:
    part, parts = map(int, options.part.split("/"))

    def of_part(each: Iterator[Any], count: int) -> Iterator[Any]:
        return islice(each, count * (part - 1) // parts, count * part // parts)

    logging.disable(logging.CRITICAL)  # each page error is counted and named below
    seed = options.seed
    page, stored = over_websocket(of_part(queries(options.page, seed), options.page))
    with tempfile.TemporaryDirectory(prefix="spmd-lab-links-") as folder:
        hold_example(Path(folder))
        codes = hostile(options.commands, seed + 1)
        with contextlib.chdir(folder):  # where a command that writes a file does no harm
            commands = through_commands(of_part(codes, options.commands))
        codes = hostile(options.processes, seed + 2)
        processes = through_processes(of_part(codes, options.processes))
        stored += sum(computed(Path(folder)))
    for cause, times in (page.seen + page.visits.long + commands + processes).most_common(20):
        print(f"{times:5}  {cause}")
    figures.add("page errors", page.crashed, f"of {page.shown} links", most=0)
    visits = f"of {page.visits.count} visits"
    figures.add("script runs of one visit", page.visits.most, most=MOST_RUNS, note=visits)
    figures.add("visits of more script runs", page.visits.long.total(), most=0, note=visits)
    for words, bad, most in (
        ("in one process", commands, options.commands),
        ("as processes", processes, options.processes),
    ):
        of = f"of {most // parts}"
        figures.add(f"not a result or a sentence, {words}", bad.total(), of, most=0)
    figures.add("runs and searches stored", stored, most=0)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        page=10_000,
        commands=10_000,
        processes=300,
        part=("1/1", "of all of these, for example 3/20"),
        seed=9,
    )

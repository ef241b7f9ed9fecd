"""Finds the chips, the mesh and the dtypes that serve a model, and prints the answer."""

import json
import math
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable

from spmd_core.answers import (
    PART_NAMES,
    serving_figures,
    serving_headline,
    serving_json,
    serving_loads_table,
    serving_table,
    sheet_lines,
    table,
    why_not_served,
)
from spmd_core.base import RequestError, refuse, shorten
from spmd_core.commands.config import CONFIG, config_from
from spmd_core.commands.predict_arguments import MODELS
from spmd_core.experiment import SERVED_AXES, SERVED_DTYPES, parse_mesh, served_dtype
from spmd_core.search import ServingAnswer, ServingQuestion, generations, read_prices, serve
from spmd_core.time import Lengths, ServingLoad

_DURATION = re.compile(r"([0-9.]{1,12})(us|ms|s|)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_LENGTHS = re.compile(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?")
_BAR, _ROWS = 40, 12


def main(arguments: Namespace) -> int:
    """Print the answer: 0 where a row keeps the limits, else 1."""
    answer = serve(_question(arguments))
    print(json.dumps(serving_json(answer)) if arguments.json else "\n".join(_lines(answer)))
    return 0 if answer.best else 1


def _taken(read: Callable[[str], object]) -> Callable[[str], object]:
    """A reader as `add_argument` takes it: what it refuses is a sentence of its own."""

    def reader(text: str) -> object:
        try:
            return read(text)
        except RequestError as error:
            raise ArgumentTypeError(str(error)) from None

    return reader


def read_duration(text: str) -> float:
    """Returns the seconds of `40ms` or `2s`; RequestError where it is no duration above 0."""
    match = _DURATION.fullmatch(text.strip().lower())
    try:
        value = float(match[1]) * _UNITS[match[2]] if match else math.nan
    except ValueError:
        value = math.nan
    if not value > 0:
        raise refuse(f"duration {shorten(text)}", "is not above 0", "write for example 40ms or 2s")
    return value


def read_lengths(text: str) -> Lengths:
    """Returns the lengths of `1024`, or of `512..2048`; RequestError for anything else."""
    match = _LENGTHS.fullmatch(text.strip())
    low = int(match[1]) if match else 0
    high = int(match[2]) if match and match[2] else low
    if not 0 < low <= high:
        rule = "is no number of tokens above 0"
        raise refuse(f"length {shorten(text)}", rule, "write for example 1024 or 512..2048")
    return Lengths(low, high)


def _dtypes(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(served_dtype, text.split(","))))


_LISTED = ", ".join(SERVED_DTYPES)
ARGUMENTS = {
    "--model": {"metavar": "NAME", "help": MODELS},
    **CONFIG,
    "--chips": {
        "metavar": "v6e:..16",
        "action": "append",
        "help": "a number of chips, or up to one: tpu7x:4, v6e:..16, h100:8; commas for several",
    },
    "--input": {
        "metavar": "N",
        "type": _taken(read_lengths),
        "default": Lengths(1024, 1024),
        "help": "tokens of a prompt, or a range 512..2048 (default 1024)",
    },
    "--output": {
        "metavar": "N",
        "type": _taken(read_lengths),
        "default": Lengths(1024, 1024),
        "help": "tokens that are made, or a range (default 1024)",
    },
    "--concurrency": {
        "metavar": "N",
        "type": int,
        "default": 64,
        "help": "requests at once; with --rate, at most (default 64)",
    },
    "--rate": {"metavar": "R", "type": float, "help": "requests a second that arrive by chance"},
    "--requests": {
        "metavar": "N",
        "type": int,
        "help": "requests in all (default: 3 of each place)",
    },
    "--ttft": {
        "metavar": "2s",
        "type": _taken(read_duration),
        "help": "the most that a first token takes, on average",
    },
    "--tpot": {
        "metavar": "40ms",
        "type": _taken(read_duration),
        "help": "the most that each further token takes, on average",
    },
    "--weights-dtype": {
        "metavar": "fp8",
        "type": _taken(_dtypes),
        "default": ("bf16",),
        "help": f"of {_LISTED}; commas try several (default bf16)",
    },
    "--kv-dtype": {
        "metavar": "fp8",
        "type": _taken(_dtypes),
        "default": ("bf16",),
        "help": f"of {_LISTED}; commas try several (default bf16)",
    },
    "--price": {"metavar": "v6e=2.7", "help": "dollars per chip-hour, by kind"},
    "--mesh": {
        "metavar": "data=4,tensor=2",
        "help": f"of a replica, in place of a search: {', '.join(SERVED_AXES)}",
    },
    "--chunk": {
        "metavar": "N",
        "type": int,
        "default": 2048,
        "help": "tokens of prompts in a step (default 2048)",
    },
    "--accepted": {
        "metavar": "A",
        "type": float,
        "default": 1.0,
        "help": "tokens of a request that a step makes, with speculation (default 1)",
    },
    "--seed": {"metavar": "N", "type": int, "default": 0, "help": "of lengths and arrivals"},
}


def _question(arguments: Namespace) -> ServingQuestion:
    model = arguments.model
    if arguments.config:
        model = config_from(arguments.config, model).size.name
    if not model or not arguments.chips:
        missing = "--model" if not model else "--chips"
        raise refuse(f"serve without {missing}", "is incomplete", "name a model, and chips")
    chips = tuple(word for each in arguments.chips for word in each.split(",") if word.strip())
    for name, value, least in (
        ("rate", arguments.rate, 0.0),
        ("accepted", arguments.accepted, 1.0),
    ):
        if value is not None and not max(least, 1e-6) <= value <= 1e6:
            raise refuse(f"{name}={value:g}", "is out of range", f"use at least {least or 0.001:g}")
    load = ServingLoad(
        arguments.input, arguments.output, arguments.concurrency, arguments.rate,
        arguments.requests, arguments.chunk, arguments.accepted, arguments.seed,
    )  # fmt: skip
    price = read_prices(arguments.price, generations(chips)) if arguments.price else ()
    mesh = parse_mesh(arguments.mesh) if arguments.mesh else None
    return ServingQuestion(
        model, chips, load, arguments.ttft, arguments.tpot, arguments.weights_dtype,
        arguments.kv_dtype, price, mesh,
    )  # fmt: skip


def _lines(answer: ServingAnswer) -> list[str]:
    lines, lead = [serving_headline(answer)], answer.best or answer.nearest
    if lead and lead.served:
        figures = [(each.title, each.value, each.more) for each in serving_figures(lead)]
        lines += ["", *table([("", "", ""), *figures])[1:]]
        parts, total = lead.served.step.parts, lead.served.step.seconds
        bars = [
            (PART_NAMES[name], f"{each / total:.0%}", "█" * max(1, round(_BAR * each / total)))
            for name, each in parts.items()
            if each > 0.005 * total
        ]
        lines += ["", *table([("A decode step", "Share", ""), *bars], numbers=(1,))]
    lines += ["", *sheet_lines(serving_table(answer, _ROWS))]
    if answer.by_load:
        lines += ["", *sheet_lines(serving_loads_table(answer))]
    if reasons := why_not_served(answer):
        lines += ["", "Why not another:", *(f"  {each}" for each in reasons)]
    return lines

"""The arguments of `python -m spmd_core predict`: flags that a table of fields draws, and `--config`, a
model from the file that describes it.
"""

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping

from spmd_core.base import RequestError, Settings, read_named, refuse, shorten
from spmd_core.commands import predict_sweep
from spmd_core.commands.numbers import number, refused
from spmd_core.commands.output import FORCE
from spmd_core.commands.remedies import HELP as REMEDIES
from spmd_core.commands.spec import HELP
from spmd_core.fields import Choice, Field, Integer, Switch, Words
from spmd_core.plan import (
    AXES_LINES,
    MAX_CONFIG_BYTES,
    PLAN_FIELDS,
    PRESETS,
    VARIABLE,
    Config,
    read_config,
)
from spmd_core.terms import read_price, read_prices_by_kind

_FIX = "name the config.json beside the weights, MaxText's yml, or - for standard input"


# in place of `--model`
CONFIG = {
    "--config": {
        "metavar": "FILE",
        "help": "in place of --model: a config.json as published with weights, MaxText's yml, or -",
    }
}


def config_from(word: str, model: str | None) -> Config:
    """The model of a file or of standard input; RequestError where there is none, or `model` too."""
    if model:
        raise refuse(
            f"--config beside --model {shorten(model)}", "names two models", "give one of them"
        )
    if word == "-":
        return read_config(sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1))
    return read_config(read_named("config", word, MAX_CONFIG_BYTES + 1, _FIX))


MODELS = f"scaled:16, {', '.join(PRESETS)}; a model beside these by --config"
MOST_TOKENS = 1e16  # of a training run
MOST_DAYS, MOST_BUDGET = 36_500.0, 1e12
_TOKENS = {"m": 1e6, "b": 1e9, "t": 1e12}
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
HELD = {name: row for name, row in PLAN_FIELDS.items() if not row.searched}  # of every candidate


def flags_of(fields: Mapping[str, Field]) -> dict[str, dict[str, object]]:
    """The arguments of the command line that set these fields, as `add_argument` takes them."""
    return {flag: words for row in fields.values() for flag, words in _flags(row).items()}


def _flags(row: Field) -> dict[str, dict[str, object]]:
    text = row.help or f"{row.label[0].lower()}{row.label[1:]}"
    if isinstance(row, Switch):
        return {row.flag: {"action": "store_const", "const": True, "help": text}}
    if isinstance(row, Choice) and row.meanings:
        return {
            f"--{word}": {"action": "store_const", "dest": row.name, "const": value, "help": text}
            for word, value in row.meanings.items()
        }
    words = {Choice: "choices", Words: "known"}.get(type(row), "")
    listed = ", ".join(filter(None, getattr(row, words, ())))
    usual = row.text(row.value or row.default) if row.value or row.default else ""
    text += f": {listed}" if listed else ""
    text += f" (default {usual})" if usual else ""
    number: dict[str, object] = {"type": int} if isinstance(row, Integer) else {}
    return {row.flag: number | {"metavar": row.metavar, "help": text}}


def given_fields(arguments: Namespace, fields: Mapping[str, Field]) -> dict[str, object]:
    """The values of the fields whose flags were given; RequestError for a text that has none."""
    given = {name: getattr(arguments, name) for name in fields}
    return {
        name: fields[name].decode(name, value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }


def _prices(text: str) -> dict[str, float]:
    """Dollars per chip-hour by kind of chip; of one number, that of every kind."""
    try:
        return read_prices_by_kind(text) or {"": read_price(text)}
    except RequestError as error:
        raise ArgumentTypeError(str(error)) from None


def _up_to(most: float, called: str, units: Mapping[str, float] = {}) -> Callable[[str], float]:
    """Reads a number above 0, with one of the `units` behind it or none."""

    def read(text: str) -> float:
        if not 0 < (value := number(text, units)) <= most:
            raise refused(text, f"is no {called}", f"use more than 0, at most {most:g}")
        return value

    return read


_OPTIONS = {
    "--strategy": {"metavar": "NAME", "help": "of a spec; default: its first that uses a mesh"},
    "--timeout": {
        "type": _up_to(sys.float_info.max, "number of seconds"),
        "default": Settings().predict_timeout_s,
        "metavar": "SECONDS",
        "help": f"for the compile (default {Settings().predict_timeout_s:g})",
    },
    "--fresh": {
        "action": "store_true",
        "help": "compile even where the same versions have predicted it before",
    },
    "--keep": {"metavar": "FILE", "help": "write the plan and its prediction as a baseline file"},
    "--force": {"action": "store_true", "help": f"with --keep or --trace: {FORCE}"},
    "--price-per-chip-hour": {
        "metavar": "DOLLARS",
        "type": _prices,
        "help": "say what a step and a billion tokens cost; of several chips v5p=4.2,h100=2.5",
    },
    "--tokens": {
        "metavar": "N",
        "type": _up_to(MOST_TOKENS, "number of tokens", _TOKENS),
        "help": "say how many days training a model on so many tokens takes: 15e12, or 15T",
    },
    "--deadline": {
        "metavar": "30d",
        "type": _up_to(MOST_DAYS, "deadline such as 30d", _DAYS),
        "help": "find the fewest chips of each kind that train on --tokens in so many days",
    },
    "--budget": {
        "metavar": "DOLLARS",
        "type": _up_to(MOST_BUDGET, "number of dollars"),
        "help": "find the fastest run of each kind of chip on --tokens that so many dollars pay",
    },
    "--chips": {
        "metavar": "N",
        "type": int,
        "help": "find the best plan on so many chips of each kind, to train on --tokens",
    },
    "--global-batch": {
        "metavar": "N",
        "type": int,
        "help": "with --deadline, --budget or --chips: sequences of a step (default: 4,194,304 "
        "tokens)",
    },
    "--trace": {"metavar": "FILE", "help": "write the step's timeline as a trace for Perfetto"},
    "--baseline": {
        "metavar": "FILE",
        "help": "compile the plan of a baseline file again; exit code 1 where something changed",
    },
    "--estimate": {
        "action": "store_true",
        "help": "estimate the step from the plan at once; compile nothing",
    },
    "--remedies": {"action": "store_true", "help": REMEDIES},
}


_PLAN = {
    "spec": {
        "metavar": "SPEC",
        "nargs": "?",
        "help": f"instead of a model: {HELP}; its target is a topology, or --target is",
    },
    "--target": {
        "metavar": "tpu:v5e:16x16",
        "help": "a topology, slices behind an asterisk: tpu:v5e:16x16*2; or a number of chips: v5p:64 "
        "(Google's v5p-64 is 32 chips), h100:64",
    },
    "--model": {"metavar": "NAME", "help": MODELS},
    "--mesh": {
        "metavar": "fsdp=16,tensor=4",
        "help": "mesh axes and their sizes, slices outermost; best: of up to two axes, by the "
        f"estimate. {'; '.join(AXES_LINES)}",
    },
    "--batch-per-device": {"type": float, "metavar": "N", "help": "sequences per device and step"},
    "--sequence": {"type": int, "metavar": "N", "help": "tokens of a sequence (default 2048)"},
}


# in place of the model's
SIZES = {
    f"--{name.replace('_', '-')}": {
        "type": int,
        "metavar": "N",
        "help": f"{name} of its own, in place of the model's",
    }
    for name in VARIABLE
}


ARGUMENTS = {
    **_PLAN,
    **CONFIG,
    **flags_of(PLAN_FIELDS),
    **SIZES,
    **_OPTIONS,
    **predict_sweep.ARGUMENTS,
}


def price_for(arguments: Namespace, kind: str) -> float | None:
    """Returns dollars per chip-hour of a kind of chip; None where none was given."""
    return (arguments.price_per_chip_hour or {}).get(kind)

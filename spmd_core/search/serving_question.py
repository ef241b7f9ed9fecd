"""The question of serving: a model, chips, a load and its limits, read from texts."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from spmd_core.base import mesh_text, refuse, shorten
from spmd_core.machine import Topology
from spmd_core.plan import MXFP4, SERVED_DTYPES, get_model, served_dtype
from spmd_core.search.chips import generations, read_chips
from spmd_core.search.question import check_prices, read_prices, require_prices
from spmd_core.time import Lengths, ServingLoad
from spmd_core.workloads import parse_mesh

MOST_LENGTH = 2**20
MOST_AT_ONCE = 65536
WEIGHT_DTYPES = (*SERVED_DTYPES, MXFP4)
_MOST_S = 100_000
_DURATION = re.compile(r"([0-9]{1,9}\.?[0-9]{0,15}|\.[0-9]{1,15})\s*(us|ms|s|)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_LENGTHS = re.compile(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?")
# the texts of a question: those of the command line, of a screen, and of a link
SERVING_FORM: Mapping[str, str] = {
    "model": "",
    "chips": "",
    "input": "1024",
    "output": "1024",
    "concurrency": "64",
    "rate": "",
    "requests": "",
    "ttft": "",
    "tpot": "",
    "weights_dtype": "bf16",
    "kv_dtype": "bf16",
    "price": "",
    "mesh": "",
    "chunk": "2048",
    "accepted": "1",
    "seed": "0",
}
_LONGEST = 1000  # characters of a text: an archive may have any
_NUMBERS = ("concurrency", "rate", "requests", "chunk", "accepted", "seed")


@dataclass(frozen=True)
class ServingQuestion:
    """A model, chips, a load, and the limits that it has to keep.

    Attributes:
      model: its name.
      chips: words of `read_chips`: v6e:..16, tpu7x:4, h100:8.
      load: lengths, and requests at once or a second.
      ttft_s: the most that a first token may take, on average; None: no limit.
      tpot_s: the most that each further token may take, on average.
      weights_dtypes: to try, and `kv_dtypes`.
      price: dollars per chip-hour, by kind.
      mesh: the one to look at; None to search.
    """

    model: str
    chips: tuple[str, ...]
    load: ServingLoad
    ttft_s: float | None = None
    tpot_s: float | None = None
    weights_dtypes: tuple[str, ...] = ("bf16",)
    kv_dtypes: tuple[str, ...] = ("bf16",)
    price: tuple[tuple[str, float], ...] = ()
    mesh: tuple[tuple[str, int], ...] | None = None

    @cached_property
    def topologies(self) -> tuple[Topology, ...]:
        """Each once, the fewest chips first."""
        listed = {each.target: each for text in self.chips for each in read_chips(text)}
        return tuple(sorted(listed.values(), key=lambda each: (each.chips, each.target)))

    @property
    def form(self) -> dict[str, str]:
        """Its texts by the names of `SERVING_FORM`, without those that a question has by itself."""
        load, limits = self.load, {"ttft": self.ttft_s, "tpot": self.tpot_s}
        texts = {
            "model": self.model,
            "chips": ",".join(self.chips),
            "input": load.input.text,
            "output": load.output.text,
            **{name: f"{1e3 * limit:.9g}ms" for name, limit in limits.items() if limit},
            "weights_dtype": ",".join(self.weights_dtypes),
            "kv_dtype": ",".join(self.kv_dtypes),
            "price": ",".join(f"{kind}={each:g}" for kind, each in self.price),
            "mesh": mesh_text(self.mesh or (), ","),
        }
        numbers = {name: getattr(load, name) for name in _NUMBERS}
        texts |= {name: f"{each:.12g}" for name, each in numbers.items() if each is not None}
        return {name: text for name, text in texts.items() if text != SERVING_FORM[name]}

    @property
    def id(self) -> str:
        """Hash of its texts (16 hex digits)."""
        form = json.dumps(self.form, sort_keys=True)
        return hashlib.sha256(f"serving {form}".encode()).hexdigest()[:16]

    def check(self) -> None:
        """Raises RequestError where the question has no answer."""
        load, model = self.load, get_model(self.model)
        most = model.context or MOST_LENGTH
        for name, value, largest in (
            ("input", load.input.low, MOST_LENGTH),
            ("output", load.output.low, MOST_LENGTH),
            ("concurrency", load.concurrency, MOST_AT_ONCE),
            ("chunk", load.chunk, MOST_LENGTH),
            ("accepted", load.accepted, load.output.high),
            ("requests", load.requests or 1, MOST_AT_ONCE),
        ):
            if not 1 <= value <= largest:
                raise refuse(f"{name}={value:.12g}", "is out of range", f"use 1 to {largest:,}")
        if load.longest > most:
            rule = f"are more than the {most:,} that {model.title} sees"
            fix = f"use at most {most:,} for input and output together"
            raise refuse(f"{load.longest:,} tokens of a request", rule, fix)
        kinds = sorted({each.chip.generation for each in self.topologies})
        check_prices(self.price, kinds)
        if self.price:
            require_prices(self.price, kinds, f"price {', '.join(dict(self.price))}")


def read_serving(form: Mapping[str, Any]) -> ServingQuestion:
    """Returns the question of texts by the names of `SERVING_FORM`; what is missing or empty has its
    default.

    Raises:
      RequestError: a text cannot be read, or there is no model, or there are no chips.
    """
    given = {name: str(form.get(name) or usual).strip() for name, usual in SERVING_FORM.items()}
    for name, text in given.items():
        if len(text) > _LONGEST:
            fix = f"use at most {_LONGEST:,} characters"
            raise refuse(f"{name}={shorten(text)}", "is too long", fix)
        if not text.strip(", ") and name in ("model", "chips"):
            raise refuse(f"serve without {name}", "is incomplete", "name a model, and chips")
    chips = _chips(given["chips"])
    load = ServingLoad(
        _lengths("input", given["input"]),
        _lengths("output", given["output"]),
        _count("concurrency", given["concurrency"], 1, MOST_AT_ONCE),
        _number("rate", given["rate"], 1e-6) if given["rate"] else None,
        _count("requests", given["requests"], 1, MOST_AT_ONCE) if given["requests"] else None,
        _count("chunk", given["chunk"], 1),
        _number("accepted", given["accepted"], 1),
        _count("seed", given["seed"], 0),
    )
    return ServingQuestion(
        given["model"],
        chips,
        load,
        _duration("ttft", given["ttft"]) if given["ttft"] else None,
        _duration("tpot", given["tpot"]) if given["tpot"] else None,
        tuple(
            dict.fromkeys(
                served_dtype(each, WEIGHT_DTYPES) for each in given["weights_dtype"].split(",")
            )
        ),
        tuple(dict.fromkeys(map(served_dtype, given["kv_dtype"].split(",")))),
        read_prices(given["price"], generations(chips)) if given["price"] else (),
        _mesh(given["mesh"], given["model"], chips) if given["mesh"] else None,
    )


def _chips(text: str) -> tuple[str, ...]:
    chips = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    generations(chips)  # RequestError with every word that names none
    return chips


def _mesh(text: str, model: str, chips: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    size, devices = get_model(model), max(each.devices for each in chain(*map(read_chips, chips)))
    tensor = math.gcd(4, size.heads, size.kv_heads, size.state_heads, devices)
    return parse_mesh(text, f"tensor={tensor}")


def _count(name: str, text: str, least: int, most: int = MOST_LENGTH) -> int:
    value = _number(name, text, least, most)
    if value % 1:
        raise refuse(f"{name}={shorten(text)}", "is no whole number", f"use {int(value)}")
    return int(value)


def _number(name: str, text: str, least: float, most: int = MOST_LENGTH) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        rule = "is out of range" if value == value else "is no number"
        raise refuse(f"{name}={shorten(text)}", rule, f"use {least:g} to {most:,}")
    return value


def _duration(name: str, text: str) -> float:
    """Returns the seconds of `40ms`, `2s` or `0.04`; of a number of 1 or more without a unit those of
    milliseconds for a token. RequestError below 1us, beyond a day, or for another number of 1 or more
    without a unit.
    """
    match = _DURATION.fullmatch(text.lower())
    value = float(match[1]) * _UNITS[match[2]] if match else math.nan
    if match and not match[2] and value >= 1:
        if name != "tpot":
            raise refuse(f"{name}={text}", "names no unit", f"write {text}ms or {text}s")
        value *= _UNITS["ms"]
    if not 1e-6 <= value <= _MOST_S:
        rule = f"is not a time from 1us to {_MOST_S}s"
        raise refuse(f"{name}={shorten(text)}", rule, "write for example 40ms or 2s")
    return value


def _lengths(name: str, text: str) -> Lengths:
    """Returns the lengths of `1024`, or of `512..2048`; RequestError for anything else."""
    match = _LENGTHS.fullmatch(text)
    low = int(match[1]) if match else 0
    high = int(match[2]) if match and match[2] else low
    if not 0 < low <= high:
        rule = "is no number of tokens above 0, and no range of them upward"
        raise refuse(f"{name}={shorten(text)}", rule, "write for example 1024 or 512..2048")
    return Lengths(low, high)

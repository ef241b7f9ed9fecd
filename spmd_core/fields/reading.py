"""The JSON forms of an experiment's fields, read into tuples; each refusal names the value, the
rule and a fix.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from spmd_core.base import check_known, refuse, shorten, suffixed_sizes
from spmd_core.fields.kinds import Field, Integer, Number
from spmd_core.fields.types import DRAWS, MemoryKind

MAX_SIZE = 2**40
Pairs = tuple[tuple[str, Any], ...]
_EXAMPLES = {
    "mesh": '{"x": 2, "y": 4}',
    "dims": '{"in": 32, "out": 4}',
    "sharding": '{"in": "x"}',
    "overrides": '{"weights": ["x", null]}',
    "specs": '{"blocks/*/up": ["x", null]}',
    "memory": '{"weights": "pinned_host"}',
    "data": '{"x": "arange"}',
    "options": '{"precision": "highest"}',
    "timing": '{"samples": 20, "min_seconds": 0.2}',
}
CHOICES = {"memory": get_args(MemoryKind), "data": DRAWS}
MAX_SEED = 2**32 - 1


def is_integer(value: Any) -> bool:
    """Whether a JSON value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def first_twice(names: Iterable[str]) -> str | None:
    """The first duplicate name; None if all are different."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def read_pairs(field: str, given: Any) -> Pairs:
    """A JSON object, or a list of pairs, as a tuple of pairs with different names."""
    listed = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(listed, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)
        for pair in listed
    ):
        raise refuse(
            f"{field}={shorten(given)}", "is not an object", f"write for example {_EXAMPLES[field]}"
        )
    if (twice := first_twice(name for name, _ in listed)) is not None:
        raise refuse(f"{field} names {shorten(twice)}", "twice", "name it once")
    return tuple((name, value) for name, value in listed)


def read_sizes(field: str, given: Any) -> Pairs:
    """Names with integers from 1 on: a mesh, or dims."""
    pairs = read_pairs(field, given)
    for name, size in pairs:
        if not is_integer(size) or not 1 <= size <= MAX_SIZE:
            label = shorten(name).strip("'\"")
            what = f"{'mesh axis ' * (field == 'mesh')}{label}={shorten(size)}"
            if size is None:
                name = f"{'mesh axis ' * (field == 'mesh')}{label}"
                raise refuse(name, "has no size", f"write a whole number from 1 to {MAX_SIZE}")
            if isinstance(size, str) and (meant := suffixed_sizes(size)):
                fix = f"write {meant[0]} or {meant[1]}"
                raise refuse(what, "has a suffix that may mean either", fix)
            raise refuse(what, "is not a size", f"use a whole number from 1 to {MAX_SIZE}")
    return pairs


def read_sharding(given: Any) -> Pairs:
    """Dim -> axes, for each dim that is named."""
    return tuple(
        (dim, read_axes(f"sharding of {shorten(dim)}", axes))
        for dim, axes in read_pairs("sharding", given)
    )


def read_overrides(given: Any, field: str = "overrides") -> Pairs:
    """Array, or pattern of several, -> spec, one entry of axes per dim."""
    specs = []
    for array, spec in read_pairs(field, given):
        where = f"{field.removesuffix('s')} of {shorten(array)}"
        if not isinstance(spec, list | tuple):
            raise refuse(
                f"{where}={shorten(spec)}",
                "is not a list",
                'give one entry per dim, for example ["x", null]',
            )
        specs.append((array, tuple(read_axes(where, axes) for axes in spec)))
    return tuple(specs)


def read_axes(where: str, given: Any) -> tuple[str, ...]:
    """None, an axis or a list of axes, as a tuple of axes."""
    if given is None:
        return ()
    axes = (given,) if isinstance(given, str) else given
    if isinstance(axes, list | tuple) and all(isinstance(axis, str) for axis in axes):
        return tuple(axes)
    raise refuse(
        f"{where}: {shorten(given)}", "does not name mesh axes", 'use "x", ["x", "y"] or null'
    )


def read_choices(field: str, given: Any) -> Pairs:
    """Array -> one of the field's values."""
    pairs = read_pairs(field, given)
    for array, word in pairs:
        if word not in CHOICES[field]:
            raise refuse(
                f"{field} of {shorten(array)}={shorten(word)}",
                "is not a choice",
                f"use {' or '.join(CHOICES[field])}",
            )
    return pairs


_TEXTS = {
    "workload": "layer",
    "target": "cpu:8",
    "dtype": "float32",
    "program": "the sha256 of a file",
}


def read_text(field: str, given: Any) -> str:
    """A text; `rules` checks whether it is known."""
    if not isinstance(given, str):
        raise refuse(
            f"{field}={shorten(given)}",
            "is not a text",
            f"write for example {_TEXTS[field]}",
        )
    return given


def read_strategies(given: Any) -> tuple[str, ...]:
    """A list of names."""
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise refuse(
            f"strategies={shorten(given)}",
            "is not a list of names",
            'write for example ["auto", "shard_map"]',
        )
    return tuple(given)


def read_timing(given: Any) -> dict[str, object]:
    """Samples per strategy, seconds spent sampling each, processes, and the margin of a tie."""
    timing = dict(read_pairs("timing", given))
    for name in timing:
        check_known("timing field", name, TIMING, "is not known here")
    return {name: TIMING[name].take(name, value) for name, value in timing.items()}


TIMING: dict[str, Field] = {
    row.name: row
    for row in (
        Integer(
            20,
            1,
            1000,
            name="samples",
            label="Samples",
            help="rounds: each times every strategy once",
        ),
        Number(
            0,
            60,
            name="min_seconds",
            value=0.2,
            label="At least (s)",
            help="seconds spent sampling each strategy",
        ),
        Integer(
            0,
            0,
            12,
            name="processes",
            label="Processes",
            help="processes that time the best in turn; 0: one, and 3 of a study",
        ),
        Number(
            0,
            0.5,
            name="margin",
            value=0.03,
            label="Margin",
            help="share within which two times count as the same",
        ),
    )
}


def read_seed(given: Any) -> int:
    """An integer of 32 bits."""
    if not is_integer(given) or not 0 <= given <= MAX_SEED:
        raise refuse(
            f"seed={shorten(given)}", "is not a seed", f"use a whole number from 0 to {MAX_SEED}"
        )
    return given


def read_version(given: Any) -> int:
    """The version of the format; there is only one."""
    if given != 1 or not is_integer(given):
        raise refuse(
            f"version {shorten(given)}",
            "of the experiment format is not known here",
            "update SPMD Lab, or use version 1",
        )
    return given


def read_workload(given: Any) -> str:
    """A workload's name; `rules` checks whether it exists."""
    if not isinstance(given, str):
        raise refuse(f"workload {shorten(given)}", "is not a name", "name one, for example layer")
    return given


READERS = {  # in the order of the JSON form
    "version": read_version,
    "target": lambda given: read_text("target", given),
    "mesh": lambda given: read_sizes("mesh", given),
    "workload": read_workload,
    "program": lambda given: read_text("program", given),
    "dims": lambda given: read_sizes("dims", given),
    "dtype": lambda given: read_text("dtype", given),
    "sharding": read_sharding,
    "overrides": read_overrides,
    "specs": lambda given: read_overrides(given, "specs"),
    "memory": lambda given: read_choices("memory", given),
    "data": lambda given: read_choices("data", given),
    "options": lambda given: read_pairs("options", given),
    "strategies": read_strategies,
    "timing": read_timing,
    "seed": read_seed,
}


def read_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an experiment's JSON form gives, null left out; nothing is filled in.

    RequestError, in one sentence, for a missing, unknown or malformed field.
    """
    for field in ("workload", "mesh"):
        if data.get(field) is None:
            raise refuse(f"experiment without {field}", "is incomplete", f"add {field!r}")
    given = {field: value for field, value in data.items() if value is not None}
    for field in given:
        if field not in READERS:
            raise refuse(
                f"field {shorten(field)}",
                "is not part of an experiment",
                f"leave it out, or use one of {', '.join((*READERS, 'variants'))}",
            )
    # a value that was read before, such as the timing of another experiment, is kept unchanged
    return {
        field: given[field] if isinstance(given[field], BaseModel) else read(given[field])
        for field, read in READERS.items()
        if field in given
    }

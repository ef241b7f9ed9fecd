"""The options of an experiment: which ones a workload has, their defaults, and their valid values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spmd_core.base import check_known, refuse, shorten
from spmd_core.fields import Choice, Field, Switch
from spmd_core.plan import PLAN_FIELDS
from spmd_core.workloads import STRATEGIES, Workload, program_names, program_sizes

PRECISION = Choice(
    ("default", "high", "highest"),
    label="Matmul precision",
    help="a TPU multiplies float32 in bfloat16 passes by default",
)
DEVICE_ORDER = replace(PLAN_FIELDS["device_order"], later=False)  # written at its default, too
SHARDINGS = Switch(
    label="Read the shardings of every step",
    help="after the timing, compile the program once more and read how the compiler shards each "
    "value between operands and results",
    line="shardings of every step",
)
TRACE = Switch(
    label="Trace a step",
    help="after the timing, record a few calls with JAX's profiler: what each device did when, "
    "operation by operation",
    line="traced",
)
BY_POSITION = "by position"  # in_axes derived from the dims of the operands


def source_of(options: Mapping[str, Any]) -> str | None:
    """The hash of the user's file that declares a workload, among an experiment's options."""
    source = options.get("source")
    return source if isinstance(source, str) else None


def option_choices(workload: Workload) -> dict[str, Field]:
    """The options of a workload that an experiment may choose, by name."""
    precision = {"precision": PRECISION} if workload.uses_precision else {}
    return {"device_order": DEVICE_ORDER} | precision | dict(workload.options) | _looks(workload)


def _looks(workload: Workload) -> dict[str, Field]:
    return {"trace": TRACE, "shardings": SHARDINGS} if workload.is_traceable else {}


def later_options(workload: Workload) -> Mapping[str, Any]:
    """Options that are left out of an experiment where they are at their default.

    They were added later: an experiment without them means the default.
    """
    later = {name: option.default for name, option in workload.options.items() if option.later}
    maps = any(STRATEGIES[name].is_map for name in workload.strategies)
    in_axes = {"in_axes": BY_POSITION} if maps else {}
    looks = {name: option.default for name, option in _looks(workload).items()}
    return later | in_axes | looks


def fill_options(workload: Workload, given: Any) -> dict[str, object]:
    """Options of the workload, defaults filled in; RequestError for one that it does not have."""
    given, choices, later = dict(given), option_choices(workload), later_options(workload)
    defaults = {name: option.default for name, option in choices.items() if not option.later}
    if workload.source is not None:
        defaults["source"] = workload.source
    if workload.is_small_program:
        given, of_program = _program_options(given, defaults)
        defaults |= of_program
    for name, value in given.items():
        if name not in defaults and name not in later:
            raise refuse(
                f"option {shorten(name)}",
                f"is not one of {workload.name}",
                f"use {' or '.join({**defaults, **later})}",
            )
        if name in choices:
            choices[name].decode(name, value)
    if "in_axes" in given:  # it becomes part of programs: one text per meaning
        axes = read_in_axes(given["in_axes"])
        given["in_axes"] = BY_POSITION if axes is None else ", ".join(map(str, axes))
    chosen = {
        name: value for name, value in given.items() if name in defaults or value != later.get(name)
    }
    return {
        name: (defaults | chosen)[name]
        for name in (*defaults, *later)
        if name in defaults or name in chosen
    }


def _program_options(
    given: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The options given to a small program, its sizes checked; and the defaults of those."""
    program = given.get("program", "")
    check_known("program", program, program_names(), "is not registered")
    plain = {name: value for name, value in given.items() if name in known or name == "program"}
    sizes = check_sizes(program, {name: given[name] for name in given if name not in plain})
    own = {name: size.default for name, size in program_sizes(program).items() if name in sizes}
    return plain | sizes, {"program": program} | own


def read_in_axes(text: Any) -> tuple[int | None, ...] | None:
    """`0, None, 1` as one entry for each operand; None if it follows from the dims of the operands."""
    if text == BY_POSITION:
        return None
    parts = (
        [part.strip() for part in text.strip().strip("()[]").rstrip(",").split(",")]
        if isinstance(text, str)
        else []
    )
    if not parts or not all(
        part == "None" or (part.isascii() and part.isdigit() and len(part) < 3) for part in parts
    ):
        raise refuse(
            f"in_axes={shorten(text)}",
            "is not one axis or None for each operand",
            "write for example 0, None",
        )
    return tuple(None if part == "None" else int(part) for part in parts)


def check_sizes(program: str, given: dict[str, object]) -> dict[str, int]:
    """The given sizes without defaults; RequestError for one that the program does not have or
    allow.
    """
    sizes, chosen = program_sizes(program), {}
    for name, value in given.items():
        size = sizes.get(name)
        if size is None:
            raise refuse(
                f"option {shorten(name)}",
                f"is not one of program {program}",
                f"use {' or '.join(['device_order', *sizes])}",
            )
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not size.low <= value <= size.high
        ):
            raise refuse(
                f"{name}={shorten(value)}",
                f"is not a size of program {program}",
                f"use a whole number from {size.low} to {size.high}",
            )
        if value != size.default:
            chosen[name] = value
    return {name: chosen[name] for name in sizes if name in chosen}

"""The options of an experiment: which a workload has, their defaults, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_core.errors import refuse, shorten
from spmd_core.workloads.small_programs import check_sizes, program_names, program_sizes
from spmd_core.workloads.strategies import MAP_STRATEGIES
from spmd_core.workloads.workload import Flag, Option, Text, Whole, Workload

OPTION_CHOICES = {"precision": ("default", "high", "highest"), "device_order": ("topology", "plain")}

BY_POSITION = "by position"  # in_axes as the dims of the operands say


def source_of(options: Mapping[str, Any]) -> str | None:
    """The hash of the user's file that declares a workload, among an experiment's options."""
    source = options.get("source")
    return source if isinstance(source, str) else None


def option_choices(workload: Workload) -> dict[str, Option]:
    """The options of a workload that an experiment may choose, by name."""
    choices: dict[str, Option] = {"device_order": OPTION_CHOICES["device_order"]}
    if workload.uses_precision:
        choices["precision"] = OPTION_CHOICES["precision"]
    return choices | dict(workload.options)


def later_options(workload: Workload) -> dict[str, Any]:
    """Options that are left out of an experiment where they are at their default: with it, it means what it meant without them."""
    later: dict[str, Any] = {name: option.default for name, option in workload.options.items()
                             if isinstance(option, Whole | Flag) or (isinstance(option, Text) and option.later)}
    return later | ({"in_axes": BY_POSITION} if set(workload.strategies) & set(MAP_STRATEGIES) else {})


def fill_options(workload: Workload, given: Any) -> dict[str, Any]:
    """Options of the workload with their defaults filled in; RequestError for one that it does not have."""
    given = dict(given)
    later = later_options(workload)
    defaults: dict[str, Any] = {name: option[0] if isinstance(option, tuple) else option.default
                                for name, option in option_choices(workload).items() if name not in later}
    if workload.source is not None:
        defaults["source"] = workload.source
    if workload.is_small_program:
        if given.get("program") not in program_names():
            raise refuse(f"program {shorten(given.get('program'))}", "is not registered", f"use {', '.join(program_names())}")
        defaults["program"] = given["program"]
        sizes = {name: value for name, value in given.items() if name not in defaults}
        given = {name: given[name] for name in given if name in defaults} | check_sizes(given["program"], sizes)
        defaults |= {name: size.default for name, size in program_sizes(given["program"]).items() if name in given}
    for name, value in given.items():
        if name not in defaults and name not in later:
            raise refuse(f"option {shorten(name)}", f"is not one of {workload.name}", f"use {' or '.join({**defaults, **later})}")
        _check_option(name, value, option_choices(workload).get(name))
    if "in_axes" in given:  # it becomes a part of programs: as one text for each meaning
        given["in_axes"] = in_axes_text(read_in_axes(given["in_axes"]))
    chosen = {name: value for name, value in given.items() if name in defaults or value != later.get(name)}
    return {name: (defaults | chosen)[name] for name in (*defaults, *later) if name in defaults or name in chosen}


def _check_option(name: str, value: Any, option: Option | None) -> None:
    if isinstance(option, Whole):
        if not isinstance(value, int) or isinstance(value, bool) or not option.low <= value <= option.high:
            raise refuse(f"{name}={shorten(value)}", "is not a number of it", f"use a whole number from {option.low} to {option.high}")
    elif isinstance(option, Flag):
        if not isinstance(value, bool):
            raise refuse(f"{name}={shorten(value)}", "is neither on nor off", "use true or false")
    elif isinstance(option, Text):
        if not isinstance(value, str):
            raise refuse(f"{name}={shorten(value)}", "is not a text", f"write for example {option.default!r}")
    elif option is not None and value not in option:
        raise refuse(f"{name}={shorten(value)}", "is not a choice", f"use {', '.join(option)}")
    elif name == "in_axes":
        read_in_axes(value)


def read_in_axes(text: Any) -> tuple[int | None, ...] | None:
    """`0, None, 1` as one entry for each operand; None where the dims of the operands say it."""
    if text == BY_POSITION:
        return None
    parts = [part.strip() for part in text.strip().strip("()[]").rstrip(",").split(",")] if isinstance(text, str) else []
    if not parts or not all(part == "None" or (part.isascii() and part.isdigit() and len(part) < 3) for part in parts):
        raise refuse(f"in_axes={shorten(text)}", "is not one axis or None for each operand", "write for example 0, None")
    return tuple(None if part == "None" else int(part) for part in parts)


def in_axes_text(axes: tuple[int | None, ...] | None) -> str:
    """One entry for each operand as an experiment writes them: `0, None`."""
    return BY_POSITION if axes is None else ", ".join(str(axis) for axis in axes)

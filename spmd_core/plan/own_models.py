"""A decoder of sizes of its own, and its name: all fields that are not at their default."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from itertools import groupby
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.plan.model_rules import MAX_LAYERS, check
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.presets import PRESETS

OWN = re.compile(r"([a-z][a-z0-9_]{0,31})\(([a-z0-9_=.,*+]{1,1500})\)")
_OF_A_NAME = {
    each.name: each.default for each in fields(ModelSize) if each.name not in ("name", "source")
}
_CONFIG_SOURCE = "the model's own config"


def own_model(architecture: str, given: Mapping[str, Any]) -> ModelSize:
    """The decoder of these fields, named by all of them that are not at their default, or the
    preset that has just these, `context` unless it is given among them. RequestError where they make no decoder.
    """
    size = ModelSize(name=architecture, source=_CONFIG_SOURCE, **given)
    check(size, {*given, "experts", "experts_per_token"})
    for preset in PRESETS.values():
        # before the copy, which takes longer than all else here
        is_near = size.embed == preset.embed and size.context in (0, preset.context)
        if is_near and replace(size, name=preset.name) == preset:
            return preset
    parts = [
        _part(name, getattr(size, name))
        for name, usual in _OF_A_NAME.items()
        if getattr(size, name) != usual
    ]
    name = f"{architecture}({','.join(parts)})"
    if not OWN.fullmatch(name):
        raise refuse(f"model {shorten(name)}", "is too long for a name", "use windows that repeat")
    return replace(size, name=name)


def _part(name: str, value: Any) -> str:
    """One field of a name: `tied`, `embed=4096` or `windows=1024*5+0`, where 0 is all of the past."""
    if value is True:
        return name
    if not isinstance(value, tuple):
        return f"{name}={value:d}" if isinstance(value, bool) else f"{name}={value}"
    runs = [(each or 0, len(list(group))) for each, group in groupby(value)]
    return (
        f"{name}={'+'.join(f'{each}*{count}' if count > 1 else f'{each}' for each, count in runs)}"
    )


def read_own(architecture: str, text: str) -> ModelSize:
    """The decoder of a name as `own_model` writes it."""
    given = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in _OF_A_NAME or name in given:
            rule = "is given twice" if name in given else "is not one of a decoder's"
            raise refuse(
                f"{shorten(name)} of model {architecture}", rule, f"use {', '.join(_OF_A_NAME)}"
            )
        try:
            given[name] = _value(_OF_A_NAME[name], value)
        except ValueError:
            raise refuse(
                f"{name}={shorten(value)} of model {architecture}",
                "cannot be read",
                "give a number",
            ) from None
    for name, usual in _OF_A_NAME.items():
        if usual is MISSING and name not in given:
            raise refuse(f"model {architecture} without {name}", "is incomplete", f"add {name}")
    return own_model(architecture, given)


def _value(usual: Any, text: str) -> Any:
    if isinstance(usual, bool):
        return bool(int(text or 1))
    if isinstance(usual, str):
        return text
    if isinstance(usual, tuple):
        runs = [each.partition("*") for each in text.split("+")]
        if sum(int(count or 1) for _, _, count in runs) > MAX_LAYERS:
            raise ValueError
        read = str if isinstance(usual[0], str) else lambda each: int(each) or None
        return tuple(read(each) for each, _, count in runs for _ in range(int(count or 1)))
    return float(text) if usual is None or isinstance(usual, float) else int(text)

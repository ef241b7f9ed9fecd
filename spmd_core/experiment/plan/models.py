"""A decoder by its name: a preset, a scaled decoder, or the sizes that a config gives."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from itertools import groupby
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.experiment.plan.architectures import LACKING
from spmd_core.experiment.plan.model_rules import MAX_LAYERS, check
from spmd_core.experiment.plan.model_size import ModelSize
from spmd_core.experiment.plan.presets import PRESETS

_OWN = re.compile(r"([a-z][a-z0-9_]{0,31})\(([a-z0-9_=.,*+]{1,1500})\)")
_OF_A_NAME = {
    each.name: each.default for each in fields(ModelSize) if each.name not in ("name", "source")
}
_CONFIG_SOURCE = "the model's own config"
_PLAIN = re.compile(r"[^a-z0-9]")
_SIZE = re.compile(r"-[0-9x]+b.*")
_ALIKE = 0.7  # of the letters: a name that is less alike is of another model


_SCALED = re.compile(r"scaled(-2023)?:([0-9]{1,5})")
_SCALED_2023_SOURCE = (
    "MaxText base.yml before 2024-02-14, of which its v5e and v5p tables of 2023 are"
)
_SCALED_SOURCE = "MaxText base.yml and get_individual_scales: heads and mlp, then width, then layers doubled in turn"


def scaled(scale: int, of_2023: bool = False) -> ModelSize:
    """The scaled decoder: width 2048, 16 heads of 128, mlp 7168, 16 layers, doubled in turn.
    RequestError unless a power of two.

    `of_2023`: as it was until February 2024: width 2560, 8 heads of 256, an ungated relu mlp of
    8192, one vocabulary table of 32,768.
    """
    name = "scaled-2023" if of_2023 else "scaled"
    if scale < 1 or scale & (scale - 1):
        lower = 1 << max(0, scale.bit_length() - 1)
        raise refuse(
            f"model {name}:{scale}",
            "is not a power of two",
            f"use {name}:{lower} or {name}:{2 * lower}",
        )
    rounds, rest = divmod(scale.bit_length() - 1, 3)
    wide, tall = rounds + (rest > 0), rounds + (rest > 1)
    if of_2023:
        heads = 8 << wide
        sizes = (2560 << tall, heads, heads, 256, 8192 << wide, 32768, _SCALED_2023_SOURCE)
        others = {"gated": False, "activation": "relu", "tied": True}
    else:
        heads = 16 << wide
        sizes = (2048 << tall, heads, heads, 128, 7168 << wide, 32000, _SCALED_SOURCE)
        others = {}
    return ModelSize(f"{name}:{scale}", 16 << rounds, *sizes, **others)


def own_model(architecture: str, given: Mapping[str, Any]) -> ModelSize:
    """The decoder of these fields, named by all of them that are not at their default, or the
    preset that has just these. RequestError where they make no decoder.
    """
    size = ModelSize(name=architecture, source=_CONFIG_SOURCE, **given)
    check(size, {*given, "experts", "experts_per_token"})
    for preset in PRESETS.values():
        if replace(size, name=preset.name) == preset:
            return preset
    parts = [
        _part(name, getattr(size, name))
        for name, usual in _OF_A_NAME.items()
        if getattr(size, name) != usual
    ]
    name = f"{architecture}({','.join(parts)})"
    if not _OWN.fullmatch(name):
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


def _read_own(architecture: str, text: str) -> ModelSize:
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
    """The value of a field of a name, of the type of its default."""
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


def get_model(name: str) -> ModelSize:
    """The preset, the scaled decoder or the config's of that name; RequestError where there is
    none.
    """
    text = name.strip().lower()
    if match := _SCALED.fullmatch(text):
        return scaled(int(match[2]), of_2023=match[1] is not None)
    if text in PRESETS:
        return PRESETS[text]
    if match := _OWN.fullmatch(text):
        return _read_own(match[1], match[2])
    plain = _PLAIN.sub("", text.rpartition("/")[2])[:64]
    if lacks := next((lacks for start, lacks in LACKING.items() if plain.startswith(start)), ""):
        rule, fix = (
            f"has {lacks}, which this decoder does not",
            f"use one of {', '.join(families())}",
        )
    else:
        spelled = {_PLAIN.sub("", preset): preset for preset in PRESETS}
        near = [spelled[each] for each in difflib.get_close_matches(plain, spelled, 1, _ALIKE)]
        rule, fix = "does not exist", f"use {near[0] if near else ', '.join(families())}"
        fix += ", the model's config, or scaled:16 with sizes of its own"
    raise refuse(f"model {shorten(name)}", rule, fix)


def families() -> tuple[str, ...]:
    """Returns the names of presets without their sizes: `llama-3.1`."""
    return tuple(dict.fromkeys(_SIZE.sub("", name) for name in PRESETS))

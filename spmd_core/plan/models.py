"""A decoder by its name: a preset, a scaled decoder, or the sizes that a config gives."""

import difflib
import json
import re
from collections.abc import Mapping
from functools import cache

from spmd_core.base import plugins, refuse, shorten
from spmd_core.plan.architectures import LACKING
from spmd_core.plan.configs import read_config
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.own_models import OWN, read_own
from spmd_core.plan.presets import PRESETS

_PLAIN = re.compile(r"[^a-z0-9]")
_ALIKE = 0.7  # of the letters: a name that is less alike is of another model
_USUAL = "a preset such as llama-3.1-8b"


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
    return ModelSize(f"{name}:{scale}", 16 << rounds, *sizes, **others)  # pyrefly: ignore


def get_model(name: str) -> ModelSize:
    """The preset, the scaled decoder or the config's of that name; RequestError where there is
    none.
    """
    text = name.strip().lower()
    if match := _SCALED.fullmatch(text):
        return scaled(int(match[2]), of_2023=match[1] is not None)
    if text in PRESETS:
        return PRESETS[text]
    if match := OWN.fullmatch(text):
        return read_own(match[1], match[2])
    added, problems = added_models()
    if text in added:
        return added[text]
    plain = _PLAIN.sub("", text.rpartition("/")[2])[:64]
    spelled = {_PLAIN.sub("", preset): preset for preset in PRESETS}
    near = [spelled[each] for each in difflib.get_close_matches(plain, spelled, 1, _ALIKE)]
    rule, fix = "; ".join(("does not exist", *problems)), near[0] if near else _USUAL
    fix += ", the model's config, or scaled:16 with sizes of its own"
    if lacks := next((lacks for start, lacks in LACKING.items() if plain.startswith(start)), ""):
        rule, fix = f"has {lacks}, which this decoder does not", _USUAL
    raise refuse(f"model {shorten(name)}", rule, f"use {fix}")


@cache
def added_models() -> tuple[Mapping[str, ModelSize], tuple[str, ...]]:
    """Returns models of installed packages, each in the form of a config.json, and the problems of
    those that are left out.
    """
    return plugins("model", lambda each: read_config(json.dumps(each.load())).size)


def model_names() -> tuple[str, ...]:
    """Returns the names of models to choose from: presets, then those of installed packages."""
    return (*PRESETS, *added_models()[0])

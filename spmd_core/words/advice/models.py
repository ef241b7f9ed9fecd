"""Sentences about a model: its parameters, and by which convention its FLOPs are counted."""

from collections.abc import Mapping, Sequence
from typing import Any

from spmd_core.experiment import Config, ModelSize, Plan
from spmd_core.results import Prediction


def parameters_words(size: ModelSize) -> str:
    """Parameters to the last one; of experts also those that a token visits.

    >>> from spmd_core.experiment import get_model
    >>> parameters_words(get_model("mixtral-8x7b"))
    '46,702,792,704 parameters, 12,879,925,248 of them active'
    """
    active = f", {size.active_parameters:,} of them active" if size.experts > 1 else ""
    return f"{size.parameters:,} parameters{active}"


def sizes_words(size: ModelSize) -> str:
    """A model below its field: a scaled decoder also by its sizes, which its name does not tell.

    >>> from spmd_core.experiment import get_model
    >>> sizes_words(get_model("scaled:2")).partition(";")[0]
    "A synthetic decoder, MaxText's base sizes × 2: 16 layers, width 2,048, mlp 14,336"
    """
    kind, _, scale = size.name.partition(":")
    if kind not in ("scaled", "scaled-2023"):
        return parameters_words(size)
    return (
        f"A synthetic decoder, MaxText's base sizes × {scale}: {size.layers} layers, width "
        f"{size.embed:,}, mlp {size.mlp:,}; {parameters_words(size)}"
    )


def ignored_words(names: Sequence[str]) -> str:
    """The fields of a config that change neither a size nor a time."""
    return f"not needed of the config: {', '.join(names)}" if names else ""


def model_json(size: ModelSize, config: Config | None = None) -> Mapping[str, Any]:
    """A model in the JSON form of a prediction; of a config, its architecture and what is ignored."""
    model = {
        "name": size.name,
        "parameters": size.parameters,
        "active_parameters": size.active_parameters,
    }
    if config is None:
        return model
    return model | {"architecture": config.architecture, "ignored": list(config.ignored)}


def convention_words(plan: Plan, prediction: Prediction) -> str:
    """What causal MFU counts, with the MFU that counts attention in full; "" without MFU."""
    if not prediction.mfu:
        return ""
    return (
        f"Causal MFU counts 6 FLOPs per active matmul parameter and token, and attention without "
        f"the masked pairs. With attention in full, as in many tables, MFU is {prediction.mfu:.1%}. "
        f"A step has {plan.tokens:,} tokens"
    )

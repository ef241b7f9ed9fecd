"""Sentences about a model: its parameters, and by which convention its FLOPs are counted."""

from collections.abc import Sequence

from spmd_core.facts import Prediction
from spmd_core.plan import ModelSize, Plan


def parameters_words(size: ModelSize) -> str:
    """Parameters to the last one; of experts also those that a token visits.

    >>> from spmd_core.plan import get_model
    >>> parameters_words(get_model("mixtral-8x7b"))
    '46,702,792,704 parameters, 12,879,925,248 of them active'
    """
    active = f", {size.active_parameters:,} of them active" if size.experts > 1 else ""
    return f"{size.parameters:,} parameters{active}"


def ignored_words(names: Sequence[str]) -> str:
    """The fields of a config that change neither a size nor a time."""
    return f"not needed of the config: {', '.join(names)}" if names else ""


def convention_words(plan: Plan, prediction: Prediction) -> str:
    """What causal MFU counts, with the MFU that counts attention in full; "" without MFU."""
    if not prediction.mfu:
        return ""
    each = "6 FLOPs per active matmul parameter"
    if plan.lora_rank:
        each = "4 FLOPs per frozen matmul parameter, 6 per parameter of an adapter"
    return (
        f"Causal MFU counts {each} and token, and attention without "
        f"the masked pairs. With attention in full, as in many tables, MFU is {prediction.mfu:.1%}. "
        f"A step has {plan.tokens:,} tokens"
    )

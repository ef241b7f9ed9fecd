"""The base class of validated values, and fields that several of them share."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer


class Frozen(BaseModel):
    """An immutable model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _pairs(value: Any) -> Any:
    """A JSON object, or a list of pairs, as a tuple of pairs; pydantic refuses anything else."""
    return tuple(value.items()) if isinstance(value, Mapping) else value


def _object(pairs: tuple[tuple[str, Any], ...]) -> dict[str, object]:
    return dict(pairs)


PairsOf = BeforeValidator(_pairs)
AsObject = PlainSerializer(_object)

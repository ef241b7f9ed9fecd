"""The base of the validated values, and the fields that several of them have."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer


class Frozen(BaseModel):
    """Immutable; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _pairs(value: Any) -> Any:
    """A JSON object, or a list of pairs, as a tuple of pairs; anything else is left for pydantic to
    refuse.
    """
    if isinstance(value, Mapping):
        return tuple(value.items())
    return value


def _object(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(pairs)


PairsOf = BeforeValidator(_pairs)
AsObject = PlainSerializer(_object)

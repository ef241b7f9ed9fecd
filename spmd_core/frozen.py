"""The base of the validated values."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

"""Remedies for a collective: a change that was compiled and removes it, or why none does."""

from typing import Any, Literal

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment


class Change(Frozen):
    """A change of one field of an experiment, in its JSON form. `name` is the dim, array or option;
    "" if the field has none.
    """

    field: str
    name: str = ""
    before: Any = None
    after: Any = None


class Predicted(Frozen):
    """Seconds of the program before and after the change."""

    before: float
    after: float


class Remedy(Frozen):
    """The smallest compiled change that removes a collective or reduces its time.

    `memory_bytes` is the increase per device (negative: a decrease); `experiment` is what one click
    opens; `removes` is False if the collective remains and takes less time. The seconds are a
    `guess` on simulated devices that were not calibrated; `measured_s` are medians of both, timed
    side by side where predictions left the order open.
    """

    changes: tuple[Change, ...]
    experiment: Experiment
    sentence: str
    memory_bytes: int | None
    predicted_s: Predicted
    removes: bool = True
    strategy: str | None = None  # of the experiment, whose program this is
    predicted_by: Literal["cost model", "calibration", "guess"] = "cost model"
    measured_s: Predicted | None = None


class Nothing(Frozen):
    """Why no change removes it, in a sentence."""

    reason: str


Removal = Remedy | Nothing

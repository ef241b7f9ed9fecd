"""What would remove a collective, as values: a change that was compiled, or why nothing does."""

from typing import Any, Literal

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment


class Change(Frozen):
    """One field of an experiment that is otherwise, as its JSON form writes it: `name` is the dim,
    the array or the option; "" where the field has none.
    """

    field: str
    name: str = ""
    before: Any = None
    after: Any = None


class Predicted(Frozen):
    """Predicted seconds of the program as it is, and as it would be."""

    before: float
    after: float


class Remedy(Frozen):
    """The smallest change found that removes a collective or makes it less, as compiled.

    `memory_bytes` is by how much a device holds more (less where negative); `experiment` is what
    one click opens; `removes` is False where the collective stays and takes less time.
    The seconds are a `guess` on simulated devices that were not calibrated.
    """

    changes: tuple[Change, ...]
    experiment: Experiment
    sentence: str
    memory_bytes: int | None
    predicted_s: Predicted
    removes: bool = True
    strategy: str | None = None  # of the experiment, whose program this is
    predicted_by: Literal["cost model", "calibration", "guess"] = "cost model"


class Nothing(Frozen):
    """Why nothing removes it, in a sentence."""

    reason: str


Removal = Remedy | Nothing

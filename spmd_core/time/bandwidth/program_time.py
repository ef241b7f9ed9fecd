"""What a compiled program and each of its collectives are expected to take, before and after a
change: by the cost model where there is a schedule, else by what is known of the machine.
"""

from dataclasses import dataclass
from typing import Literal

from spmd_core.experiment import Experiment
from spmd_core.results import Collective, StrategyResult
from spmd_core.time.bandwidth.roofline import moved_s, with_roofs
from spmd_core.time.model.duration import Source
from spmd_core.time.model.time_model import TimeModel

PredictedBy = Literal["cost model", "calibration", "guess"]
_BY: dict[Source, PredictedBy] = {
    "nominal": "cost model",
    "calibrated": "calibration",
    "guessed": "guess",
}


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Seconds of a program, and of each of its collectives what the devices wait for it."""

    total_s: float
    each_s: tuple[float, ...]
    by: PredictedBy = "cost model"


def program_time(
    experiment: Experiment, strategy: str, found: StrategyResult, times: TimeModel
) -> ProgramTime | None:
    """What a strategy's compiled program is expected to take; None where nothing predicts it, or
    its collectives are not known.
    """
    collectives = found.collectives
    if collectives is None:
        return None
    if found.prediction is not None:
        time = found.prediction.predicted_s
        return time and ProgramTime(time.estimate, tuple(map(_waited_s, collectives)))
    bare = found.model_copy(update={"predicted_s": None})
    time = with_roofs(experiment, strategy, bare, times).predicted_s
    each = moved_s(experiment, collectives, times)
    if time is None or each is None:
        return None
    return ProgramTime(time.estimate, tuple(each), _BY[times.source])


def _waited_s(each: Collective) -> float:
    return each.exposed_in_all_s if each.exposed_s is not None else each.total_s

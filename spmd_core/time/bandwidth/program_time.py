"""What a compiled program and each of its collectives are expected to take, before and after a
change: by the cost model where there is a schedule, else by what is known of the machine.
"""

from dataclasses import dataclass
from typing import Literal

from spmd_core.experiment import Experiment
from spmd_core.results import Collective, StrategyResult
from spmd_core.time.bandwidth.roofline import moved_s, with_roofs
from spmd_core.time.model.duration import Source
from spmd_core.time.model.time_model import OFF as OFF_CALIBRATED, OFF_AS_MANY, TimeModel

PredictedBy = Literal["cost model", "calibration", "guess"]
FASTER = 0.995  # of a program's time, by the cost model: what is within this is the same
# How far predictions of two programs on a machine that is here may be off, either way: what the
# cost model leaves out of a topology is left out of both.
OFF: dict[PredictedBy, float] = {"calibration": OFF_CALIBRATED, "guess": OFF_AS_MANY}
_BY: dict[Source, PredictedBy] = {
    "nominal": "cost model",
    "calibrated": "calibration",
    "guessed": "guess",
}


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Seconds of a program, and of each of its collectives what the devices wait for it;
    `floor_s`: what a call of any program takes there.
    """

    total_s: float
    each_s: tuple[float, ...]
    by: PredictedBy = "cost model"
    floor_s: float = 0.0

    def is_less_than(self, other: "ProgramTime") -> bool:
        """Whether it is predicted to take less time by more than predictions are off: of programs
        near the dispatch floor a calibration knows little else.
        """
        if other.by not in OFF:
            return self.total_s <= FASTER * other.total_s
        off = 1 + OFF[other.by]
        return self.total_s * off + other.floor_s < other.total_s / off


def program_time(
    experiment: Experiment, strategy: str, outcome: StrategyResult, times: TimeModel
) -> ProgramTime | None:
    """What a strategy's compiled program is expected to take; None where nothing predicts it, or
    its collectives are not known.
    """
    collectives = outcome.collectives
    if collectives is None:
        return None
    if outcome.prediction is not None:
        time = outcome.prediction.predicted_s
        return time and ProgramTime(time.estimate, tuple(map(_waited_s, collectives)))
    bare = outcome.model_copy(update={"predicted_s": None})
    time = with_roofs(experiment, strategy, bare, times).predicted_s
    each = moved_s(experiment, collectives, times)
    if time is None or each is None:
        return None
    return ProgramTime(time.estimate, tuple(each), _BY[times.source], times.floor_s)


def _waited_s(each: Collective) -> float:
    return each.exposed_in_all_s if each.exposed_s is not None else each.total_s

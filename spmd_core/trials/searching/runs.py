"""The runs of one search: its compiles side by side, and its timed runs one by one."""

from spmd_core.experiment import Experiment
from spmd_core.lab import Batch
from spmd_core.results import SPREAD_WARNING, Result
from spmd_core.runs import RunStatus


class Runs(Batch):
    """A batch whose timed runs are repeated where something else ran on the machine."""

    disturbed: int = 0  # how many were measured again

    def steady(self, experiment: Experiment) -> tuple[RunStatus | None, Result | None]:
        """The same as `run`, a second time where the times spread as on a busy machine: the
        steadier of both.
        """
        first = self.run(experiment)
        if first[1] is None or spread(first[1]) <= SPREAD_WARNING or self.is_over:
            return first
        self.disturbed += 1
        second = self.run(experiment)
        steadier = second[1] is not None and spread(second[1]) < spread(first[1])
        return second if steadier else first


def spread(result: Result) -> float:
    """The middle half of the samples over their median, of the strategy where it is largest."""
    return max(
        (
            outcome.iqr_s / outcome.median_s
            for outcome in result.strategies.values()
            if outcome.iqr_s is not None and outcome.median_s
        ),
        default=0.0,
    )

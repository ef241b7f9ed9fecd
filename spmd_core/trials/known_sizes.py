"""The next thing to try, by runs at other sizes."""

from collections.abc import Sequence

from spmd_core.advice import ONE_DEVICE_WINS
from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.lab import Lab
from spmd_core.results import Result
from spmd_core.surveys import size_headline
from spmd_core.sweeps import POINTS, SizePoint, at_sizes, begins, point_of
from spmd_core.words import sharding_verdict


def sizes_of(result: Result, points: int = POINTS) -> tuple[Experiment, ...]:
    """Returns the sizes at which a result's sharding may begin to win: smaller ones where it has won.

    Raises:
      RequestError: its experiment cannot be varied so.
    """
    kind, _ = sharding_verdict(result) or ("", "")
    return at_sizes(result.experiment, points, is_won=kind == "faster")


def known_sizes(lab: Lab, experiments: Sequence[Experiment]) -> list[SizePoint]:
    """Returns each size with its newest stored run."""
    runs = [(each, lab.latest(each)) for each in experiments]
    return [point_of(each, lab.result(run) if run else None) for each, run in runs]


def with_known_sizes(lab: Lab, result: Result) -> Result:
    """Returns a result whose advice to try a larger size agrees with the sizes that are stored.

    Args:
      lab: the store of runs.
      result: a result with its next thing to try.

    Returns:
      The result with the size at which sharding begins to win as its next thing to try, or with
      none where sharding does not win at sizes as large as the advised one.
    """
    advice = result.next
    if advice is None or advice.rule != ONE_DEVICE_WINS:
        return result
    try:
        points = known_sizes(lab, at_sizes(result.experiment))
    except RequestError:
        return result
    first = begins(points)
    if first is not None:
        better = advice.model_copy(
            update={"experiment": first.experiment, "sentence": size_headline(points)}
        )
        return result.model_copy(update={"next": better})
    largest = max((_bytes(each.experiment) for each in points if each.wins is not None), default=0)
    refuted = largest >= _bytes(advice.experiment)
    return result.model_copy(update={"next": None}) if refuted else result


def _bytes(experiment: Experiment) -> int:
    return experiment.what.operand_bytes(experiment.sizes, experiment.dtype)

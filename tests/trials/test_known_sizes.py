"""Advice to try a larger size agrees with the sizes that are stored."""

import pytest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.advice import ONE_DEVICE_WINS, next_step
from spmd_core.lab import Lab
from spmd_core.results import Result
from spmd_core.sweeps import at_sizes
from spmd_core.trials import known_sizes, with_stored_answers
from tests.labs import experiment
from tests.ui.predictions import store

pytestmark = pytest.mark.fast

LAYER = {
    "workload": "layer",
    "dims": {"in": 32, "out": 4},
    "sharding": {"in": "x"},
    "strategies": ["single", "auto"],
}


def timed(asked, run: str, *, sharded_wins: bool) -> Result:
    times = {"single": 2e-3, "auto": 1e-3 if sharded_wins else 6e-3}
    best, other = sorted(times, key=lambda name: times[name])
    ratio = times[other] / times[best]
    return Result.model_validate(
        {
            "run": run,
            "experiment": asked,
            "environment": ENVIRONMENT,
            "strategies": {name: strategy(seconds) for name, seconds in times.items()},
            "comparison": comparison(best, (other, ratio, True)),
        }
    )


@pytest.mark.parametrize("wins_from", [None, 3])
def test_stored_sizes_refute_or_name_the_size_of_the_advice(data_folder, wins_from):
    base = timed(experiment(**LAYER), "20260101-000000-aaaaaa", sharded_wins=False)
    base = base.model_copy(update={"next": next_step(base)})
    assert base.next and base.next.rule == ONE_DEVICE_WINS
    lab = Lab.open(data_folder, serve=False)
    assert with_stored_answers(lab, base) == base, "no size is known"
    sizes = at_sizes(base.experiment)
    for at, each in enumerate(sizes):
        wins = wins_from is not None and at >= wins_from
        store(data_folder, timed(each, f"20260101-00000{at}-bbbbbb", sharded_wins=wins))
    assert [point.wins for point in known_sizes(lab, sizes)][-1] is (wins_from is not None)
    advice = with_stored_answers(lab, base).next
    if wins_from is None:
        assert advice is None, "Sizes has it that one device is faster there"
    else:
        assert advice.experiment == sizes[wins_from]
        assert advice.sentence.startswith("Sharding begins to win between in=")

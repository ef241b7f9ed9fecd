"""Pipelines: what a schedule's stages do when, against closed forms, the longest path and a step by
hand.
"""

import pytest

from bench.pipelines import BUBBLES, differing
from spmd_core.base import RequestError
from spmd_core.plan import SCHEDULES, check_schedule
from spmd_core.time import simulate_pipeline


@pytest.mark.parametrize("name", SCHEDULES)
def test_drawn_pipelines_take_and_hold_what_their_formulas_have(name):
    assert not any(differing(SCHEDULES[name], seed=1).values())


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_of_many_microbatches_has_the_bubble_of_its_closed_form(name):
    stage, count, microbatches = (1.0, 1.25, 0.5), 16, 2048
    chunks = 2 if SCHEDULES[name].in_chunks else 1
    found = simulate_pipeline(SCHEDULES[name], microbatches, [stage] * count, chunks=chunks)
    bubble = (count - 1) * BUBBLES[name](*stage, chunks)
    assert found.seconds == pytest.approx(microbatches * sum(stage) + bubble, rel=1e-12)


@pytest.mark.parametrize("apart", [1e-7, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("name", SCHEDULES)
def test_stages_that_drift_apart_take_as_long_as_their_last_piece(name, apart):
    chunks = 2 if SCHEDULES[name].in_chunks else 1
    stages = [(1 + apart * each, 1.25 - apart * (each % 3), 0.5) for each in range(4)]
    found = simulate_pipeline(SCHEDULES[name], 256, stages, [0.1] * 4, chunks)
    last = max(run.end for run in found.runs())
    assert last <= found.seconds * (1 + 1e-12) and found.seconds <= last * (1 + 1e-4)
    assert min(found.idle) >= 0


def test_two_stages_by_hand():
    """F 1, B 2 and W 1 of both stages, a hop of half a second: the second stage begins at 1.5, its
    first backward ends at 5.5, that of the first stage begins at 6.
    """
    found = simulate_pipeline(SCHEDULES["1f1b"], 2, [(1.0, 2.0, 1.0)] * 2, (0.5, 9.0))
    assert [tuple(run) for run in found.runs() if run.stage == 1] == [
        (1, "F", 0, 0, 1.5, 2.5),
        (1, "B", 0, 0, 2.5, 5.5),
        (1, "F", 1, 0, 5.5, 6.5),
        (1, "B", 1, 0, 6.5, 9.5),
    ]
    assert found.seconds == 13.0 and found.idle == (5.0, 5.0)
    assert found.bubble == pytest.approx(5 / 13)


def test_a_circular_pipeline_idles_the_share_that_maxtext_states():
    stages, repeats, microbatches = 4, 3, 8
    found = simulate_pipeline(
        SCHEDULES["circular"], microbatches, [(1.0, 1.5, 0.5)] * stages, chunks=repeats
    )
    share = (stages - 1) / (repeats * microbatches + stages - 1)
    assert found.bubble == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "numbers", "words"),
    [
        (
            "gpipe",
            (4, 8, 2),
            "repeats=2 means nothing to gpipe, whose stages are one run of layers each: use "
            "interleaved or circular",
        ),
        (
            "interleaved",
            (4, 6, 2),
            "microbatches=6 does not divide over stage=4, as interleaved needs: use 4",
        ),
        (
            "gpipe",
            (64, 4096, 1),
            "microbatches=4096 makes more than the 65,536 forward passes of stages that are "
            "simulated: use 1024",
        ),
        (
            "circular",
            (4, 3, 2),
            "microbatches=3 is fewer than stage=4, and a circular pipeline would wait for itself: "
            "use 4",
        ),
    ],
)
def test_a_pipeline_that_a_schedule_does_not_have_is_refused(name, numbers, words):
    with pytest.raises(RequestError, match=f"^{words}$"):
        check_schedule(SCHEDULES[name], *numbers)

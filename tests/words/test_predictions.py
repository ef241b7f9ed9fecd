"""The sentences about predictions."""

import pytest

from spmd_core.results import Estimate, PredictedMemory, Prediction
from spmd_core.words import in_sentences
from spmd_core.words.predictions import (
    answer,
    compiled_words,
    estimate,
    headline,
    measured_words,
    off_words,
    part_kind,
    parts,
    run_words,
)
from tests.ui.predictions import MODEL, TOKENS, TOO_LARGE, predicted, prediction

STORED = prediction().model_dump(mode="json") | {"mfu": 17.2, "tflops_per_chip": 3400.0}
STEP_S = prediction().predicted_s.estimate


def test_the_answer_says_how_long_and_what_binds():
    assert headline(prediction()) == (
        "Step time 16.2 ms at 86.1% MFU, compute-bound. 8.0 GiB of 15.8 GiB per device: fits."
    )
    assert headline(prediction(), step=False).startswith("Time 16.2 ms at")


@pytest.mark.parametrize(
    "again", [lambda found: found, lambda found: Prediction.model_validate(STORED)]
)
def test_more_than_the_peak_is_no_utilization_and_says_so(again):
    """FLOPs or peak are counted wrong: neither shown nor clamped, also of what was stored before."""
    found = again(prediction(flops=20 * 256 * 40 * 4096**3))
    assert (found.mfu, found.tflops_per_chip) == (None, None)
    assert found.impossible_mfu == pytest.approx(17.2, rel=0.01)
    assert headline(found).startswith(
        "Step time 16.2 ms, without MFU: FLOPs or peak are counted wrong, compute-bound."
    )
    noted = in_sentences(in_sentences(found))
    assert sum("of what the chips can do in this time" in note for note in noted.notes) == 1
    assert Prediction.model_validate_json(found.model_dump_json()) == found


def test_what_does_not_fit_says_by_how_much():
    assert headline(TOO_LARGE) == (
        "20.0 GiB of 16.0 GiB per device: does not fit, 4.0 GiB too much."
    )


def test_a_run_is_answered_by_its_one_prediction_or_by_all():
    assert answer(predicted()) == headline(prediction())
    assert answer(predicted(auto=TOO_LARGE)) == headline(TOO_LARGE)


def test_a_training_run_in_steps_days_and_chip_hours():
    words = run_words(prediction(), MODEL.plan, 1e12)
    steps = 1e12 / TOKENS
    assert words is not None
    assert words.startswith(
        f"{steps:,.0f} steps, {steps * STEP_S / 3600:,.3g} hours without a stop"
    )
    assert words.endswith(f"{256 * steps * STEP_S / 3600:,.0f} chip-hours on 256 chips")
    assert run_words(TOO_LARGE, MODEL.plan, 1e12) is None


def test_a_measured_time_is_inside_or_outside():
    assert measured_words(prediction(), 0.016) == (
        "The estimate is 1.3% slower than measured (16 ms), which is inside the predicted interval."
    )
    assert "outside" in (measured_words(prediction(), 0.2) or "")


def test_an_estimate_before_compiling_cannot_be_read_both_ways():
    plan = MODEL.plan
    gib = 2.0**30
    room = plan.topology.chip.device_hbm_bytes
    capacity = f"{room / gib:.1f} GiB"
    assert estimate(guess(86.7 * gib, room)) == (
        f"86.7 GiB of {capacity} per device: does not fit, 70.9 GiB too much."
    )
    assert estimate(guess(8 * gib, room)) == f"8.0 GiB of {capacity} per device: should fit."


def test_host_memory_stands_beside_that_of_the_device():
    gib = 2**30
    held = guess(8 * gib, 16 * gib, host=5 * gib, room=7 * gib)
    assert estimate(held) == (
        "8.0 GiB of 16.0 GiB per device, 5.0 GiB of 7.0 GiB of host memory: should fit."
    )
    over = guess(8 * gib, 16 * gib, host=9 * gib, room=7 * gib)
    assert not over.is_timed
    assert estimate(over) == (
        "8.0 GiB of 16.0 GiB per device, 9.0 GiB of 7.0 GiB of host memory: does not fit, 2.0 GiB of "
        "host memory too much."
    )


def guess(peak, capacity, low=None, high=None, host=0, room=2**40):
    fits = peak <= capacity and host <= room
    memory = PredictedMemory(
        peak=int(peak), capacity=int(capacity), missing=int(max(0, peak - capacity)), host=host
    )
    row = {"peak": peak, "low": low or peak, "high": high or peak, "fits": fits}
    return prediction().model_copy(
        update={
            "fits": fits,
            "compiled": False,
            "memory_bytes": memory,
            "host_capacity_bytes": room,
            "before_compiling": row,
        }
    )


def test_an_interval_that_the_capacity_is_in_is_no_should():
    plan = MODEL.plan
    capacity = plan.topology.chip.device_hbm_bytes
    for peak in (0.97, 1.02):
        found = guess(peak * capacity, capacity, 0.9 * capacity, 1.1 * capacity)
        assert found.is_timed and estimate(found).endswith("per device: may not fit.")
    found = guess(0.8 * capacity, capacity, 0.7 * capacity, 0.9 * capacity)
    assert estimate(found).endswith("per device: should fit.")


def test_what_compiling_changed_of_the_estimate_is_one_sentence():
    guess = prediction().model_copy(
        update={
            "predicted_s": Estimate(low=0.010, estimate=0.013, high=0.015),
            "before_compiling": {"low": 7 * 2**30, "high": 9 * 2**30},
            "binds": "memory",
        }
    )
    assert compiled_words(guess, prediction()) == (
        "Compiled against the estimate: time +25% (13 ms -> 16.2 ms), memory as estimated "
        "(8.0 GiB), HBM-bound -> compute-bound; the time left the estimate's interval."
    )
    over = compiled_words(guess, TOO_LARGE)
    assert over == (
        "Compiled against the estimate: memory +150% (8.0 GiB -> 20.0 GiB); "
        "the memory left the estimate's interval."
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (-0.147, "15% faster than measured"),
        (0.031, "3% slower than measured"),
        (0.0004, "as measured"),
    ],
)
def test_an_error_says_its_direction(error, words):
    assert off_words(error) == words


def test_shares_of_kernels_are_named_by_what_they_are():
    shares = {"kernel": 3.0, "grouped kernel": 2.0, "other kernel": 1.0}
    shown = parts(prediction().model_copy(update={"shares_s": shares}))
    assert list(shown) == ["attention kernels", "grouped matmuls", "other kernels"]
    assert {part_kind(part) for part in shown} == {"kernel"}

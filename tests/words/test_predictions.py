"""The sentences about predictions."""

import pytest

from spmd_core.advice import in_words
from spmd_core.facts import AxisOrigin, Collective, PredictedMemory, Prediction
from spmd_core.terms import convention_words
from spmd_core.time import estimate_step
from spmd_core.words import in_sentences, limit_words, requested_words, waits_words
from spmd_core.words.predictions import (
    answer,
    bound_words,
    estimate,
    headline,
    measured_words,
    notes_of_parts,
    off_words,
    part_kind,
    parts,
    run_words,
    share_words,
    step_estimate,
)
from spmd_core.workloads import parse_plan
from spmd_lab.ui.charts.shares import split_bar
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
    assert estimate(guess(8 * gib, room)) == f"8.0 GiB of {capacity} per device: fits."


def test_host_memory_stands_beside_that_of_the_device():
    gib = 2**30
    held = guess(8 * gib, 16 * gib, host=5 * gib, room=7 * gib)
    assert estimate(held) == (
        "8.0 GiB of 16.0 GiB per device, 5.0 GiB of 7.0 GiB of host memory: fits."
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
    assert estimate(found).endswith("per device: fits.")


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


LONG = {"target": "tpu:v5p:8x8x8", "model": "llama-3.1-8b", "mesh": {"fsdp": 512}}


def test_what_is_shown_first_is_the_causal_mfu_and_the_key_keeps_its_convention():
    plan = parse_plan(LONG | {"batch_per_device": 1, "sequence": 131_072})
    found = estimate_step(plan)
    step = plan.topology.chips * plan.topology.chip.peak_flops * found.predicted_s.estimate
    size, tokens = plan.size, plan.tokens
    pairs = 12 * size.layers * size.heads * size.head_dim * tokens * plan.sequence
    assert found.mfu == pytest.approx((6 * size.matmul_parameters * tokens + pairs) / step)
    kept = pairs * (plan.sequence + 1) / 2 / plan.sequence
    assert found.mfu_causal == pytest.approx((6 * size.matmul_parameters * tokens + kept) / step)
    assert f"at {found.mfu_causal:.1%} causal MFU, " in step_estimate(found)
    assert f"MFU is {found.mfu:.1%}" in convention_words(plan, found)


def test_a_stored_prediction_of_before_has_its_causal_mfu_when_it_is_read():
    (outcome,) = in_words(predicted()).strategies.values()
    stored = prediction()
    assert stored.mfu_causal is None
    assert outcome.prediction.mfu_causal == stored.mfu * MODEL.plan.causal_share


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"matmul": 6, "kernel": 1, "memory": 4}, "compute-bound"),
        ({"matmul": 3, "kernel": 3, "memory": 5}, "largest share HBM-bound operations (45%)"),
        ({"kernel": 9, "matmul": 1}, "largest share attention kernels (90%)"),
        # 4,096 v5e of a small model: communication in three parts is more than matmuls
        (
            {"matmul": 37, "kernel": 15, "exposed: a b": 25, "exposed: a": 8, "wait: slices": 9},
            "largest share communication (45%)",
        ),
        ({"matmul": 33, "wait: send": 40, "exposed: a": 20}, "DCN-bound"),
        ({"matmul": 3, "grouped kernel": 3, "memory": 5}, "compute-bound"),
        ({"matmul": 5, "memory": 3, "exposed: fsdp": 2}, "largest share matrix products (50%)"),
        (
            {"matmul": 2, "kernel": 2, "memory": 3, "wait: host": 1, "exposed: a b": 1},
            "largest share HBM-bound operations (33%)",
        ),
        ({"exposed: a b": 2, "exposed: c": 4, "matmul": 5}, "interconnect-bound"),
        ({"other kernel": 9, "matmul": 1}, "largest share other kernels (90%)"),
        ({}, "–"),
    ],
)
def test_a_resource_bounds_a_step_only_where_it_takes_over_half_of_it(shares, words):
    assert bound_words(shares) == words


def test_what_is_exposed_is_shared_out_by_mesh_axes():
    plan = parse_plan(LONG | {"mesh": {"fsdp": 64, "tensor": 8}, "batch_per_device": 1})
    found = estimate_step(plan)
    by_axis = found.shares_by_axis
    exposed = {name: s for name, s in by_axis.items() if name.startswith("exposed: ")}
    assert {"exposed: fsdp", "exposed: tensor"} <= set(exposed)
    assert sum(by_axis.values()) == pytest.approx(sum(found.shares_s.values()))
    tensor = sum(each.exposed_in_all_s for each in found.collectives if each.axes == ("tensor",))
    assert exposed["exposed: tensor"] == pytest.approx(tensor)
    assert share_words("exposed: fsdp tensor") == "exposed over fsdp and tensor"


@pytest.mark.parametrize(("mfu", "is_among"), [(None, False), (0.05, False), (0.2, True)])
def test_a_share_of_what_is_hbm_bound_says_that_products_are_among_it(mfu, is_among):
    """All products make the MFU: above the share of those bound by compute it has others."""
    shares = {"matmul": 0.1, "memory": 0.8, "wait: all-gather": 0.1}
    of = prediction().model_copy(update={"shares_s": shares, "mfu": mfu})
    noted = {"HBM-bound operations": ", products among them"}
    assert notes_of_parts(of) == (noted if is_among else {})
    bar = split_bar(parts(of), notes=notes_of_parts(of))
    assert ("80.0%, products among them" in bar) is is_among


def test_the_share_that_waits_is_that_of_the_axes_and_collectives_that_it_names():
    def moved(kind, axis, seconds, asked=None):
        size = {"count": 1, "bytes": 2**20, "exposed_total_s": seconds, "exposed_s": seconds}
        return Collective(kind=kind, axes=(axis,), asked=asked, **size)

    every = (
        moved("all-gather", "tensor", 0.02),
        moved("collective-permute", "tensor", 0.01, "reduce-scatter"),
        moved("all-reduce", "fsdp", 0.002),
    )
    waits = {"wait: all-gather": 0.02, "wait: collective-permute": 0.01, "wait: all-reduce": 0.002}
    found = prediction().model_copy(
        update={"shares_s": {"matmul": 0.068, **waits}, "collectives": every}
    )
    words = "30% of the step waits for all-gather and reduce-scatter over tensor"
    assert limit_words(found) == words
    assert waits_words(found.shares_by_axis, every) == words, "compiled or not"
    assert waits_words({"matmul": 0.95, "exposed: tensor": 0.05}, every) == "", "too little"


@pytest.mark.parametrize(
    ("work_s", "hides"),
    [(0.002, "the other 2 ms of the step can hide no more than that."), (0.02, "could hide it: call it before the work that")],
)  # fmt: skip
def test_what_a_program_requests_itself_is_told_with_what_could_hide_it(work_s, hides):
    """A ring in shard_map: no spec removes it, and the line is the author's own."""

    def moved(kind):
        origin = AxisOrigin(axis="x", kind=kind, name="ppermute", source="step.py:12")
        size = {"count": 8, "bytes": 2**20, "seconds_total": 0.012, "exposed_total_s": 0.011}
        own = {"origin": (origin,), "source": "step.py:12", "exposed_s": 0.0014, "seconds": 0.0015}
        return Collective(kind="collective-permute", axes=("x",), **size, **own)

    shares = {"matmul": work_s, "wait: collective-permute": 0.011}
    of = prediction().model_copy(update={"shares_s": shares, "collectives": (moved("shard_map"),)})
    told = requested_words(of)
    assert told.startswith(
        "The program itself calls ppermute at step.py:12, so no spec removes it. It takes 12 ms; "
    )
    assert hides in told
    other = of.model_copy(update={"collectives": (moved("argument"),)})
    assert requested_words(other) == "", "a spec may remove it"

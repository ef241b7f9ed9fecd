"""Sweeps: points and their refusals, topologies for a number of chips, curves and efficiency by
hand, the answer in words.
"""

import csv
import io
from dataclasses import replace

import pytest

from spmd_core.answers import point_state, points_table
from spmd_core.base import RequestError, number_text
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import Collective, Estimate, PredictedMemory, Prediction
from spmd_core.machine import nearest_of_chips, topology_of_chips
from spmd_core.results import Failure, StrategyResult
from spmd_core.search import REMATS
from spmd_core.surveys import (
    above_words,
    may_fall_short,
    reach_words,
    scaled_rows,
    sweep_headline,
    sweep_notes,
)
from spmd_core.sweeps import (
    VARIABLES,
    Sweep,
    SweepPoint,
    best_mesh,
    compile_seconds,
    estimated,
    least_memory,
    parse_sweep,
    to_compile,
    variants,
)
from spmd_core.sweeps.curves import (
    PUBLISHED_SPAN,
    Numbers,
    Outcome,
    csv_text,
    curves,
    numbers_of,
    outcome_of,
    row_json,
)
from spmd_core.time import estimate_step
from spmd_core.workloads import DEFAULT_SPEC

GIB = 2**30


def decoder(**changes) -> Experiment:
    return parse_experiment({**DEFAULT_SPEC, **changes})


WIDE = decoder(
    target="tpu:v5p:4x4x4", mesh={"fsdp": 16, "tensor": 4}, dims={"batch": 384, "sequence": 2048}
)
LAYER = parse_experiment(
    {
        "workload": "layer",
        "target": "tpu:v5e:4x4",
        "mesh": {"x": 8, "y": 2},
        "dims": {"batch": 256, "in": 64, "out": 32},
        "sharding": {"batch": "x", "out": "y"},
        "strategies": ["single", "auto", "shard_map"],
    }
)


def points(base: Experiment, text: str, scaling="weak") -> tuple[SweepPoint, ...]:
    return variants(parse_sweep(base, text, scaling))


def placed(found: tuple[SweepPoint, ...]) -> list:
    return [
        (point.experiment.target, point.experiment.axis_sizes, point.experiment.sizes["batch"])
        if point.experiment
        else point.refusal
        for point in found
    ]


@pytest.mark.parametrize(
    ("generation", "chips", "name"),
    [
        ("v5p", 8, "v5p:2x2x2"),
        ("v5p", 64, "v5p:4x4x4"),
        ("v5p", 256, "v5p:4x8x8"),
        ("v5p", 4096, "v5p:16x16x16"),
        ("v5p", 17920, "v5p:16x20x28*2"),
        ("v5e", 8, "v5e:2x4"),
        ("v5e", 256, "v5e:16x16"),
        ("v5e", 512, "v5e:16x16*2"),
        ("v5e", 4096, "v5e:16x16*16"),
        ("v5e", 384, "v5e:8x16*3"),
        ("v4", 4096, "v4:16x16x16"),
        ("v3", 1024, "v3:32x32"),
        ("tpu7x", 4096, "tpu7x:16x16x16"),
        ("v5p", 8192, "v5p:16x16x16*2"),
        ("tpu7x", 8192, "tpu7x:16x16x16*2"),
    ],
)
def test_chips_become_the_most_torus_like_slice_and_beyond_it_several(generation, chips, name):
    topology = topology_of_chips(generation, chips)
    assert (topology.name, topology.chips) == (name, chips)


@pytest.mark.parametrize(
    ("generation", "chips", "words"),
    [
        ("v5e", 24, "chips=24 do not form slices of TPU v5e: use 16 or 32"),
        ("v5p", 100, "chips=100 do not form slices of TPU v5p: use 64 or 128"),
        ("v3", 8, "chips=8 do not form slices of TPU v3: use 4 or 16"),
        ("v5e", 257, None),
        ("v5e", 65536 * 4, "use a multiple of 256"),
    ],
)
def test_chips_that_no_slice_has_are_refused_with_the_nearest(generation, chips, words):
    if words is None:
        with pytest.raises(RequestError, match="use a multiple of 256"):
            topology_of_chips(generation, chips)
        return
    with pytest.raises(RequestError) as caught:
        topology_of_chips(generation, chips)
    assert words in str(caught.value)


def test_another_generation_takes_the_nearest_number_of_chips():
    assert nearest_of_chips("v3", 8).name in ("v3:2x2", "v3:4x4")
    assert nearest_of_chips("v5e", 512).name == "v5e:16x16*2"


def test_weak_scaling_grows_fsdp_and_the_batch_and_keeps_tensor():
    assert placed(points(WIDE, "chips=8,64,512,4096")) == [
        ("tpu:v5p:2x2x2", {"fsdp": 2, "tensor": 4}, 48),
        ("tpu:v5p:4x4x4", {"fsdp": 16, "tensor": 4}, 384),
        ("tpu:v5p:8x8x8", {"fsdp": 128, "tensor": 4}, 3072),
        ("tpu:v5p:16x16x16", {"fsdp": 1024, "tensor": 4}, 24576),
    ]


def test_strong_scaling_keeps_the_total_batch_until_it_does_not_divide():
    found = placed(points(WIDE, "chips=8,64,512,4096", "strong"))
    assert found[:3] == [
        ("tpu:v5p:2x2x2", {"fsdp": 2, "tensor": 4}, 384),
        ("tpu:v5p:4x4x4", {"fsdp": 16, "tensor": 4}, 384),
        ("tpu:v5p:8x8x8", {"fsdp": 128, "tensor": 4}, 384),
    ]
    assert "384 sequences a step do not divide over fsdp of the mesh" in found[3]


def test_beyond_a_slice_the_batch_is_cut_over_slices_outermost():
    assert placed(points(decoder(), "chips=256,1024,2048")) == [
        ("tpu:v5e:16x16", {"fsdp": 256}, 512),
        ("tpu:v5e:16x16*4", {"data": 4, "fsdp": 256}, 2048),
        ("tpu:v5e:16x16*8", {"data": 8, "fsdp": 256}, 4096),
    ]
    over_slices = decoder(
        target="tpu:v5e:16x16*2", mesh={"fsdp": 512}, dims={"batch": 512, "sequence": 2048}
    )
    assert placed(points(over_slices, "chips=256,512,1024")) == [
        ("tpu:v5e:16x16", {"fsdp": 256}, 256),
        ("tpu:v5e:16x16*2", {"fsdp": 512}, 512),
        ("tpu:v5e:16x16*4", {"fsdp": 1024}, 1024),
    ]


def test_a_point_that_cannot_be_is_there_with_its_reason():
    found = points(
        decoder(
            target="tpu:v5e:8x8",
            mesh={"fsdp": 4, "tensor": 16},
            dims={"batch": 64, "sequence": 2048},
        ),
        "chips=8,24,64",
    )
    assert [point.label for point in found] == ["8", "24", "64"]
    assert (
        found[0].refusal == "8 devices in all of v5e:2x4 do not divide over tensor=16: "
        "use multiples of 16, or start the sweep from fsdp=1,tensor=8"
    )
    assert found[1].refusal == "chips=24 do not form slices of TPU v5e: use 16 or 32"
    assert found[2].refusal is None and found[2].experiment is not None


def test_generations_keep_chips_batch_and_where_it_fills_the_mesh():
    assert placed(points(WIDE, "generation=v5p,v5e,tpu7x,v3")) == [
        ("tpu:v5p:4x4x4", {"fsdp": 16, "tensor": 4}, 384),
        ("tpu:v5e:8x8", {"fsdp": 16, "tensor": 4}, 384),
        ("tpu:tpu7x:4x4x4", {"fsdp": 32, "tensor": 4}, 384),
        ("tpu:v3:8x8", {"fsdp": 32, "tensor": 4}, 384),
    ]
    assert [point.label for point in points(WIDE, "generation=v5e")] == ["v5e:8x8"]
    sharded = decoder(target="tpu:v5p:4x4x4", mesh={"fsdp": 64}, dims={"batch": 64})
    assert placed(points(sharded, "generation=h100")) == [("gpu:h100:8x8", {"fsdp": 64}, 64)]


def test_batch_sequence_and_mesh_change_that_alone():
    assert [
        point.experiment.sizes["batch"] for point in points(WIDE, "batch-per-device=0.25,1,6")
    ] == [16, 64, 384]
    assert [point.experiment.sizes["sequence"] for point in points(WIDE, "sequence=1024,4096")] == [
        1024,
        4096,
    ]
    fine, short, odd = points(WIDE, "mesh=fsdp=64;fsdp=32;fsdp=4,tensor=16")
    assert (fine.experiment.axis_sizes, fine.experiment.sizes["batch"]) == ({"fsdp": 64}, 384)
    assert (
        short.refusal
        == "mesh fsdp=32 has 32 devices and does not fill tpu:v5p:4x4x4 with its 64: make the "
        "axes multiply to 64"
    )
    assert odd.experiment.axis_sizes == {"fsdp": 4, "tensor": 16}
    assert (
        "do not divide over 16 shards" in points(WIDE, "batch-per-device=0.1")[0].refusal
        or "not a whole number" in points(WIDE, "batch-per-device=0.1")[0].refusal
    )


def test_other_workloads_are_varied_under_one_strategy():
    found = points(LAYER, "chips=8,64")
    assert placed(found) == [
        ("tpu:v5e:2x4", {"x": 4, "y": 2}, 128),
        ("tpu:v5e:8x8", {"x": 32, "y": 2}, 1024),
    ]
    assert [point.experiment.strategies for point in found] == [("auto",), ("auto",)]
    assert [point.expected_bytes for point in found] == [None, None]
    refused = points(LAYER, "sequence=128")[0]
    assert (
        refused.refusal
        == "workload layer has no dim 'sequence' here: vary something else, it has batch, in, out"
    )


def test_sizes_tell_before_compiling_what_does_not_fit():
    large = decoder(
        dims={"batch": 32, "sequence": 2048}, options={"model": "llama-2-13b", "remat": "full"}
    )
    found = points(large, "chips=8,64,256")
    assert [point.is_too_large for point in found] == [True, False, False]
    assert found[0].expected_bytes > found[1].expected_bytes > found[2].expected_bytes
    assert found[0].capacity_bytes == int(15.75 * GIB)
    assert compile_seconds(found[0]) == 60.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "colour=1",
            "sweep 'colour=1' does not say what to vary, of batch-per-device, sequence, mesh, "
            "generation, chips",
        ),
        ("chips", "does not say what to vary"),
        ("chips=", "sweep over chips names no values: write for example chips"[:36]),
        ("chips=8,x", "chips='x' is not a size"),
        ("chips=8,-1", "chips='-1' is not a size"),
        ("chips=8.5", "chips='8.5' is not a size"),
        ("chips=8,8", "chips=8 appears twice"),
        ("chips=99999999", "is not a size"),
        ("sequence=nan", "is not a size"),
        ("chips=inf", "is not a size"),
        ("generation=v5e,v9", "generation 'v9' is not one that the TPU compiler knows"),
        ("mesh=fsdp", "mesh 'fsdp' is not a list of axes"),
        ("chips=" + ",".join(map(str, range(1, 30))), "sweep of 29 values is longer than 24"),
    ],
)
def test_a_sweep_that_says_nothing_is_refused(text, words):
    with pytest.raises(RequestError) as caught:
        parse_sweep(WIDE, text)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("base", [decoder(), WIDE, LAYER], ids=["decoder", "with tensor", "layer"])
def test_default_values_can_all_be_and_are_read_back(base):
    for vary, variable in VARIABLES.items():
        if variable.needs not in (None, *base.sizes):
            continue
        values = variable.default(base)
        sweep = Sweep(base, vary, values)
        assert parse_sweep(base, sweep.text) == sweep
        found = variants(sweep)
        assert [point.refusal for point in found] == [None] * len(values)
        assert any(
            (point.experiment.target, point.experiment.mesh, point.experiment.dims)
            == (base.target, base.mesh, base.dims)
            for point in found
        )


# Curves
# ------------------------------------------------------------------------------------------------------------------


def prediction(step_s: float, chips: int = 8, flops: float = 1e15, **changes) -> Prediction:
    """A prediction of a step; flops in all."""
    collective = Collective(
        kind="all-gather",
        axes=("fsdp",),
        bytes=1,
        count=1,
        seconds=step_s,
        exposed_s=0.1 * step_s,
        route="",
        name="a",
    )
    other = collective.model_copy(update={"kind": "all-reduce", "exposed_s": 0.05 * step_s})
    return Prediction(
        **{
            "fits": True,
            "memory_bytes": PredictedMemory(peak=8 * GIB, capacity=16 * GIB),
            "predicted_s": Estimate(low=0.8 * step_s, estimate=step_s, high=1.25 * step_s),
            "mfu": flops / chips / step_s / 2e14,
            "tflops_per_chip": flops / chips / step_s / 1e12,
            "tokens_per_s_per_chip": 1000 / step_s,
            "binds": "compute",
            "shares_s": {"matmul": 0.7 * step_s, "memory": 0.3 * step_s},
            "collectives": (collective, collective, other),
        }
        | changes
    )


def outcome(step_s: float, run: str = "r", **changes) -> Outcome:
    return outcome_of(run, StrategyResult(status="ok", prediction=prediction(step_s, **changes)))


def test_numbers_of_a_prediction_add_up_what_is_exposed_by_kind():
    found = numbers_of(prediction(2.0))
    assert found.exposed_s == pytest.approx({"all-gather": 0.4, "all-reduce": 0.1})
    assert (found.low_s, found.step_s, found.high_s, found.peak_bytes, found.binds) == (
        1.6,
        2.0,
        2.5,
        8 * GIB,
        "compute",
    )


def test_weak_scaling_efficiency_is_the_ratio_of_step_times():
    found = points(WIDE, "chips=64,8,512")
    rows = curves(
        found,
        [
            outcome(1.25, chips=64, flops=8e15),
            outcome(1.0, chips=8, flops=1e15),
            outcome(1.6, chips=512, flops=64e15),
        ],
    )
    # against 8 chips, wherever they stand
    assert [row.efficiency for row in rows] == pytest.approx([1 / 1.25, 1.0, 1 / 1.6])
    assert [row.exposed_share for row in rows] == pytest.approx([0.25] * 3)
    assert rows[0].exposed_most == "all-gather"
    causal = rows[1].mfu_causal
    assert causal == rows[1].numbers.mfu * rows[1].point.experiment.plan.causal_share
    assert rows[1].shown_mfu == pytest.approx((causal, causal / 1.25, causal / 0.8))


def test_strong_scaling_efficiency_is_the_ratio_of_chip_seconds():
    found = points(WIDE, "chips=8,64", "strong")
    rows = curves(found, [outcome(8.0, chips=8, flops=1e15), outcome(1.25, chips=64, flops=1e15)])
    assert [row.efficiency for row in rows] == pytest.approx([1.0, (8 * 8.0) / (64 * 1.25)])


def test_longer_sequences_are_no_gain_while_tokens_per_second_fall():
    """Attention adds FLOPs to each token, so that MFU may rise."""
    rows = curves(
        points(WIDE, "sequence=2048,4096"),
        [outcome(1.0, flops=1e15), outcome(1.25, flops=2e15)],
    )
    first, second = (row.point.experiment.plan.tokens for row in rows)
    assert [row.efficiency for row in rows] == pytest.approx([1.0, second / first / 1.25])


def test_efficiency_of_other_workloads_is_of_their_flops():
    found = points(LAYER, "chips=8,64")
    bare = {"mfu": None, "tflops_per_chip": None, "tokens_per_s_per_chip": None}
    rows = curves(found, [outcome(1e-3, **bare), outcome(2e-3, **bare)])
    assert [row.efficiency for row in rows] == pytest.approx([1.0, 0.5])


def test_a_program_that_does_not_fit_has_memory_and_no_time():
    over = Prediction(
        fits=False, memory_bytes=PredictedMemory(peak=20 * GIB, capacity=16 * GIB, missing=4 * GIB)
    )
    found = outcome_of("r", StrategyResult(status="ok", prediction=over))
    assert (found.state, found.numbers.peak_bytes, found.numbers.step_s) == (
        "does not fit",
        20 * GIB,
        None,
    )
    failed = outcome_of(
        "r",
        StrategyResult(
            status="error", error=Failure(kind="WorkerError", message="the compiler\ncrashed")
        ),
    )
    assert (failed.state, failed.words, failed.numbers) == ("failed", "the compiler crashed", None)
    long = outcome_of(
        "r",
        StrategyResult(status="error", error=Failure(kind="WorkerError", message="device " * 999)),
    )
    assert len(long.words) == 400 and long.words.endswith("…")
    rows = curves(points(WIDE, "chips=8,64,512"), [found, failed, outcome(1.0)])
    assert [row.efficiency for row in rows] == [None, None, 1.0]


def test_csv_has_a_line_for_each_point_and_nothing_where_nothing_is_known():
    found = points(WIDE, "chips=8,24")
    rows = curves(
        found,
        [outcome(1.5, run="20260101-000000-abcdef"), Outcome("refused", words=found[1].refusal)],
    )
    known, refused = csv.DictReader(io.StringIO(csv_text(rows)))
    assert (known["value"], known["target"], known["mesh"], known["step_s"]) == (
        "8",
        "tpu:v5p:2x2x2",
        "fsdp=2,tensor=4",
        "1.5",
    )
    assert (known["run"], known["exposed_most"], known["state"]) == (
        "20260101-000000-abcdef",
        "all-gather",
        "predicted",
    )
    assert (refused["step_s"], refused["target"], refused["state"]) == ("", "", "refused")
    assert refused["words"] == "chips=24 do not form slices of TPU v5p: use 16 or 32"
    assert row_json(rows[1])["step_s"] is None


# Words
# -------------------------------------------------------------------------------------------------------------------


def test_the_answer_of_scaling():
    sweep = parse_sweep(WIDE, "chips=8,64,512,4096")
    rows = curves(
        variants(sweep),
        [
            Outcome("does not fit", Numbers(False)),
            outcome(1.0, chips=64, flops=8e15),
            outcome(1.1, chips=512, flops=64e15),
            outcome(
                1.25, chips=4096, flops=512e15, shares_s={"wait: all-gather": 1.0, "matmul": 0.25}
            ),
        ],
    )
    assert sweep_headline(sweep, rows) == (
        "It scales to 512 chips with 6.29M tokens a step. At 4,096 a chip has 80% of its speed at 64, "
        "mostly for exposed over fsdp, 80% of the step."
    )
    assert sweep_notes(sweep, rows)[:4] == [
        "From 64 to 4,096 chips causal MFU falls from 59% to 47%; scaling efficiency 80% (weak scaling, "
        "batch per chip constant).",
        "At 4,096 chips each has 12,288 tokens; its links hide a gather of weights from about 765 on.",
        "From 4,096 chips on: interconnect-bound; exposed communication, mostly all-gathers, takes "
        "at most 25% of the step, at 64 chips.",
        "8 chips do not fit in memory.",
    ]


def test_an_efficiency_above_all_of_it_has_a_reason_and_slices_are_counted():
    sweep = parse_sweep(decoder(target="tpu:v6e:4x4", mesh={"fsdp": 16}), "chips=16,1024")
    shares = ({"matmul": 0.5, "memory": 0.5}, {"matmul": 0.5, "memory": 0.3})
    rows = curves(
        variants(sweep),
        [
            outcome(1.0, chips=16, flops=16e13, shares_s=shares[0]),
            outcome(0.8, chips=1024, flops=1024e13, shares_s=shares[1]),
        ],
    )
    assert sweep_headline(sweep, rows) == (
        "It scales to at least 1,024 chips with 4.19M tokens a step: a chip has 125% of its speed at 16."
    )
    assert sweep_notes(sweep, rows)[0].startswith(
        "From 16 to 1,024 chips (1 to 4 slices) causal MFU rises from 5% to 6%; scaling efficiency 125% "
        "(weak scaling, batch per chip constant; above 100% since HBM-bound operations take 50% of "
        "the first step, and for the same work 30% of it at the end)."
    )


def test_the_best_point_above_all_of_the_first_has_its_reason_in_words():
    sweep = parse_sweep(decoder(target="tpu:v6e:4x4", mesh={"fsdp": 16}), "chips=16,64,1024")
    shares = [{"matmul": 0.5, "memory": each} for each in (0.5, 0.3, 0.4)]
    timed = [
        outcome(0.5 + each["memory"], chips=chips, flops=chips * 1e13, shares_s=each)
        for chips, each in zip((16, 64, 1024), shares, strict=True)
    ]
    rows = curves(variants(sweep), timed)
    assert above_words(sweep, rows) == (
        "125% at 64 chips: HBM-bound operations take 50% of the step at 16 chips, and 30% of it for "
        "the same work."
    )
    assert above_words(sweep, curves(variants(sweep), timed[:1] * 3)) == ""


@pytest.mark.parametrize("late_s", [0.0, 0.2])
def test_an_efficiency_has_what_it_would_be_without_assumed_stragglers(late_s):
    sweep = parse_sweep(WIDE, "chips=64,512")
    rows = curves(
        variants(sweep),
        [
            outcome(1.0, chips=64, flops=8e15, shares_s={"matmul": 1.0}),
            outcome(
                1.2,
                chips=512,
                flops=64e15,
                shares_s={"matmul": 1.2 - late_s, "wait: slices": late_s},
            ),
        ],
    )
    without = [row.efficiency_without_stragglers for row in rows]
    assert without == pytest.approx([1.0, 1 / (1.2 - late_s)])
    assert [row_json(row)["efficiency_without_stragglers"] for row in rows] == without
    assert sweep_headline(sweep, rows) == (
        "It scales to at least 512 chips with 6.29M tokens a step: a chip has 83% of its speed at 64."
    )


def test_the_largest_that_has_a_time_is_the_largest_tried_where_none_larger_was():
    sweep = parse_sweep(WIDE, "chips=8,64,512")
    ends = [outcome(1.0, chips=8, flops=1e15), outcome(1.0, chips=64, flops=8e15)]
    rows = curves(variants(sweep), [*ends, Outcome("failed", words="no")])
    tokens = "64 chips with 786,432 tokens a step: a chip has 100% of its speed at 8."
    assert sweep_headline(sweep, rows) == f"It scales to {tokens}"
    ended = parse_sweep(WIDE, "chips=8,64")
    answer = sweep_headline(ended, curves(variants(ended), ends))
    assert answer == f"It scales to at least {tokens}"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((1.0, 0.15, 0.018), "at least 512 chips with 786,432 tokens a step"),
        ((1.0, 0.13, 0.04), "64 chips with 786,432 tokens a step"),
        ((1.0, None, None), ""),
    ],
)
def test_a_total_batch_scales_as_far_as_its_efficiency_holds(steps, words):
    sweep = parse_sweep(WIDE, "chips=8,64,512", "strong")
    rows = curves(
        variants(sweep),
        [
            outcome(step, chips=chips, flops=8e15) if step else Outcome("failed", words="no")
            for chips, step in zip((8, 64, 512), steps, strict=True)
        ],
    )
    timed = scaled_rows(rows)
    assert (reach_words(timed, 512) if timed else "") == words
    assert not timed or timed[-1].point.chips == 512
    chips = words.partition(" with ")[0]
    assert not timed or reach_words(timed, 512, has_tokens=False) == chips


@pytest.mark.parametrize(
    ("scaling", "seconds", "state"),
    [
        ("weak", (1.0, 1.25), "not compiled"),
        ("weak", (1.0, 1.25), "predicted"),
        ("strong", (8.0, 1.25), "not compiled"),
    ],
)
def test_the_range_of_an_efficiency_is_that_of_published_ones_or_not_known(scaling, seconds, state):
    sweep = parse_sweep(WIDE, "chips=8,64", scaling)
    work = (1e15, 8e15) if scaling == "weak" else (8e15, 8e15)
    first, last = curves(
        variants(sweep),
        [
            replace(outcome(each, chips=chips, flops=flops), state=state)
            for each, chips, flops in zip(seconds, (8, 64), work, strict=True)
        ],
    )
    assert first.efficiency_span is None, "it is 1 by definition"
    assert last.efficiency == pytest.approx(0.8)
    measured = (0.8 * PUBLISHED_SPAN[0], 0.8 * PUBLISHED_SPAN[1])
    written = row_json(last)
    ends = written["efficiency_low"], written["efficiency_high"]
    if (scaling, state) == ("weak", "not compiled"):
        assert last.efficiency_span == pytest.approx(measured) and ends == last.efficiency_span
    else:
        assert last.efficiency_span is None and ends == (None, None)
    near = replace(last, efficiency=0.85, efficiency_span=(0.74, 0.93))
    faster = replace(last, efficiency=0.99, efficiency_span=(0.86, 1.08))
    assert not may_fall_short((first,)) and not may_fall_short(())
    assert may_fall_short((first, near)) and not may_fall_short((first, near, faster))
    assert may_fall_short((first, faster, near))


def test_the_published_range_is_of_one_plan_alone():
    points = variants(parse_sweep(WIDE, "chips=8,64"))
    ends = [
        replace(outcome(each, chips=8, flops=1e15), state="not compiled") for each in (1.0, 1.25)
    ]
    form = points[1].experiment.to_json()
    remat = {"options": form["options"] | {"remat": "full", "save": "attention"}}
    for change in ({"dims": {"batch": 64, "sequence": 4096}}, remat):
        other = replace(points[1], experiment=parse_experiment(form | change))
        assert curves((points[0], other), ends)[1].efficiency_span is None
    assert curves(points, ends)[1].efficiency_span


def test_a_sweep_of_a_plan_that_may_fit_has_that_plan_at_its_own_chips():
    """And at others where it is as sure to fit; with the same total batch where it is faster."""
    base = decoder(
        target="tpu:v5e:16x16",
        mesh={"fsdp": 256},
        dims={"batch": 512, "sequence": 8192},
        options={
            "model": "llama-3.1-8b",
            "remat": "full",
            "save": "attention",
            "offload": "mlp_up,mlp_gate",
        },
    )
    assert estimate_step(base.plan).fit == "may not fit"
    points = variants(parse_sweep(base, "chips=8,256,1024"))
    assert points[1].experiment.plan == base.plan and points[1].instead is None
    assert points[2].experiment.plan.save == base.plan.save and points[2].fits != "yes"
    (same,) = variants(parse_sweep(base, "chips=256", "strong", "best"))
    steps = [estimate_step(each).predicted_s for each in (same.experiment.plan, base.plan)]
    assert steps[0].estimate <= steps[1].estimate
    assert points[0].instead.startswith("nearest to fitting: ") and points[0].is_too_large
    least = least_memory(points[0].experiment.plan)
    assert points[0].experiment.plan == least, "as Predict finds it"


def test_a_scaling_that_only_stragglers_end_names_them():
    sweep = parse_sweep(WIDE, "chips=64,512")
    late = {"matmul": 1.0, "wait: slices": 0.5}
    rows = curves(
        variants(sweep),
        [
            outcome(1.0, chips=64, flops=8e15, shares_s={"matmul": 1.0}),
            outcome(1.5, chips=512, flops=64e15, shares_s=late),
        ],
    )
    assert sweep_headline(sweep, rows) == (
        "It scales to 64 chips with 786,432 tokens a step. At 512 a chip has 67% of its speed at 64, "
        "mostly for waiting for stragglers, 33% of the step."
    )


def test_a_compile_takes_about_as_long_as_those_of_the_same_sweep_took():
    point = points(WIDE, "chips=8")[0]
    assert compile_seconds(point, (30.0, 34.0, 50.0)) == 34.0
    assert compile_seconds(point) == 60.0


def test_the_answer_of_a_choice_of_meshes():
    sweep = parse_sweep(WIDE, "mesh=fsdp=64;fsdp=32,tensor=2;fsdp=16,tensor=4")
    rows = curves(variants(sweep), [outcome(1.2), outcome(1.0), Outcome("failed", words="no")])
    assert sweep_headline(sweep, rows) == (
        "fsdp=32,tensor=2 has the shortest step, 1 s, 58.9% causal MFU; fsdp=64 takes 20% more, "
        "and their intervals overlap."
    )
    assert sweep_notes(sweep, rows) == ["fsdp=16,tensor=4 failed to compile."]


def test_nothing_is_said_before_anything_is_known():
    sweep = parse_sweep(WIDE, "chips=8,64")
    rows = curves(variants(sweep), [Outcome("not compiled"), Outcome("not compiled")])
    assert sweep_headline(sweep, rows) == ""


def test_a_refused_point_is_counted_in_the_answer():
    sweep = parse_sweep(WIDE, "chips=24,64,48")
    rows = curves(variants(sweep), [Outcome("refused"), outcome(1.0), Outcome("refused")])
    assert sweep_headline(sweep, rows).endswith("causal MFU. 2 of 3 points are refused.")
    none = curves(variants(sweep), [Outcome("refused")] * 3)
    assert sweep_headline(sweep, none) == "3 of 3 points are refused: the table says why."


def test_compiled_and_estimated_points_are_never_one_curve():
    sweep = parse_sweep(WIDE, "chips=8,64,512,4096")
    guessed = Outcome("not compiled", numbers_of(prediction(9.0)))
    rows = curves(variants(sweep), [guessed, outcome(1.0), outcome(1.25), guessed])
    assert [row.efficiency for row in rows] == pytest.approx([1.0, 1.0, 0.8, 1.0])
    assert sweep_headline(sweep, rows).startswith(
        "It scales to 64 chips with 786,432 tokens a step. At 512 a chip has 80% of its speed at 64"
    )
    assert sweep_notes(sweep, rows)[0].startswith("From 64 to 512 chips ")
    apart = "2 of 4 points are estimates, not compiled, on a curve of their own."
    assert apart in sweep_notes(sweep, rows)


def test_a_point_has_days_and_chip_hours_of_as_many_tokens():
    sweep = parse_sweep(WIDE, "chips=8,64")
    rows = curves(variants(sweep), [Outcome("not compiled"), outcome(1.5, chips=64, flops=8e15)])
    table = points_table(rows, "screen", sweep=sweep, tokens=1e12)
    days, hours = (table.columns.index(name) for name in ("Days", "Chip-hours"))
    seconds = 1e12 / rows[1].point.experiment.plan.tokens * 1.5
    assert [row[days].text for row in table.rows][1] == number_text(seconds / 86400)
    assert [row[hours].text for row in table.rows][1] == f"{64 * seconds / 3600:,.0f}"
    assert "Days" not in points_table(rows, "screen", sweep=sweep).columns


def test_a_point_has_the_verdict_of_its_estimate_on_memory():
    """Where the plan of more chips does not fit, it is the one that Predict finds of as many."""
    options = {"model": "llama-3.1-8b", "microbatches": 2, "remat": "full"}
    saved = "query,key,value,out,attention"
    base = decoder(
        target="tpu:v5e:16x16",
        mesh={"data": 2, "fsdp": 128},
        dims={"batch": 512, "sequence": 8192},
        options=options | {"save": saved},
    )
    points = variants(parse_sweep(base, "chips=8,64,256"))
    states = [point_state(row) for row in curves(points, list(map(estimated, points)))]
    plans = [point.experiment.plan for point in points]
    verdicts = [estimate_step(plan).fit for plan in plans]
    assert verdicts == ["does not fit", "fits", "fits"]
    assert states == ["does not fit, by its sizes", "estimate", "estimate"]
    best = best_mesh(plans[1].to_json(), plans[1].target, plans[1].batch, REMATS)
    assert estimate_step(best.plan).fit == "fits" and plans[1].batch == 128
    assert " in place of data=2 fsdp=32 (" in points[1].instead and plans[1].save != base.plan.save
    assert points[2].instead is None
    outcomes = list(map(estimated, points))
    assert [point.value for point in to_compile(points, outcomes)] == [64, 256]
    rows = curves(points, outcomes)
    assert [row.efficiency for row in rows][1] == 1 < rows[2].efficiency, "of the fewest chips"
    kept = variants(parse_sweep(base, "chips=64,256", "strong"))
    assert kept[0].instead is None, "you keep the mesh"
    sentence = sweep_headline(held := parse_sweep(base, "batch-per-device=2,8"), [
        *curves(variants(held), list(map(estimated, variants(held))))])  # fmt: skip
    assert sentence.endswith("8 sequences per device do not fit with this plan.")
    open_ = estimate_step(plans[2].model_copy(update={"save": (), "batch_per_device": 3, "sequence": 8704, "microbatches": None}))  # fmt: skip
    assert open_.fit == "may not fit"
    row = curves(points[2:], [Outcome("not compiled", numbers=numbers_of(open_))])[0]
    assert point_state(row) == "may not fit, by its sizes"

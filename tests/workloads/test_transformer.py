"""Attention and a transformer's block: what each cut makes the devices say to one another, and the
rules of their sizes.
"""

import numpy as np
import pytest

from bench import long_context
from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.reference.reference import SAMPLED_ROWS
from spmd_core.script import program_text
from tests.cover import whole
from tests.labs import HASTY, PATIENCE_S, lab_of_module
from tests.specs import reference

pytestmark = pytest.mark.slow

ATTENTION = {"batch": 2, "sequence": 16, "heads": 8, "kv_heads": 4, "head_dim": 4}
BLOCK = {
    "batch": 2,
    "sequence": 16,
    "embed": 8,
    "heads": 8,
    "kv_heads": 4,
    "head_dim": 4,
    "mlp": 16,
}
WEIGHTS = (
    "query_weights",
    "key_weights",
    "value_weights",
    "out_weights",
    "gate_weights",
    "up_weights",
    "down_weights",
)
FLOAT = 4


def experiment(workload, dims, sharding=(), **more):
    return parse_experiment(
        {
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "workload": workload,
            "dims": dims,
            "sharding": dict(sharding),
            "strategies": ["auto", "shard_map"],
            "timing": {"samples": 1, "min_seconds": 0.0},
        }
        | more
    )


def drawn(chosen):
    rng = np.random.default_rng(0)
    return {
        array.name: rng.normal(size=chosen.shape(array.name)).astype(np.float32)
        for array in chosen.what.operands
    }


lab = lab_of_module(HASTY)


def said(lab, chosen):
    """Strategy -> its collectives as (kind, axes, bytes, count), sorted; every value right."""
    run = lab.submit(chosen)
    lab.wait(run, PATIENCE_S)
    found = lab.result(run).strategies
    assert {
        name: (outcome.status, outcome.correct) for name, outcome in found.items()
    } == dict.fromkeys(chosen.strategies, ("ok", True))
    return {
        name: sorted((each.kind, each.axes, each.bytes, each.count) for each in outcome.collectives)
        for name, outcome in found.items()
    }, found


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        pytest.param({"batch": "x", "heads": "y", "kv_heads": "y"}, [], marks=whole),
        pytest.param({"heads": ["x", "y"]}, [], marks=whole),
        ({"heads": ["x", "y"], "kv_heads": "x"}, []),
        pytest.param(
            {"sequence": "y"},
            [("all-gather", ("y",), 2 * 16 * 4 * 4 * FLOAT, 1)] * 2,  # keys, values
            marks=whole,
        ),
        ({"batch": "x", "sequence": "y"}, [("all-gather", ("y",), 16 * 4 * 4 * FLOAT, 1)] * 2),
        ({"head_dim": "y"}, [("all-reduce", ("y",), 2 * 8 * 16 * 16 * FLOAT, 1)]),  # scores
    ],
)
def test_attention_speaks_only_where_the_sequence_or_a_head_is_cut(lab, sharding, expected):
    collectives, _ = said(lab, experiment("attention", ATTENTION, sharding))
    assert collectives == {"auto": expected, "shard_map": expected}


def test_key_heads_that_are_cut_otherwise_than_query_heads_are_gathered_by_hand(lab):
    collectives, _ = said(lab, experiment("attention", ATTENTION, {"heads": "y", "kv_heads": "x"}))
    assert collectives["shard_map"] == [("all-gather", ("x",), 2 * 16 * 4 * 4 * FLOAT, 1)] * 2


@pytest.mark.parametrize("case", long_context.CASES[2:6:2], ids=str)
def test_kinds_of_attention_along_the_sequence_are_right_and_move_what_their_formula_has(lab, case):
    assert list(long_context.differing(lab, case)) == []


@pytest.mark.parametrize(
    ("strategy", "dims", "sharding", "mask", "words"),
    [
        (
            "ulysses",
            {"heads": 12, "kv_heads": 4},
            {"sequence": ["x", "y"]},
            "causal",
            "heads=12 of a device do not divide over the 8 shards of sequence; use heads=16, or "
            "ring, which has no such rule",
        ),
        (
            "ring",
            {},
            {"heads": "y"},
            "causal",
            "sequence is on every device whole; use a mesh axis to shard sequence",
        ),
        (
            "zigzag",
            {},
            {"sequence": "y"},
            "full",
            "without a causal mask all devices have equal work; use ring",
        ),
        (
            "zigzag",
            {"sequence": 24},
            {"sequence": ["x", "y"]},
            "causal",
            "sequence=24 is no multiple of 16, two parts for each of its shards; use sequence=32",
        ),
    ],
)
def test_attention_that_cannot_be_computed_so_is_refused(strategy, dims, sharding, mask, words):
    chosen = experiment(
        "attention", ATTENTION | dims, sharding, strategies=[strategy], options={"mask": mask}
    )
    with pytest.raises(Inexpressible) as refused:
        program_text(chosen, strategy)
    assert str(refused.value) == f"{strategy} cannot express this sharding: {words}"


def test_devices_that_ppermute_would_number_otherwise_are_refused():
    """JAX 0.10.2 numbers them in the order of the mesh without a word, and 0.12 raises."""
    chosen = experiment("attention", ATTENTION, {"sequence": ["y", "x"], "batch": []})
    for strategy in ("shard_map", "ulysses"):
        assert program_text(chosen, strategy)
    words = (
        "ring cannot express this sharding: jax.lax.ppermute numbers devices in the order of the "
        "mesh, and sequence is sharded over y and x; use x and y"
    )
    with pytest.raises(Inexpressible, match=f"^{words}$"):
        program_text(chosen, "ring")
    sizes = {"rows": 3, "length": 64, "width": 3}
    with pytest.raises(Inexpressible, match=r"length is sharded over y and x; use x and y$"):
        program_text(experiment("convolve", sizes, {"length": ["y", "x"]}), "shard_map")


def test_a_causal_mask_is_the_default_and_experiments_of_before_keep_their_id():
    causal = experiment("attention", ATTENTION, options={"mask": "causal"})
    assert causal == experiment("attention", ATTENTION) and "mask" not in dict(causal.options)
    assert experiment("attention", ATTENTION, options={"mask": "full"}).id != causal.id


STREAM = 2 * 16 * 8 * FLOAT


@pytest.mark.parametrize(
    ("sharding", "sums", "gathers"),
    [
        pytest.param({"batch": "x"}, [], 0, marks=whole),
        pytest.param(
            {"heads": "y", "kv_heads": "y", "mlp": "y"},
            [("all-reduce", ("y",), STREAM, 1)] * 2,
            0,
            marks=whole,
        ),
        ({"batch": "x", "heads": "y", "mlp": "y"}, [("all-reduce", ("y",), STREAM // 2, 1)] * 2, 0),
        pytest.param({"batch": "x", "embed": "x"}, [], 7, marks=whole),
        (
            {"batch": "x", "embed": "x", "heads": "y", "kv_heads": "y", "mlp": "y"},
            [("all-reduce", ("y",), STREAM // 2, 1)] * 2,
            7,
        ),
    ],
)
def test_a_block_adds_twice_where_heads_and_mlp_are_cut_and_gathers_weights_that_are_cut_along_embed(
    lab, sharding, sums, gathers
):
    collectives, found = said(lab, experiment("transformer_block", BLOCK, sharding))
    for name in ("auto", "shard_map"):
        assert [each for each in collectives[name] if each[0] == "all-reduce"] == sums, name
    by_hand = [each for each in found["shard_map"].collectives if each.kind == "all-gather"]
    assert [each.axes for each in by_hand] == [("x",)] * gathers
    reasons = {each.reason for each in by_hand}
    assert reasons == (
        {
            f"the program calls all_gather: `{name}` is stored {cut}, but is needed "
            f"replicated over x"
            for name, cut in zip(WEIGHTS, cuts(sharding), strict=True)
        }
        if gathers
        else set()
    )
    if sums:
        (reason,) = {each.reason for each in found["auto"].collectives if each.kind == "all-reduce"}
        assert reason == (
            "a contracted dim, `heads` or `mlp`, is sharded over y: each device holds a "
            "partial sum, so the partial sums are added over y"
        )


def cuts(sharding):
    """How the weights are stored, in words."""
    heads, kv_heads, mlp = (
        f"over y along `{dim}`" if dim in sharding else "" for dim in ("heads", "kv_heads", "mlp")
    )
    embed = "over x along `embed`"
    pairs = [
        (embed, heads),
        (embed, kv_heads),
        (embed, kv_heads),
        (heads, embed),
        (embed, mlp),
        (embed, mlp),
        (mlp, embed),
    ]
    return ["sharded " + " and ".join(part for part in pair if part) for pair in pairs]


def test_a_sequence_that_is_cut_as_heads_are_is_left_to_the_compiler(lab):
    chosen = experiment("transformer_block", BLOCK, {"sequence": "y", "heads": "y", "mlp": "y"})
    run = lab.submit(chosen)
    lab.wait(run, PATIENCE_S)
    found = lab.result(run).strategies
    assert found["auto"].correct is True
    assert (
        found["shard_map"].error.kind == "inexpressible"
        and "; shard one of them over another axis" in found["shard_map"].error.message
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_dtypes_are_right_with_room_and_an_attention_that_sees_the_future_is_wrong(
    lab, dtype
):
    chosen = experiment("attention", ATTENTION, {"heads": "y"}, dtype=dtype)
    _, found = said(lab, chosen)
    assert all(outcome.correct and outcome.wrong is None for outcome in found.values())
    operands = drawn(chosen)
    query, key, value = (operands[name].astype(float) for name in ("query", "key", "value"))
    key, value = (np.repeat(each, 2, axis=2) for each in (key, value))
    weights = np.exp(np.einsum("bqhd,bkhd->bhqk", query, key) / 2)
    everything = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), value)
    expected = reference(chosen, operands)
    assert expected.judge(everything).wrong > expected.values.size / 2
    assert expected.judge(expected.values + 0.1 * expected.bounds).correct


def test_attention_in_float64_by_hand():
    """One head of two places: the first sees itself, the second weighs both by e^(q·k / sqrt 1)."""
    chosen = experiment(
        "attention",
        {"batch": 1, "sequence": 2, "heads": 1, "kv_heads": 1, "head_dim": 1},
        mesh={"x": 1},
    )
    query, key, value = (
        np.array(numbers, np.float32).reshape(1, 2, 1, 1) for numbers in ([5, 1], [1, 2], [10, 20])
    )
    found = reference(chosen, {"query": query, "key": key, "value": value})
    assert found.values.ravel() == pytest.approx([10, (10 + 20 * np.e) / (1 + np.e)], rel=1e-14)


@pytest.mark.parametrize(
    ("workload", "dims"),
    [
        ("attention", {"batch": 1, "sequence": 512, "heads": 4, "kv_heads": 2, "head_dim": 32}),
        (
            "transformer_block",
            {
                "batch": 1,
                "sequence": 256,
                "embed": 64,
                "heads": 4,
                "kv_heads": 2,
                "head_dim": 32,
                "mlp": 512,
            },
        ),
    ],
)
def test_of_a_large_one_some_places_are_computed_as_they_are_in_the_whole(
    workload, dims, monkeypatch
):
    chosen = experiment(workload, dims)
    operands = drawn(chosen)
    monkeypatch.setattr("spmd_core.reference.reference.FULL_FLOPS", 10**6)
    some = reference(chosen, operands)
    assert some.rows is not None and some.values.shape[1] == len(some.rows) == SAMPLED_ROWS
    monkeypatch.setattr("spmd_core.reference.reference.FULL_FLOPS", 10**12)
    every = reference(chosen, operands)
    assert every.rows is None
    assert some.values == pytest.approx(some.picked(every.values), rel=1e-11, abs=1e-13)
    assert some.bounds == pytest.approx(some.picked(every.bounds), rel=1e-9)


def test_operations_are_counted():
    one = experiment(
        "attention",
        {"batch": 1, "sequence": 4, "heads": 1, "kv_heads": 1, "head_dim": 8},
        mesh={"x": 1},
    )
    assert one.what.flops(one.sizes) == 16 * (2 * 8 * 2 + 5)
    sizes = {
        "batch": 1,
        "sequence": 1,
        "embed": 2,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 3,
        "mlp": 5,
    }
    block = experiment("transformer_block", sizes, mesh={"x": 1})
    weights = sum(int(np.prod(block.shape(name))) for name in WEIGHTS)
    assert block.what.flops(block.sizes) == 2 * weights + 12 * 2 + 6 * 5 + 2 * (2 * 3 * 2 + 5)


def test_key_heads_are_as_many_as_heads_unless_fewer_are_asked_for_and_divide_them():
    dims = {"batch": 2, "sequence": 4, "heads": 12, "head_dim": 2}
    assert experiment("attention", dims).sizes["kv_heads"] == 12
    with pytest.raises(
        RequestError,
        match=r"^kv_heads=8 does not divide heads=12: use 4, 12 or another number that divides it$",
    ):
        experiment("attention", dims | {"kv_heads": 8})
    found = nearest(
        {
            "target": "cpu:8",
            "mesh": {"x": 2},
            "workload": "attention",
            "dims": dims | {"kv_heads": 8},
        }
    )
    assert found.experiment.sizes["kv_heads"] == 4
    assert found.changes == ("kv_heads=8 does not divide heads=12: kv_heads=4 is used.",)


def test_numbers_that_make_one_score_outweigh_all_others_are_refused():
    words = (
        "data of key='arange' makes numbers in attention that no rounding error can be judged "
        "by: use normal or ones"
    )
    with pytest.raises(RequestError, match=f"^{words}$"):
        experiment("attention", ATTENTION, data={"key": "arange"})


def test_activations_stay_whole_along_embed_unless_an_override_cuts_them():
    chosen = experiment("transformer_block", BLOCK, {"batch": "x", "embed": "x"})
    assert chosen.spec("x") == chosen.spec("y") == (("x",), (), ())
    assert chosen.spec("gate_weights") == (("x",), ()) and chosen.spec("attention_scale") == ((),)
    cut = chosen.vary(overrides={"x": [None, None, "y"]})
    assert cut.spec("x") == ((), (), ("y",))
    assert "x = jax.lax.all_gather(x, 'y', axis=2, tiled=True)" in program_text(cut, "shard_map")


@pytest.mark.parametrize(
    ("workload", "sharding", "kinds"),
    [
        pytest.param(
            "attention",
            {"heads": "x", "kv_heads": "x", "sequence": "y"},
            {"all-gather"},
            marks=whole,
        ),
        (
            "transformer_block",
            {"batch": "y", "heads": "x", "kv_heads": "x", "mlp": "x"},
            {"all-reduce"},
        ),
    ],
)
def test_both_are_compiled_for_a_pod_that_is_not_there(lab, workload, sharding, kinds):
    pytest.importorskip("libtpu")
    dims = {"batch": 2, "sequence": 256, "heads": 4, "kv_heads": 2, "head_dim": 128} | (
        {"embed": 256, "mlp": 512} if "mlp" in sharding else {}
    )
    chosen = experiment(
        workload,
        dims,
        sharding,
        target="tpu:v5e:2x2",
        mesh={"x": 2, "y": 2},
        dtype="bfloat16",
        strategies=["auto", "shard_map"],
    )
    run = lab.submit(chosen)
    assert lab.wait(run, 500).state == "succeeded"
    for outcome in lab.result(run).strategies.values():
        found = outcome.prediction
        assert (
            found.fits
            and found.predicted_s is not None
            and 1e-6 < found.predicted_s.estimate < 1e-2
        )
        assert {each.asked or each.kind for each in found.collectives} == kinds

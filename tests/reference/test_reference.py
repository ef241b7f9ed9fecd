import math

import ml_dtypes
import numpy as np
import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.reference import Bounded, resolved
from spmd_core.reference.reference import (
    SAMPLED_ROWS,
    Error,
    Reference,
    arithmetic,
    beyond_fact,
    measure_error,
    multiplier_fact,
    uniform,
)
from spmd_core.words import fact_words
from spmd_core.workloads import WORKLOADS
from tests.specs import reference


def experiment(workload, **spec):
    return parse_experiment({"target": "cpu:8", "workload": workload, "mesh": {"x": 1}} | spec)


def test_the_layer_in_float64():
    x, weights, bias = (
        np.array([[1.0, 2.0]], np.float32),
        np.array([[0.5], [-1.0]], np.float32),
        np.array([0.25], np.float32),
    )
    found = reference(
        experiment("layer", dims={"batch": 1, "in": 2, "out": 1}),
        {"x": x, "weights": weights, "bias": bias},
    )
    assert found.rows is None
    assert found.values.dtype == np.float64
    assert found.values == pytest.approx(np.array([[1 / (1 + np.exp(1.25))]]))


def test_elementwise_and_contraction():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    dims = {"rows": 2, "cols": 3}
    assert reference(experiment("elementwise", dims=dims), {"x": x}).values == pytest.approx(
        2 * np.sin(np.arange(6.0).reshape(2, 3)) + 1
    )
    assert reference(experiment("contraction", dims=dims), {"x": x}).values.tolist() == [3, 5, 7]


def test_whole_numbers_wrap_and_are_promoted_as_jax_does():
    big = np.array([[2**31 - 1], [1]], np.int32)
    dims = {"rows": 2, "cols": 1}
    assert reference(
        experiment("contraction", dims=dims, dtype="int32"), {"x": big}
    ).values.tolist() == [-(2**31)]
    odd = np.array([[2**24 + 1]], np.int32)  # no float32
    promoted = reference(
        experiment("elementwise", dims={"rows": 1, "cols": 1}, dtype="int32"), {"x": odd}
    )
    assert promoted.values == pytest.approx(2 * np.sin(2.0**24) + 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_operands_count_as_they_were_cast(dtype):
    x = np.array([[0.1], [0.1]]).astype(dtype)
    found = reference(
        experiment("contraction", dims={"rows": 2, "cols": 1}, dtype=np.dtype(dtype).name), {"x": x}
    )
    assert found.values == pytest.approx(2 * float(x[0, 0]), rel=1e-15)


@pytest.mark.parametrize(
    ("workload", "dims", "shapes"),
    [
        ("elementwise", {"rows": 100_000, "cols": 10_000}, None),
        (
            "layer",
            {"batch": 4096, "in": 1024, "out": 1024},
            {"x": (4096, 1024), "weights": (1024, 1024), "bias": (1024,)},
        ),
        ("layer", {"in": 32768, "out": 32768}, None),
    ],
)
def test_large_results_are_computed_on_rows_that_the_seed_chooses(workload, dims, shapes):
    chosen = experiment(workload, dims=dims, seed=3)
    if shapes is None:  # the operands themselves would be gigabytes: broadcast them
        shapes = {array.name: chosen.shape(array.name) for array in chosen.what.operands}
        operands = {
            name: np.broadcast_to(np.float32(0.01), shape) for name, shape in shapes.items()
        }
    else:
        rng = np.random.default_rng(0)
        operands = {
            name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()
        }
    found = reference(chosen, operands)
    assert found.rows is not None
    assert len(set(found.rows.tolist())) == SAMPLED_ROWS == found.values.shape[0]
    assert found.rows.tolist() == reference(chosen, operands).rows.tolist()
    assert found.rows.tolist() != reference(chosen.vary(seed=4), operands).rows.tolist()
    if "batch" in dims:
        whole = 1 / (
            1
            + np.exp(
                -(
                    operands["x"].astype(float)[found.rows] @ operands["weights"].astype(float)
                    + operands["bias"]
                )
            )
        )
        assert found.values == pytest.approx(whole)
        output = np.zeros((4096, 1024))
        output[found.rows] = whole
        assert measure_error(found, output).max_abs < 1e-12


SAMPLED = (
    ("elementwise", {"rows": 9, "cols": 4}, {}),
    ("elementwise", {"rows": 9}, {}),
    ("contraction", {"rows": 3, "cols": 9}, {}),
    ("layer", {"batch": 9, "in": 3, "out": 4}, {}),
    ("layer", {"in": 3, "out": 9}, {}),
    ("dot", {"n": 9, "k": 3}, {}),
    ("product", {"m": 9, "k": 3, "n": 4}, {}),
    ("matmul", {"m": 9, "k": 3, "n": 4}, {}),
    ("matmul", {"batch": 1, "m": 9, "k": 3, "n": 4}, {}),
    ("matmul", {"batch": 5, "m": 9, "k": 3, "n": 4}, {}),
    ("convolve", {"rows": 9, "length": 6, "width": 3}, {}),
    *(("normalize", {"rows": 9, "cols": 4}, {"over": over}) for over in ("rows", "cols", "both")),
    ("mlp", {"batch": 9, "in": 3, "hidden": 4, "out": 2}, {}),
    ("transfer", {"bytes": 9}, {}),
    *(
        (
            "attention",
            {"batch": batch, "sequence": 9, "heads": 2, "kv_heads": 1, "head_dim": 4},
            {},
        )
        for batch in (1, 2)
    ),
    (
        "transformer_block",
        {"batch": 1, "sequence": 9, "embed": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "mlp": 6},
        {},
    ),
)


@pytest.mark.parametrize(("workload", "dims", "options"), SAMPLED)
def test_the_sampled_rows_have_the_values_and_bounds_of_the_full_reference(
    workload, dims, options, monkeypatch
):
    chosen = experiment(workload, dims=dims, options=options)
    rng = np.random.default_rng(0)
    operands = {
        array.name: (8 * rng.normal(size=chosen.shape(array.name))).astype(chosen.dtype)
        for array in chosen.what.operands
    }
    full = reference(chosen, operands)
    for name, limit in (("FULL_FLOPS", 0), ("FULL_ELEMENTS", 0), ("SAMPLED_ROWS", 4)):
        monkeypatch.setattr(f"spmd_core.reference.reference.{name}", limit)
    found = reference(chosen, operands)
    assert full.rows is None and found.rows is not None and len(found.rows) == 4
    assert found.values == pytest.approx(np.take(full.values, found.rows, found.axis))
    assert found.bounds == pytest.approx(np.take(full.bounds, found.rows, found.axis))
    assert found.judge(full.values).correct


def test_every_workload_that_is_sampled_has_its_rows_compared():
    sampled = {what.name for what in WORKLOADS.values() if what.sampled}
    assert sampled == {workload for workload, _, _ in SAMPLED}


def plain(values, bounds=0.0, dtype="float32"):
    values = np.asarray(values, np.float64)
    return Reference(values, np.broadcast_to(bounds, values.shape), dtype)


def test_errors_are_absolute_and_over_the_largest_value():
    error = measure_error(plain([1.0, -4.0]), np.array([1.5, -4.0], np.float32))
    assert (error.max_abs, error.max_rel) == (0.5, 0.125)
    zeros = measure_error(plain([0.0, 0.0]), np.array([0.0, 0.5]))
    assert (zeros.max_abs, zeros.max_rel) == (0.5, 0.5)
    odd = plain([np.inf, np.nan, 1.0])
    assert measure_error(odd, np.array([np.inf, np.nan, 1.0], np.float32)) == measure_error(
        plain([1.0]), np.ones(1)
    )
    assert measure_error(odd, np.array([-np.inf, 2.0, np.nan], np.float32)) == Error(None, None)


def test_numbers_below_what_float32_holds_count_as_nothing():
    assert measure_error(plain([1e-217, 1e-230]), np.zeros(2)).max_rel < 1e-100
    assert measure_error(plain([1e-30]), np.zeros(1)).max_rel == 1.0


def test_a_single_sum_is_bounded_by_its_own_terms():
    """|error| <= eps_out |y| + 8 eps_acc sqrt(K) sqrt(sum (x w)²), the second root with y² for
    terms of one sign.
    """
    rng = np.random.default_rng(0)
    v, u = (rng.normal(size=(4, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    found = reference(
        experiment("dot", dims={"n": 4, "k": 256}, dtype="bfloat16"), {"v": v, "u": u}
    )
    terms = v.astype(float) * u.astype(float)
    y = terms.sum(axis=1)
    wanted = 2**-7 * np.abs(y) + 8 * 2**-23 * 16 * np.sqrt((terms**2).sum(axis=1) + y**2)
    assert found.values == pytest.approx(y) and found.bounds == pytest.approx(wanted)


def test_partial_sums_that_the_compiler_rounds_widen_the_bound_by_themselves():
    chosen = experiment(
        "contraction",
        dims={"rows": 1024, "cols": 8},
        dtype="bfloat16",
        mesh={"x": 8},
        sharding={"rows": "x"},
    )
    x = np.random.default_rng(0).normal(size=(1024, 8)).astype(ml_dtypes.bfloat16)
    kept, cut = (
        reference(chosen, {"x": x}, arithmetic(chosen, "cpu", strategy))
        for strategy in ("shard_map", "auto")
    )
    partial = x.astype(float).reshape(8, 128, 8).sum(axis=1)
    by_parts = 8 * 2**-7 * np.sqrt((partial**2).sum(axis=0))
    assert (cut.bounds > by_parts).all() and cut.bounds - kept.bounds == pytest.approx(
        by_parts, rel=0.01
    )


@pytest.mark.parametrize(
    ("platform", "spec", "eps", "words"),
    [
        ("cpu", {}, 0.0, None),
        ("tpu", {}, 2.0**-7, "bfloat16 passes"),
        ("tpu", {"options": {"precision": "high"}}, 2.0**-15, "three bfloat16 passes"),
        ("tpu", {"options": {"precision": "highest"}}, 0.0, None),
        ("tpu", {"dtype": "float16"}, 0.0, None),
        ("gpu", {}, 2.0**-10, "TF32"),
    ],
)
def test_coarser_multiplication_is_said_rather_than_called_wrong(platform, spec, eps, words):
    chosen = experiment("layer", **spec)
    fact = multiplier_fact(chosen, platform)
    note = fact and fact_words(fact)
    assert arithmetic(chosen, platform).multiplier == eps
    assert note is None if words is None else note is not None and words in note


def beyond_words(*judged):
    """The sentence of what is beyond a dtype; "" where nothing is."""
    fact = beyond_fact(*judged)
    return fact_words(fact) if fact else ""


def layer_operands(x):
    rng = np.random.default_rng(0)
    return {
        "x": x,
        "weights": rng.normal(size=(256, 64)).astype(np.float32),
        "bias": np.zeros(64, np.float32),
    }


def judged_layer(operands):
    """The same layer computed in float32."""
    chosen = experiment("layer", dims={"batch": len(operands["x"]), "in": 256, "out": 64})
    with np.errstate(over="ignore"):
        return reference(chosen, operands).judge(
            1 / (1 + np.exp(-(operands["x"] @ operands["weights"])))
        )


def test_large_operands_of_a_sigmoid_are_judged_by_the_rounding_of_their_sums():
    assert judged_layer(
        layer_operands(np.random.default_rng(1).normal(size=(64, 256)).astype(np.float32))
    ).correct
    cancelling = layer_operands(np.zeros((4, 256), np.float32))
    cancelling["x"][:, :3] = (3e4, -3e4, 1.0)  # two large terms that leave a small one
    cancelling["weights"][1] = cancelling["weights"][0]
    cancelling["weights"][0] *= np.float32(1 + 2**-20)
    assert judged_layer(cancelling).correct


def drawn(data: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    values = {
        "normal": lambda: rng.normal(size=shape),
        "arange": lambda: np.arange(np.prod(shape)).reshape(shape),
        "ones": lambda: np.ones(shape),
    }
    return values[data]().astype(np.float32)


def visible(changed: int, cases: int, data: str) -> bool:
    """Sigmoids of large numbers are all 1, and ones may be permuted: there the wrong program gives
    the right numbers.
    """
    return changed == cases if data == "normal" else changed > 0 or data == "ones"


@pytest.mark.parametrize("data", ["normal", "arange", "ones"])
def test_a_layer_without_its_all_reduce_or_with_shards_exchanged_is_wrong_however_steep(data):
    rng, told = np.random.default_rng(0), {"dropped": 0, "exchanged": 0}
    cases = [
        (batch, size, out) for batch in (1, 4, 32) for size in (2, 8, 64, 512) for out in (2, 16)
    ]
    for batch, size, out in cases:
        chosen = experiment("layer", dims={"batch": batch, "in": size, "out": out})
        x, weights, bias = (
            drawn(data, (batch, size), rng),
            drawn(data, (size, out), rng),
            drawn(data, (out,), rng),
        )
        expected = reference(chosen, {"x": x, "weights": weights, "bias": bias})
        z = x[:, : size // 2].astype(float) @ weights[: size // 2].astype(float) + bias
        told["dropped"] += expected.judge(1 / (1 + np.exp(-z))).correct is False
        told["exchanged"] += (
            expected.judge(np.roll(expected.values, out // 2, axis=1)).correct is False
        )
    assert visible(told["dropped"], len(cases), data)
    assert visible(told["exchanged"], len(cases), data)


def test_right_values_that_are_all_alike_hide_exchanged_parts():
    assert uniform(plain([1.0, 1 - 1e-8], 1e-6)) and uniform(plain([0.0, 0.0]))
    for values in ([1.0, 0.99], [1.0], [1.0, math.inf]):
        assert not uniform(plain(values, 1e-6))


def test_one_large_value_does_not_let_small_ones_pass():
    """One bound for a whole result did."""
    expected = plain([np.e**8, 0.5, 1e8, 0.0], np.array([1e-3, 1e-6, 10.0, 1e-30]))
    assert expected.judge(expected.values).correct
    assert expected.judge(expected.values * [1, 2, 1, 1]).wrong == 1
    assert expected.judge(np.array([0, 0, 1e8, 0.0])).wrong == 2


def test_the_worst_element_is_named_by_its_place_in_the_whole_result():
    expected = Reference(np.zeros((2, 3)), np.ones((2, 3)), "float32", rows=np.array([4, 9]))
    output = np.zeros((10, 3))
    output[9, 1], output[4, 2] = 5.0, 2.0
    judged = expected.judge(output)
    assert (judged.wrong, judged.compared) == (2, 6) and expected.place(judged.worst) == (9, 1)
    output[4, 0] = np.nan
    assert expected.place(expected.judge(output).worst) == (4, 0)


def test_infinity_is_right_where_the_value_is_beyond_the_dtype_and_said():
    big = plain([7e4, 65_000.0, -7e4], 100.0, "float16")
    right = big.judge(np.array([np.inf, 65_000.0, -np.inf]))
    assert (right.correct, right.infinite) == (True, 2)
    assert beyond_words("y", right, big) == (
        "2 of 3 elements of y are infinite, and right so: they are, or come from, numbers beyond "
        "65504, the largest float16"
    )
    assert big.judge(np.array([-np.inf, 65_000.0, 65_504.0])).wrong == 2
    assert big.judge(np.array([np.inf, np.inf, -np.inf])).wrong == 1


def test_what_comes_from_numbers_beyond_the_dtype_is_not_judged_and_said():
    """float16 cannot hold the hidden layer of these: what follows may be anything."""
    chosen = experiment("mlp", dims={"batch": 1, "in": 2, "hidden": 2, "out": 1}, dtype="float16")
    x, w1 = np.full((1, 2), 300, np.float16), np.full((2, 2), 300, np.float16)
    rest = {
        "b1": np.zeros(2, np.float16),
        "w2": np.array([[1], [-1]], np.float16),
        "b2": np.zeros(1, np.float16),
    }
    expected = reference(chosen, {"x": x, "w1": w1} | rest)
    found = expected.judge(np.array([[np.nan]]))
    assert (found.correct, found.unjudged) == (None, 1)
    assert "1 of 1 elements of y are not judged" in beyond_words("y", found, expected)


def test_no_function_makes_sure_again_of_what_may_be_no_number():
    """Partial sums beyond float16, of both signs, add to no number, and its sigmoid is none."""
    chosen = experiment(
        "layer",
        dims={"batch": 1, "in": 8, "out": 1},
        dtype="float16",
        mesh={"x": 2},
        sharding={"in": "x"},
    )
    x = np.array([[300.0] * 4 + [-300.0] * 4], np.float16)
    weights, bias = np.full((8, 1), 300, np.float16), np.zeros(1, np.float16)
    operands, nothing = {"x": x, "weights": weights, "bias": bias}, np.array([[np.nan]])
    verdicts = [
        reference(chosen, operands, arithmetic(chosen, "cpu", strategy)).judge(nothing)
        for strategy in ("auto", "shard_map")
    ]
    assert [verdict.correct for verdict in verdicts] == [None, False]


def test_values_that_are_no_number_in_float64_are_not_judged_and_said():
    """Operands beyond float16 are infinite: their products are no numbers, whoever adds them."""
    chosen = experiment("layer", dims={"batch": 1, "in": 4, "out": 2}, dtype="float16")
    x = np.array([[np.inf, 1, -np.inf, 1]], np.float16)
    operands = {"x": x, "weights": np.ones((4, 2), np.float16), "bias": np.zeros(2, np.float16)}
    expected = reference(chosen, operands)
    judged = expected.judge(np.full((1, 2), np.nan))
    assert (judged.correct, judged.undefined, judged.wrong) == (None, 2, 0)
    assert beyond_words("y", judged, expected) == (
        "2 of 2 elements of y are not judged: they are infinite, or no numbers, in float64 too"
    )


def test_nothing_is_said_where_rounding_spreads_values_as_far_as_they_lie_apart():
    values = np.linspace(0, 1, 8)
    assert np.isinf(resolved(Bounded(values, np.full(8, 0.4))).spread).all()
    few = resolved(Bounded(values, np.array([0.4] + [1e-3] * 7)))
    assert np.isinf(few.spread).tolist() == [True] + [False] * 7
    for certain in (Bounded(values, np.full(8, 1e-3)), Bounded(np.zeros(8), np.zeros(8))):
        assert (resolved(certain).spread == certain.spread).all()
    assert resolved(Bounded(values)).spread is None


def test_nothing_is_said_where_zeros_would_be_right_wherever_something_can_be():
    """The small values are spread less than the large ones are apart, yet more than from 0."""
    found = resolved(Bounded(np.array([1.0, 2.0, 100.0]), np.array([0.5, 0.5, 20.0])))
    assert np.isinf(found.spread).all()


def test_parts_that_are_not_judged_do_not_make_the_rest_alike():
    assert not uniform(plain([0.0, 1.0], np.inf))
    assert uniform(plain([1.0, 1.0, 5.0], np.array([1e-6, 1e-6, np.inf])))

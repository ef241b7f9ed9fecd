import math

import ml_dtypes
import numpy as np
import pytest

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.reference.reference import SAMPLED_ROWS, Reference, compute_dtype, measure_error, reference, steepness, tolerance, uniform


def experiment(workload, **spec):
    return parse_experiment({"target": "cpu:8", "workload": workload, "mesh": {"x": 1}} | spec)


def test_the_layer_in_float64():
    x, weights, bias = np.array([[1.0, 2.0]], np.float32), np.array([[0.5], [-1.0]], np.float32), np.array([0.25], np.float32)
    found = reference(experiment("layer", dims={"batch": 1, "in": 2, "out": 1}), {"x": x, "weights": weights, "bias": bias})
    assert found.rows is None
    assert found.values.dtype == np.float64
    assert found.values == pytest.approx(np.array([[1 / (1 + np.exp(1.25))]]))


def test_elementwise_and_contraction():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    dims = {"rows": 2, "cols": 3}
    assert reference(experiment("elementwise", dims=dims), {"x": x}).values == pytest.approx(2 * np.sin(np.arange(6.0).reshape(2, 3)) + 1)
    assert reference(experiment("contraction", dims=dims), {"x": x}).values.tolist() == [3, 5, 7]


def test_whole_numbers_wrap_and_are_promoted_as_jax_does():
    big = np.array([[2**31 - 1], [1]], np.int32)
    dims = {"rows": 2, "cols": 1}
    assert reference(experiment("contraction", dims=dims, dtype="int32"), {"x": big}).values.tolist() == [-(2**31)]
    odd = np.array([[2**24 + 1]], np.int32)  # no float32
    promoted = reference(experiment("elementwise", dims={"rows": 1, "cols": 1}, dtype="int32"), {"x": odd})
    assert promoted.values == pytest.approx(2 * np.sin(2.0**24) + 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_operands_count_as_they_were_cast(dtype):
    x = np.array([[0.1], [0.1]]).astype(dtype)
    found = reference(experiment("contraction", dims={"rows": 2, "cols": 1}, dtype=np.dtype(dtype).name), {"x": x})
    assert found.values == pytest.approx(2 * float(x[0, 0]), rel=1e-15)


@pytest.mark.parametrize(("workload", "dims", "shapes"), [
    ("elementwise", {"rows": 100_000, "cols": 10_000}, None),
    ("layer", {"batch": 4096, "in": 1024, "out": 1024}, {"x": (4096, 1024), "weights": (1024, 1024), "bias": (1024,)}),
    ("layer", {"in": 32768, "out": 32768}, None),
])
def test_large_results_are_computed_on_rows_that_the_seed_chooses(workload, dims, shapes):
    chosen = experiment(workload, dims=dims, seed=3)
    if shapes is None:  # the operands themselves would be gigabytes: broadcast them
        shapes = {array.name: chosen.shape(array.name) for array in chosen.what.operands}
        operands = {name: np.broadcast_to(np.float32(0.01), shape) for name, shape in shapes.items()}
    else:
        rng = np.random.default_rng(0)
        operands = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    found = reference(chosen, operands)
    assert found.rows is not None
    assert len(set(found.rows.tolist())) == SAMPLED_ROWS == found.values.shape[0]
    assert found.rows.tolist() == reference(chosen, operands).rows.tolist()
    assert found.rows.tolist() != reference(chosen.vary(seed=4), operands).rows.tolist()
    if "batch" in dims:
        whole = 1 / (1 + np.exp(-(operands["x"].astype(float)[found.rows] @ operands["weights"].astype(float) + operands["bias"])))
        assert found.values == pytest.approx(whole)
        output = np.zeros((4096, 1024))
        output[found.rows] = whole
        assert measure_error(found, output).max_abs < 1e-12


def test_errors_are_absolute_and_over_the_largest_value():
    error = measure_error(Reference(np.array([1.0, -4.0]), None), np.array([1.5, -4.0], np.float32))
    assert (error.max_abs, error.max_rel, error.non_finite) == (0.5, 0.125, 0)
    zeros = measure_error(Reference(np.zeros(2), None), np.array([0.0, 0.5]))
    assert (zeros.max_abs, zeros.max_rel) == (0.5, 0.5)


def test_what_is_not_finite_counts_unless_it_is_the_same():
    expected = Reference(np.array([np.inf, np.nan, 1.0]), None)
    assert measure_error(expected, np.array([np.inf, np.nan, 1.0], np.float32)) == measure_error(Reference(np.ones(1), None), np.ones(1))
    wrong = measure_error(expected, np.array([-np.inf, 2.0, np.nan], np.float32))
    assert (wrong.max_abs, wrong.max_rel, wrong.non_finite) == (None, None, 3)


def test_the_tolerance_grows_with_the_root_of_the_terms():
    assert tolerance(experiment("layer", dims={"in": 64, "out": 1}), "float32") == pytest.approx(8 * 8 * 2**-23)
    assert tolerance(experiment("elementwise"), "float32") == pytest.approx(8 * 2**-23)
    assert tolerance(experiment("contraction", dims={"rows": 100, "cols": 1}, dtype="bfloat16"), "bfloat16") == pytest.approx(80 * 2**-7)
    assert tolerance(experiment("contraction", dtype="int32"), "int32") == 0


@pytest.mark.parametrize(("platform", "spec", "dtype", "words"), [
    ("cpu", {}, "float32", None),
    ("tpu", {}, "bfloat16", "bfloat16 passes"),
    ("tpu", {"options": {"precision": "highest"}}, "float32", None),
    ("tpu", {"dtype": "float16"}, "float16", None),
    ("gpu", {}, "tfloat32", "TF32"),
])
def test_coarser_multiplication_is_said_rather_than_called_wrong(platform, spec, dtype, words):
    found, note = compute_dtype(experiment("layer", **spec), platform)
    assert found == dtype
    assert note is None if words is None else words in note


def layer_operands(x):
    rng = np.random.default_rng(0)
    return {"x": x, "weights": rng.normal(size=(256, 64)).astype(np.float32), "bias": np.zeros(64, np.float32)}


def judged(operands):
    """How steep the sigmoid is, and the error of the same layer computed in float32, over the plain tolerance."""
    chosen = experiment("layer", dims={"batch": len(operands["x"]), "in": 256, "out": 64})
    expected = reference(chosen, operands)
    z = operands["x"] @ operands["weights"]
    with np.errstate(over="ignore"):
        error = measure_error(expected, 1 / (1 + np.exp(-z)))
    return steepness(chosen, operands, expected), error.max_rel / tolerance(chosen, "float32")


def test_large_operands_of_a_sigmoid_are_judged_by_the_rounding_of_their_sums():
    steep, error = judged(layer_operands(np.random.default_rng(1).normal(size=(64, 256)).astype(np.float32)))
    assert steep == 1.0 and error < 1
    cancelling = layer_operands(np.zeros((4, 256), np.float32))
    cancelling["x"][:, :3] = (3e4, -3e4, 1.0)  # two large terms that leave a small one
    cancelling["weights"][1] = cancelling["weights"][0]
    cancelling["weights"][0] *= np.float32(1 + 2**-20)
    steep, error = judged(cancelling)
    assert steep > 100 and error < steep
    contraction = experiment("contraction", dims={"rows": 2, "cols": 1})
    assert steepness(contraction, {}, Reference(np.ones(1), None)) == 1.0


def test_numbers_below_what_float32_holds_count_as_nothing():
    tiny = Reference(np.array([1e-217, 1e-230]), None)
    assert measure_error(tiny, np.zeros(2)).max_rel < 1e-100
    small = Reference(np.array([1e-30]), None)
    assert measure_error(small, np.zeros(1)).max_rel == 1.0
    assert measure_error(Reference(np.array([0.0]), None), np.array([0.5])).max_rel == 0.5


def drawn(data: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    values = {"normal": lambda: rng.normal(size=shape), "arange": lambda: np.arange(np.prod(shape)).reshape(shape), "ones": lambda: np.ones(shape)}
    return values[data]().astype(np.float32)


def visible(changed: int, cases: int, data: str) -> bool:
    """Sigmoids of large numbers are all 1, and ones may be permuted: there the wrong program gives the right numbers."""
    return changed == cases if data == "normal" else changed > 0


@pytest.mark.parametrize("data", ["normal", "arange", "ones"])
def test_a_layer_without_its_all_reduce_or_with_shards_exchanged_is_wrong_however_steep(data):
    rng, steepest, told = np.random.default_rng(0), 0.0, {"dropped": 0, "exchanged": 0}
    cases = [(batch, size, out) for batch in (1, 4, 32) for size in (2, 8, 64, 512) for out in (2, 16)]
    for batch, size, out in cases:
        chosen = experiment("layer", dims={"batch": batch, "in": size, "out": out})
        x, weights, bias = drawn(data, (batch, size), rng), drawn(data, (size, out), rng), drawn(data, (out,), rng)
        operands = {"x": x, "weights": weights, "bias": bias}
        expected = reference(chosen, operands)
        steep = steepness(chosen, operands, expected)
        steepest, half = max(steepest, steep), size // 2
        z = x[:, :half].astype(float) @ weights[:half].astype(float) + bias
        wrong = {"dropped": 1 / (1 + np.exp(-z)), "exchanged": np.roll(expected.values, out // 2, axis=1)}
        for name, output in wrong.items():
            error = measure_error(expected, output).max_rel
            if error is None or error > tolerance(chosen, "float32"):  # what shows at all
                told[name] += 1
                assert error is None or error > steep * tolerance(chosen, "float32"), (name, batch, size, out)
    assert steepest < 20
    assert visible(told["dropped"], len(cases), data)
    assert visible(told["exchanged"], len(cases), data) or data == "ones"


def test_right_values_that_are_all_alike_hide_exchanged_parts():
    assert uniform(Reference(np.array([1.0, 1 - 1e-8]), None), 1e-6) and uniform(Reference(np.zeros(2), None), 0.0)
    for values in ([1.0, 0.99], [1.0], [1.0, math.inf]):
        assert not uniform(Reference(np.array(values), None), 1e-6)

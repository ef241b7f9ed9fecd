"""Planted faults are caught, and right answers are not refused: a fast part of
bench/planted_faults.py and right_answers.py."""

from collections import Counter

import pytest

from bench import small_shapes
from bench.judging import Case
from bench.own_faults import OWN, OWN_FUNCTIONS, passed
from bench.planted_faults import DTYPES, FAULTS, caught
from bench.right_answers import SPECS, SUM_NEAR_0, experiment_of, judged, kinds_of_data
from spmd_core.experiment import parse_experiment
from spmd_core.words import fact_words
from spmd_core.workloads import WORKLOADS
from tests.cover import cover

pytestmark = pytest.mark.this_python

FAST = [
    fault
    for fault in FAULTS
    if fault.workload not in ("exponential", "transformer_block", "attention")
]


@pytest.mark.parametrize(
    ("fault", "dtype"),
    cover(FAST, ["float32", "bfloat16"]),
    ids=lambda each: getattr(each, "name", each),
)
def test_a_planted_fault_is_caught(fault, dtype):
    assert caught(fault, dtype, seeds=[0]) is None


def test_a_fault_that_is_none_is_not_caught():
    """So that a judgement that calls everything wrong does not pass."""
    harmless = next(fault for fault in FAULTS if fault.output is not None)
    assert (
        caught(
            type(harmless)(harmless.name, harmless.workload, harmless.dims, harmless.sharding),
            "float32",
            [0],
        )
        == "seed 0: not caught"
    )


@pytest.fixture(scope="module")
def own_functions(tmp_path_factory):
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(OWN, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMD_LAB_WORKLOADS", str(file))
        yield


@pytest.mark.parametrize(
    ("function", "dtype", "cols"),
    [
        ("unit_norm", "float16", 4096),  # whose sum passes 65504
        ("running_sum", "bfloat16", 1024),
        ("chaotic", "float32", 64),
        ("centered", "bfloat16", 512),
    ],
)
def test_no_fault_of_a_function_of_one_s_own_is_called_right(own_functions, function, dtype, cols):
    assert function in OWN_FUNCTIONS
    assert passed(function, cols, dtype) == []


def test_a_chaotic_function_is_not_judged_for_the_reason_that_it_has(own_functions):
    spec = {"workload": "chaotic", "mesh": {"x": 8}, "target": "cpu:8", "strategies": ["auto"]}
    (trial,) = Case(parse_experiment(spec)).judged()
    assert trial.correct is None and trial.wrong is None
    assert (
        "4,096 of 4,096 elements of y are not judged: rounding spreads them as far as the "
        "values of "
        "the reference lie apart" in map(fact_words, trial.facts)
    )
    assert all(fact.kind != "values alike" for fact in trial.facts)


SUMMING = """
import jax
import jax.numpy as jnp
from spmd_core.declare import workload

SIZES = {"rows": 4096, "cols": 8, "groups": 8}


@workload(operands={"x": ("rows", "cols")}, results={"y": ("groups", "cols")}, defaults=SIZES)
def grouped(x):
    return jax.ops.segment_sum(jnp.abs(x), jnp.arange(len(x)) % 8, 8)


@workload(operands={"x": ("rows",)}, results={"y": ("rows",), "total": ()}, defaults=SIZES)
def with_total(x):
    return 2 * x, (x * x).sum()


@workload(operands={"x": ("rows",)}, results={"y": ()}, defaults=SIZES)
def number(x):
    return 3.0


@workload(operands={"x": ("rows",)}, results={"y": ()}, defaults=SIZES)
def turned(x):
    return x.sum() * 1j
"""


@pytest.fixture
def summing(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(SUMMING, "utf-8")
    monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(tmp_path / "own.py"))


def own(workload, changes, **fields):
    """Trials of a function of one's own, one for each change of its results."""
    spec = {"workload": workload, "mesh": {"x": 8}, "target": "cpu:8", "strategies": ["single"]}
    return list(Case(parse_experiment(spec | fields)).judged_with([None, *changes]))


def test_a_long_sum_in_bfloat16_is_imprecise_and_not_wrong(summing):
    def zeros(arrays):
        arrays["y"][...] = 0

    right, wrong = own("grouped", [zeros], dtype="bfloat16")
    assert right.correct and right.imprecise.terms == 512 and 0.01 < right.imprecise.off < 0.3
    assert right.imprecise.dtype == "bfloat16" and right.wrong is None
    assert wrong.correct is False and wrong.wrong.share == 1 and wrong.imprecise is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_does_not_turn_the_check_off(summing, dtype):
    """A fault in it is found, and one in the result beside it."""

    def fault(name):
        def change(arrays):
            arrays[name].reshape(-1)[0] *= arrays[name].dtype.type(0.5)

        return change

    right, *wrong = own("with_total", [fault("total"), fault("y")], dtype=dtype)
    assert right.correct
    assert [(each.correct, each.wrong.count) for each in wrong] == [(False, 1)] * 2
    assert [each.wrong.worst.result for each in wrong] == ["total", "y"]


def test_a_script_judges_a_number_too(tmp_path, monkeypatch):
    """Of a function beside a constant that has the name of one of the script's own."""
    (tmp_path / "own.py").write_text(small_shapes.OWN, "utf-8")
    monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(tmp_path / "own.py"))
    fields = {"workload": "own_both", "dtype": "bfloat16", "strategies": ["auto"]}
    assert small_shapes.of_script(fields) == (True, False)


def test_what_python_returns_is_compared_and_what_is_complex_is_refused(summing):
    (three,) = own("number", [])
    assert three.correct
    (turned,) = own("turned", [])
    assert turned.correct is None
    assert [fact_words(fact) for fact in turned.facts] == [
        "not compared: y is complex: return its real and imaginary parts"
    ]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_operands_that_float16_cannot_hold_leave_nothing_to_judge():
    spec = {
        "workload": "layer",
        "dims": {"in": 65_536, "out": 4},
        "dtype": "float16",
        "data": {"x": "arange", "weights": "arange", "bias": "arange"},
        "mesh": {"x": 8},
        "target": "cpu:8",
        "strategies": ["auto"],
    }
    (trial,) = Case(parse_experiment(spec)).judged()
    assert trial.correct is None
    assert any("4 of 4 elements of y are not judged" in fact_words(fact) for fact in trial.facts)


# in one dtype each, float16 where its sums are long: bench/right_answers.py has them all
@pytest.mark.parametrize(
    ("workload", "dtype"),
    [
        *(
            (workload, "float32")
            for workload in ("elementwise", "layer", "dot", "convolve", "train_step")
        ),
        *((workload, "bfloat16") for workload in ("layer", "matmul", "normalize", "mlp")),
        ("contraction", "float16"),
    ],
)
def test_right_answers_are_not_refused(workload, dtype):
    counts, spec = Counter(), next(spec for spec in SPECS if spec[0] == workload)
    assert (
        judged(Case(experiment_of(spec, dtype)), kinds_of_data(spec, dtype), range(3), counts) == []
    )
    assert counts["answers"] > 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_that_lies_near_0_is_not_refused(dtype):
    assert judged(Case(experiment_of(SUM_NEAR_0, dtype)), [{}], [2134], Counter()) == []


def test_every_workload_that_computes_is_among_those_that_are_judged():
    assert {spec[0] for spec in SPECS} == {
        what.name for what in WORKLOADS.values() if what.operands and not what.compile_only
    }

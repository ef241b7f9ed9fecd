"""What a small program gave, as text: shapes, NumPy's way of printing, and equal results in one
row.
"""

import pytest

from bench.values import result, strategy
from spmd_core.recipes import RECIPES
from spmd_core.results import ArrayReport, StrategyResult
from spmd_core.words.runs import program_words
from spmd_lab.ui.compare.small_program import array_text, numbers, parts, shape_text
from tests.ui import opened, read
from tests.ui.predictions import store


def array(shape, *values, dtype="float32"):
    return ArrayReport(shape=shape, dtype=dtype, values=values or None)


def test_an_array_is_printed_in_its_shape_with_all_the_digits_that_jax_prints():
    assert (
        array_text(array((2, 2), 0.02138914167881012, 0.8931120634078979, 1.0, -2.0))
        == "[[ 0.02138914  0.89311206]\n [ 1.         -2.        ]]"
    )
    assert (shape_text(array((8, 1), 1.0)), shape_text(array((), 3, dtype="int32"))) == (
        "float32 (8, 1)",
        "int32",
    )
    assert array_text(array((), 3, dtype="int32")) == "3"
    assert array_text(array((2,), 1.5, "nan", dtype="bfloat16")) == "[1.5 nan]"
    assert array_text(array((1,), 0.10009765625, dtype="bfloat16")) == "[0.1001]"
    assert array_text(array((10**6, 3))) == "not kept: more than 256 numbers"


def test_equal_results_share_a_row_and_those_of_another_shape_do_not():
    found = StrategyResult(
        status="ok",
        outputs={
            "vmap": array((2,), 1.0, 2.0),
            "pmap": array((2,), 1.0, 2.0),
            "pmap(vmap)": array((2, 1), 1.0, 2.0),
        },
        printed={"error": "1e-07", "jaxpr": "{ lambda ;\n }"},
    )
    rows, blocks = parts(found)
    assert rows.to_numpy().tolist() == [
        ["vmap, pmap", "float32 (2,)", "[1. 2.]"],
        ["error", "", "1e-07"],
    ]
    assert blocks == {"pmap(vmap), float32 (2, 1)": "[[1.]\n [2.]]", "jaxpr": "{ lambda ;\n }"}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((True, ()), "The program did not run to its end."),
        ((False, ()), "Every number is as the example says."),
        (
            (False, ("y is 1, not 2",)),
            "The program ran, but not every number is as the example says.",
        ),
        ((False, None), "The program ran, with changes of your own."),
    ],
)
def test_the_answer_comes_in_a_sentence(asked, answer):
    assert program_words(*asked) == answer


def test_texts_alone_have_no_shapes():
    rows, blocks = parts(
        StrategyResult(status="ok", printed={"memory before": "device", "memory after": "device"})
    )
    assert (
        rows.to_numpy().tolist() == [["memory before", "device"], ["memory after", "device"]]
        and blocks == {}
    )


def test_losses_are_drawn_only_where_all_are_numbers():
    assert numbers(array((2,), 4.0, 1.0)) == [4.0, 1.0]
    assert numbers(array((2,), 4.0, "nan")) == numbers(array((2,))) == numbers(None) == []


RIGHT = {"total": ArrayReport(shape=(), dtype="int32", values=(496,), spec=())}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "answer"),
    [(RIGHT, None), ({}, "The program ran, but not every number is as the example says.")],
)
def test_an_example_asks_its_own_question_and_its_finding_is_the_answer(
    lab, data_folder, outputs, answer
):
    recipe, run = RECIPES["psum_total"], "20260101-000000-aaaaaa"
    outcome = StrategyResult(status="ok", outputs=outputs)
    of_example = {"experiment": recipe.experiment, "strategies": {"as_written": outcome}}
    store(data_folder, result({"auto": strategy(1e-3)}, run=run).model_copy(update=of_example))
    screen = opened("compare", run=run)
    assert screen.title[0].value == recipe.title
    assert read(screen.subheader[0].value) == (
        answer or "The number 496, which every device holds."
    )
    row = str([each.proto for each in opened("history").main])
    assert (recipe.look_at in row) is (answer is None) and recipe.title in row

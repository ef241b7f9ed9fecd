"""What a small program gave: the verdict first, then every result with its shape as NumPy prints
it, then the program itself.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from spmd_core.base import by_key, value_text
from spmd_core.experiment import Experiment
from spmd_core.recipes import differences_of, recipe_of
from spmd_core.results import ArrayReport, Result, StrategyResult
from spmd_core.script import program
from spmd_core.terms import environment_words
from spmd_core.words import runs as words
from spmd_lab.ui.charts import curve
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import QUESTIONS, draw_table

LOSSES = "losses"  # a result of this name is drawn as a curve
_WIDTH = 100  # characters of a line of numbers
_TEXT_IN_A_ROW, _ARRAY_IN_A_ROW = 120, 80  # characters: what is longer is shown apart


def question(experiment: Experiment) -> str:
    """Returns the question of the screen: of a small program that is an example its title."""
    recipe = recipe_of(experiment)
    if not experiment.what.is_small_program:
        return QUESTIONS["compare"]
    return recipe.title if recipe else "What does this program give?"


def headline(result: Result, when: str) -> None:
    """What it shows, of a classic example; whether the numbers are the example's, where and when it
    ran.
    """
    recipe = recipe_of(result.experiment)
    checked = words.run_headline(result, differences_of(result))
    first, *more = [*(recipe.findings(result) if recipe else ()), checked]
    with st.container(border=True, key="answer"):
        st.subheader(plain(first), anchor=False)
        if more:
            st.markdown(plain(" ".join(more)))
        st.caption(
            plain(
                " · ".join(
                    (environment_words(result.environment), f"finished {when}", f"run {result.run}")
                )
            )
        )


def values(result: Result) -> None:
    """What the program gave: short results in a table, long ones apart, losses as a curve; and the
    program.
    """
    for name, strategy in result.strategies.items():
        _values(name, strategy)
    st.markdown("**The program that gave this**")
    st.code(
        program.program_text(result.experiment, next(iter(result.strategies))),
        language="python",
        line_numbers=True,
    )


def _values(name: str, strategy: StrategyResult) -> None:
    rows, blocks = parts(strategy)
    if losses := numbers(strategy.outputs.get(LOSSES)):
        curves = {name: losses}
        st.vega_lite_chart(
            curve.curve_chart("loss", curves, range(len(losses))),
            alt=curve.curve_alt("loss", curves),
            key="losses",
        )
    if len(rows):
        draw_table(rows)
    for what, text in blocks.items():
        st.markdown(f"**{plain(what)}**")
        st.code(text, language=None, wrap_lines=True)


def parts(strategy: StrategyResult) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Results that fit in a row of a table, with the shape where any has one; and the others by
    name. Equal arrays share a row.
    """
    named = by_key(
        ((shape_text(report), array_text(report)), name)
        for name, report in strategy.outputs.items()
    )
    outputs = [(", ".join(names), shape, text) for (shape, text), names in named.items()]
    outputs += [(name, "", text) for name, text in strategy.printed.items()]
    rows = [
        (what, shape, " ".join(text.split()).replace("[ ", "["))
        for what, shape, text in outputs
        if _fits_in_a_row(shape, text)
    ]
    table = pd.DataFrame(rows, columns=["Result", "Shape", "Value"])
    blocks = {
        f"{what}, {shape}" if shape else what: text
        for what, shape, text in outputs
        if not _fits_in_a_row(shape, text)
    }
    return table if any(table["Shape"]) else table.drop(columns="Shape"), blocks


def _fits_in_a_row(shape: str, text: str) -> bool:
    return "\n" not in text and len(text) <= (_ARRAY_IN_A_ROW if shape else _TEXT_IN_A_ROW)


def shape_text(report: ArrayReport) -> str:
    """Shape and dtype as JAX writes them, a number as its dtype alone: `float32 (8, 1)`."""
    return f"{report.dtype} {report.shape}" if report.shape else report.dtype


def array_text(report: ArrayReport) -> str:
    """The values as NumPy prints an array of that shape and dtype, or why they are not here."""
    if report.values is None:
        return "not kept: more than 256 numbers"
    known = (
        report.dtype
        if report.dtype in ("float16", "float32", "float64", "int32", "int64", "uint32", "bool")
        else "float64"
    )
    numbers = (
        [value_text(value, report.dtype) for value in report.values]
        if report.dtype == "bfloat16"
        else report.values
    )
    array = np.array(numbers, known).reshape(report.shape)
    return np.array2string(array, max_line_width=_WIDTH, separator=" ")


def numbers(report: ArrayReport | None) -> list[float]:
    """The values of an array of numbers, where there are any and all are finite."""
    values = () if report is None or report.values is None else report.values
    finite = [float(value) for value in values if isinstance(value, int | float)]
    return finite if len(finite) == len(values) else []

"""The tables of a finished run: values, layouts, phases, memory, samples, machine."""

from dataclasses import replace

import streamlit as st

from spmd_core.answers import (
    DETAILS,
    phases_table,
    samples_table,
)
from spmd_core.experiment import Experiment, layout
from spmd_core.fields import Spec, axes_of, padded
from spmd_core.results import ArrayReport
from spmd_core.terms import environment_words, title
from spmd_core.words import runs as words
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import choices, hardware, tables
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import Spec as VegaSpec
from spmd_lab.ui.compare import small_program, study
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.layout import picture
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table
from spmd_lab.ui.tables import sheet


def draw(view: View) -> None:
    """One of the tables; those with nothing in them are left out."""
    every = view.result.strategies.values()
    has_errors = any(each.max_abs_error is not None for each in every)
    has_content = {
        "Values": has_errors
        or words.outputs(view.result)
        or view.result.experiment.what.is_small_program,
        "Layouts": any(each.operands or each.outputs for each in every),
        "Phases": view.phases,
        "Memory": view.memory,
        "Samples": any(each.samples_s for each in every),
    }
    names = [name for name in TABLES if has_content.get(name, True)]
    TABLES[choices.one_of("Table", names, choices.DETAIL)](view)


def _values(view: View) -> None:
    if view.result.experiment.what.is_small_program:
        small_program.values(view.result)
        return
    if any(each.max_abs_error is not None for each in view.result.strategies.values()):
        own = view.result.experiment.what.source is not None
        of = "the function itself on one device" if own else "a NumPy reference"
        st.caption(f"Errors are against {of}, in float64.")
        draw_table(DETAILS["errors"](view.result), named=colors.cells(view.result))
    alone = len(view.result.strategies) == 1
    for what, texts in words.outputs(view.result).items():
        for whose, text in words.output_texts(view.result, what, texts):
            st.markdown(
                f"**{plain(what)}**"
                + ("" if alone else f", {colors.sentence(whose, view.result.experiment)}")
            )
            st.code(text, language=None, wrap_lines=True)


def _layouts(view: View) -> None:
    result = view.result  # what is on one device comes last
    names = sorted(
        result.strategies, key=lambda name: STRATEGIES[result.row(name).strategy].is_single_device
    )
    name = study.choose(result.experiment, names)
    strategy = view.result.strategies[name]
    draw_table(tables.arrays_table(view.result, name))
    arrays = {
        array: report
        for array, report in (strategy.operands | strategy.outputs).items()
        if report.spec is not None
    }
    if not arrays:
        st.caption(f"{plain(title(name))} shards nothing over the mesh.")
        return
    array = st.segmented_control(
        "Array",
        list(arrays),
        format_func=plain,
        default=next(iter(arrays)),
        required=True,
        key=f"array:{','.join(arrays)}",
        label_visibility="collapsed",
    ) or next(iter(arrays))
    report = arrays[array]
    held = layout(view.result.row(name).experiment.mesh, report.shape, spec_of(report))
    held = replace(held, dims=_dims(view.result.row(name).experiment, array, report))
    picture.draw(held, report.dtype, "held")


def _dims(experiment: Experiment, array: str, report: ArrayReport) -> tuple[str, ...]:
    own = (each for each in experiment.what.arrays if each.name == array)
    dims = next((each.present(experiment.sizes) for each in own), ())
    return dims if len(dims) == len(report.shape) else ()


def spec_of(report: ArrayReport) -> Spec:
    """The spec that JAX reports, with one entry for every dim."""
    return padded(tuple(map(axes_of, report.spec or ())), len(report.shape))


def _phases(view: View) -> None:
    _chart(view.phases, "phases", "Seconds of each phase by strategy")
    draw_table(phases_table(view.result), named=colors.cells(view.result))


def _memory(view: View) -> None:
    _chart(view.memory, "memory", "Bytes per device by strategy")
    draw_table(DETAILS["memory"](view.result), named=colors.cells(view.result))


def _chart(spec: VegaSpec | None, key: str, alt: str) -> None:
    if spec is not None:
        st.vega_lite_chart(spec, alt=f"{alt}; the numbers are in the table below", key=key)


def _samples(view: View) -> None:
    draw_table(DETAILS["measuring"](view.result), named=colors.cells(view.result))
    hosts = DETAILS["hosts"](view.result)
    if hosts.rows:
        draw_table(hosts)
    st.caption(plain(words.samples_words(view.result)))
    st.dataframe(sheet(tables.samples_frame(samples_table(view.result))), height=360)


def _machine(view: View) -> None:
    environment = view.result.environment
    st.markdown(plain(environment_words(environment)))
    roofs = DETAILS["roofs"](view.result)
    if roofs.rows:
        st.markdown("Least time by this machine's ceilings, and what they let expect:")
        draw_table(roofs, named=colors.cells(view.result))
    st.dataframe(sheet(hardware.devices_table(environment)), hide_index=True)


TABLES = {
    "Values": _values,
    "Layouts": _layouts,
    "Phases": _phases,
    "Memory": _memory,
    "Samples": _samples,
    "Machine": _machine,
}

"""What a program is before it is compiled: findings, where its bytes are, each array; and, once it
ran or was predicted, the same answer as any other workload has.
"""

import pandas as pd
import streamlit as st

from spmd_core.base import bytes_text, count_text
from spmd_core.experiment import (
    Experiment,
    Held,
    Program,
    layout_of,
    parse_experiment,
    shape_text,
)
from spmd_core.results import RunStatus, StrategyResult
from spmd_core.script import spec_text
from spmd_core.words import ago, compiled_findings, findings_lines, held_spec, program_headline
from spmd_lab.ui import remedies
from spmd_lab.ui.compare import comparison, questions, view as views
from spmd_lab.ui.lab import lab
from spmd_lab.ui.layout import picture
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import prediction
from spmd_lab.ui.programs import treemap
from spmd_lab.ui.tables import sheet

SHOWN_FINDINGS = 8
_TITLES = {
    "replicated": "Replicated",
    "resharded_state": "Resharded on each call",
    "missing_donation": "Not donated",
    "float32_leak": "float32 among bfloat16",
    "rule": "Rule",
    "replicated_output": "Result replicated",
    "lost_batch": "Batch lost",
    "repeated_work": "Repeated work",
    "wide_products": "Wide products",
    "constant": "Constant",
    "gathered_whole": "Gathered at once",
}


def before(program: Program, compiled: StrategyResult | None = None) -> None:
    """Findings first, then the numbers, the picture and the table; `compiled`: the program's own
    result.
    """
    st.subheader(plain(program_headline(program)), anchor=False)
    found = compiled_findings(compiled) if compiled else ()
    listed = [*((each.kind, each.sentence) for each in found), *findings_lines(program)]
    if listed:
        lines = [f"- **{_TITLES[kind]}**: {plain(sentence)}" for kind, sentence in listed]
        more = len(lines) - SHOWN_FINDINGS
        rest = [f"- and {more} more, which `program FILE` lists"] if more > 0 else []
        st.warning("\n".join([*lines[:SHOWN_FINDINGS], *rest]), icon=":material/search_insights:")
    if not program.described.mesh and not any(map(any, program.array_specs().values())):
        st.info(
            "Every device holds all of it, since the file has no shardings. Choose mesh and specs "
            "beside, let them be found below, or give the arguments shardings and export again.",
            icon=":material/grid_on:",
        )
    elif not listed:
        st.caption(
            "Nothing stands out: no large array is replicated beside sharded ones, and the state is "
            "donated and keeps its sharding."
            + (" Compiled, it keeps its batch and repeats no work." if compiled else "")
        )
    _arrays(program)


def _arrays(program: Program) -> None:
    arguments, outputs = program.arguments(), program.outputs()
    placed = treemap.tiles(arguments)
    if placed:
        st.caption(
            "Arguments by bytes per device. Click one for who holds what: the same colors are "
            "the same mesh axes."
        )
        event = st.vega_lite_chart(
            treemap.chart(placed),
            alt=treemap.alt(placed),
            key="treemap",
            on_select="rerun",
            selection_mode=["picked"],
            width="stretch",
        )
        _picked(program, arguments, event)
    for title, arrays, is_open in (("Arguments", arguments, True), ("Outputs", outputs, False)):
        with st.expander(
            f"{title}: {count_text(len(arrays))}",
            is_open,
            key=f"program-{title}",
            on_change="rerun",
        ) as box:
            if box.open:
                st.dataframe(sheet(table(arrays)), hide_index=True)


def table(arrays: tuple[Held, ...]) -> pd.DataFrame:
    """Path, shape, dtype, spec, bytes per device and copies of each array, the largest first."""
    rows = sorted(arrays, key=lambda each: -treemap.weight(each))
    return pd.DataFrame(
        {
            "Array": [each.leaf.path for each in rows],
            "Shape": [shape_text(each.shape) for each in rows],
            "Dtype": [each.leaf.dtype for each in rows],
            "Spec": [held_spec(each) for each in rows],
            "Per device": [bytes_text(each.bytes_per_device) for each in rows],
            "In all": [bytes_text(each.bytes) for each in rows],
            "Copies": ["–" if each.copies is None else str(each.copies) for each in rows],
            "Donated": ["yes" if each.leaf.is_donated else "" for each in rows],
        }
    )


def _picked(program: Program, arrays: tuple[Held, ...], event: object) -> None:
    """The layout of the array that was clicked; of a group, of its first."""
    selection = getattr(event, "selection", {}).get("picked") or []
    path = selection[0].get("path") if selection else None
    patterns = program.described.patterns
    held = next(
        (each for each in arrays if path in (each.leaf.path, patterns[each.leaf.path])), None
    )
    if held is None or held.spec is None or not held.shape:
        return
    experiment = parse_experiment(
        {
            "workload": "array",
            "mesh": program.mesh or (("x", 1),),
            "target": "cpu:256",
            "dims": {f"d{dim}": size for dim, size in enumerate(held.shape)},
            "sharding": {f"d{dim}": list(axes) for dim, axes in enumerate(held.spec) if axes},
        }
    )
    held_layout = layout_of(experiment)
    with st.container(border=True):
        st.markdown(f"**{plain(held.leaf.path)}** {plain(spec_text(held.spec))}")
        st.vega_lite_chart(
            picture.picture(held_layout, "float32"),
            alt=picture.alt_text(held_layout, "float32"),
            key="picked-layout",
        )
        st.markdown(picture.notes(held_layout))


def compiled_of(status: RunStatus | None, experiment: Experiment) -> StrategyResult | None:
    """What a run compiled of an experiment; None of another's, and where it did not get so far."""
    if status is None or not status.is_over or status.experiment != experiment:
        return None
    result = lab().result(status.run)
    compiled = result.strategies.get("auto") if result else None
    return compiled if compiled and compiled.status == "ok" else None


def after(status: RunStatus) -> None:
    """The answer of a run, as Predict and Compare show it."""
    when = ago(status.finished_at or status.submitted_at)
    if status.experiment.place.is_absent:
        result = prediction.result_of(status, status.experiment)
        if result is None:
            return
        prediction.headline(result, when)
        labels.draw(status.run)
        chosen = prediction.choose(result)
        if chosen is not None:
            prediction.numbers(result, chosen)
            prediction.details(result, chosen)
            remedies.draw(result, [chosen])
        return
    view = views.view(status.run)
    if view is None:
        return
    comparison.headline(view, when, lab().result(status.run))
    labels.draw(status.run)
    questions.draw(view)

"""What is wrong with a program, where its bytes are, each array; and, once it ran or was predicted,
the same answer as any other workload has.
"""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from spmd_core.advice import compiled_findings, grouped_findings, held_spec
from spmd_core.base import by_key, bytes_text, count_text
from spmd_core.experiment import Experiment, layout_of, parse_experiment, shape_text, spec_code
from spmd_core.results import StepFinding, StrategyResult
from spmd_core.runs import RunStatus
from spmd_core.terms import ago
from spmd_core.workloads import Described, Held, Program
from spmd_lab.ui import remedies
from spmd_lab.ui.compare import comparison, questions, view as views
from spmd_lab.ui.lab import lab
from spmd_lab.ui.layout import picture
from spmd_lab.ui.markdown import as_sentence, code, coded, plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import prediction
from spmd_lab.ui.programs import constrain, treemap
from spmd_lab.ui.shell import draw_figure
from spmd_lab.ui.tables import sheet

SHOWN_FINDINGS = 8
_TITLES = {
    "replicated": "Replicated",
    "resharded_state": "Resharded on each call",
    "missing_donation": "Not donated",
    "float32_leak": "float32 among bfloat16",
    "rule": "Odd one out",
    "replicated_output": "Result replicated",
    "lost_batch": "Batch lost",
    "repeated_work": "Repeated work",
    "wide_products": "Wide products",
    "constant": "Constant",
    "gathered_whole": "Gathered at once",
}


def wrong(program: Program, compiled: StrategyResult | None = None) -> None:
    """Draws what is wrong with a program: the largest in a card with what mends it, then each with
    its fix, the largest first; `compiled`: the program's own result.
    """
    listed, tried = _listed(program, compiled), constrain.fixes(program)
    with st.container(key="answer-wrong"):
        first = f" First: {_first(listed)}." if listed else ""
        st.subheader(plain(f"{_count(listed)}.{first}"), anchor=False)
        if listed and (held := listed[0].bytes_per_device):
            of = bytes_text(constrain.held_bytes(program, {}))
            draw_figure(bytes_text(held), f"of {of} per device")
        constrain.offer(program, [*tried.values()])
    if listed:
        with st.container(key="findings", gap=None):
            for at, each in enumerate(listed[:SHOWN_FINDINGS]):
                _finding(at, each, tried.get(each.path))
        if (more := len(listed) - SHOWN_FINDINGS) > 0:
            st.caption(f"{more} more, which `program FILE` lists.")
    if not program.described.mesh and not any(map(any, program.array_specs().values())):
        st.info(
            "Every device holds all of it, since the file has no shardings. Choose mesh and specs "
            "beside, or let them be found below.",
            icon=":material/grid_on:",
        )
    elif not listed:
        st.caption(
            "No large array is replicated beside sharded ones. The state is donated and keeps its "
            "sharding." + (" Compiled, it keeps its batch and repeats no work." if compiled else "")
        )


def _listed(program: Program, compiled: StrategyResult | None = None) -> list[StepFinding]:
    every = [*(compiled_findings(compiled) if compiled else ()), *grouped_findings(program)]
    return sorted(every, key=lambda each: -each.bytes_per_device)


def _count(listed: Sequence[StepFinding]) -> str:
    things = "1 thing is" if len(listed) == 1 else f"{len(listed)} things are"
    return f"{things} wrong" if listed else "Nothing stands out"


def _first(listed: Sequence[StepFinding]) -> str:
    return f"{_TITLES[listed[0].kind].lower()} {listed[0].path}"


def _finding(at: int, each: StepFinding, fix: constrain.Specs | None) -> None:
    is_copy = each.kind == "missing_donation"
    rest = each.sentence.removeprefix(each.path).strip()
    words = coded(f"{rest}." if rest != each.sentence else as_sentence(rest))
    held = f"{bytes_text(each.bytes_per_device)}{' more' * is_copy}"
    with st.container(horizontal=True, vertical_alignment="center", key=f"finding-{at}"):
        title = f":{'orange' if at else 'red'}[**{plain(_TITLES[each.kind])}**]"
        st.markdown(f"{title}  \n:small[{code(each.path)} {words}]", width="stretch")
        if each.bytes_per_device:
            st.markdown(f"**{plain(held)}**", width="content")
        if fix and st.button("Fix", key=f"mend:{at}"):
            constrain.give(fix)
        if is_copy:
            with st.popover("Fix", key=f"donate:{at}"):
                st.caption("In the call of `jax.jit`:")
                name = each.path.partition("/")[0]
                st.code(f'donate_argnames=("{name}",)', language="python", width="content")


def example(described: Described) -> None:
    """Draws what the screen makes of a program that nobody has opened yet."""
    program = Program(described, described.mesh)
    placed = treemap.tiles(program.arguments())
    listed = _listed(program)
    st.markdown(f"**An example.** {plain(f'{_count(listed)}, first: {_first(listed)}.')}")
    st.vega_lite_chart(treemap.chart(placed), alt=treemap.alt(placed), key="example-picture")


def picture_of(program: Program) -> None:
    """Draws where the bytes of a device are, and who holds the array that is clicked."""
    arguments = program.arguments()
    if not (placed := treemap.tiles(arguments)):
        return
    held = bytes_text(sum(each.weight for each in placed))
    roots = by_key((each.path.partition("/")[0], each.weight) for each in placed)
    parts = ", ".join(f"{name} {bytes_text(sum(each))}" for name, each in [*roots.items()][:2])
    st.markdown(f"**Arguments per device: {held}** :small[{plain(parts)}]")
    event = st.vega_lite_chart(
        treemap.chart(placed),
        alt=treemap.alt(placed),
        key="treemap",
        on_select="rerun",
        selection_mode=["picked"],
        width="stretch",
    )
    _picked(program, arguments, event)


def arrays(program: Program) -> None:
    """Draws the tables of the arguments and outputs, folded."""
    for title, arrays in (("Arguments", program.arguments()), ("Outputs", program.outputs())):
        with st.expander(
            f"{title}: {count_text(len(arrays))}", key=f"program-{title}", on_change="rerun"
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
        st.markdown(f"**{plain(held.leaf.path)}** {plain(spec_code(held.spec))}")
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
        row = prediction.headline(result, when)
        labels.draw(status.run)
        chosen = prediction.choose(result)
        if chosen is not None:
            prediction.numbers(result, chosen, when, row)
            prediction.details(result, chosen)
            remedies.draw(result, [chosen])
        return
    view = views.view(status.run)
    if view is None:
        return
    comparison.headline(view, when, lab().result(status.run))
    labels.draw(status.run)
    questions.draw(view)

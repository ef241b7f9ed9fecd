"""What is wrong with a program, where its bytes are, each array; and, once it ran or was predicted,
the same answer as any other workload has.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from spmd_core.advice import compiled_findings, grouped_findings, held_spec
from spmd_core.base import by_key, bytes_text, count_text
from spmd_core.experiment import Experiment, layout_of, parse_experiment, shape_text, spec_code
from spmd_core.machine import get_topology
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

Fixes = Mapping[str, constrain.Specs]  # by path of a finding
SHOWN_FINDINGS = 8
# of each kind: its title, and what is wrong in plain words
_TITLES = {
    "replicated": ("Replicated", "Each device holds all of {}."),
    "resharded_state": ("Resharded on each call", "Each call reshards {}."),
    "moved_state": ("Moved to another memory", "Each call moves {} to another memory."),
    "missing_donation": ("Not donated", "{} is held twice on each device."),
    "float32_leak": ("float32 among bfloat16", "{} is float32, the rest bfloat16."),
    "rule": ("Odd one out", "{} is not sharded like its neighbors."),
    "replicated_output": ("Result replicated", "Each device gets all of the result {}."),
    "lost_batch": ("Batch lost", "The batch is no longer sharded after {}."),
    "repeated_work": ("Repeated work", "Several devices compute the same at {}."),
    "wide_products": ("Wide products", "Products at {} are of a wider dtype."),
    "constant": ("Constant", "Each device holds a constant of {}."),
    "dropped_batch": ("Batch dropped", "The constraint at {} drops an axis of the batch."),
    "gathered_whole": ("Gathered at once", "All layers are gathered at once at {}."),
}
_COST_TIME = ("lost_batch", "repeated_work", "wide_products", "dropped_batch")
_BACK = {
    "missing_donation": 1.0,
    "float32_leak": 0.5,
}  # the share of its bytes that a fix gives back


def wrong(experiment: Experiment, compiled: StrategyResult | None = None) -> None:
    """Draws what is wrong with an exported program: in a card what costs the most, with what mends it; where
    its bytes are; each with its fix, by what that saves. `compiled`: the program's own result.
    """
    program = experiment.exported
    assert program is not None
    tried = constrain.fixes(program)
    listed = _listed(program, tried, compiled)
    is_absent = experiment.place.is_absent
    capacity = get_topology(experiment.target).chip.device_hbm_bytes if is_absent else 0
    with st.container(key="answer-wrong"):
        st.subheader(plain(_first(listed, tried)), anchor=False)
        if listed and (saved := _saved(listed[0], program, tried)):
            share = f": {saved / constrain.held_bytes(program, {}):.0%} of its arguments"
            share = share if listed[0].path in tried else ""  # what is held twice is an output
            of_hbm = f", {saved / capacity:.1%} of its HBM" if capacity else ""
            draw_figure(bytes_text(saved), f"saved on each device by this fix{share}{of_hbm}")
        with st.container(horizontal=True):
            if listed and listed[0].kind == "missing_donation":
                _donate(listed[0], "first")
            constrain.offer(program, [*tried.values()], bool(listed) and listed[0].path in tried)
    picture_of(program, capacity)
    if listed:
        with st.container(key="findings", gap=None):
            st.html(f"<h2>{_count(listed)}<small>{_saves(listed, program, tried)}</small></h2>")
            for at, each in enumerate(listed[:SHOWN_FINDINGS]):
                _finding(at, each, tried.get(each.path), _saved(each, program, tried))
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


def _listed(
    program: Program, tried: Fixes, compiled: StrategyResult | None = None
) -> list[StepFinding]:
    """Returns the findings by what their fixes save, then by their bytes, the largest first. Before
    them are those that cost time, unless the program does not fit.
    """
    every = [*(compiled_findings(compiled) if compiled else ()), *grouped_findings(program)]
    prediction = compiled.prediction if compiled else None
    first = () if prediction and not prediction.fits else _COST_TIME
    return sorted(
        every,
        key=lambda e: (e.kind not in first, -_saved(e, program, tried), -e.bytes_per_device),
    )


def _saved(each: StepFinding, program: Program, tried: Fixes) -> int:
    """Returns the bytes that the fix of a finding saves on a device; 0 where that is not known."""
    if (fix := tried.get(each.path)) is not None:
        return constrain.held_bytes(program, {}) - constrain.held_bytes(program, fix)
    return int(each.bytes_per_device * _BACK.get(each.kind, 0.0))


def _saves(listed: Sequence[StepFinding], program: Program, tried: Fixes) -> str:
    """Returns what a device holds, what it holds twice included, with the specs of all fixes and
    nothing held twice; that is no sum of what each saves.
    """
    twice = sum(each.bytes_per_device for each in listed if each.kind == "missing_donation")
    if len(tried) + bool(twice) < 2:
        return "saved on each device"
    every = {name: spec for fix in tried.values() for name, spec in fix.items()}
    held, mended = (constrain.held_bytes(program, specs) for specs in ({}, every))
    end = f", {bytes_text(twice)} of them held twice" if twice else ""
    return f"All mended: {bytes_text(held + twice)}{end} → {bytes_text(mended)} on each device"


def _count(listed: Sequence[StepFinding]) -> str:
    return "1 thing is wrong" if len(listed) == 1 else f"{len(listed)} things are wrong"


def _first(listed: Sequence[StepFinding], tried: Fixes) -> str:
    if not listed:
        return "Nothing stands out."
    first = listed[0]
    has_others = first.kind == "replicated" and len(tried.get(first.path, ())) > 1
    return _TITLES[first.kind][1].format(f"{first.path}{' and its optimizer state' * has_others}")


def _finding(at: int, each: StepFinding, fix: constrain.Specs | None, saved: int) -> None:
    rest = each.sentence.removeprefix(each.path).strip()
    words = coded(f"{rest}." if rest != each.sentence else as_sentence(rest))
    with st.container(horizontal=True, vertical_alignment="center", key=f"finding-{at}"):
        title = f":{'orange' if at else 'red'}[**{plain(_TITLES[each.kind][0])}**]"
        st.markdown(f"{title}  \n:small[{code(each.path)} {words}]", width="stretch")
        st.markdown(f"**{plain(bytes_text(saved))}**" if saved else "", width=90)
        with st.container(width=250):
            if fix and st.button(constrain.words(fix), key=f"mend:{at}", width="stretch"):
                constrain.give(fix)
            if each.kind == "missing_donation":
                _donate(each, str(at), "stretch")


def _donate(each: StepFinding, key: str, width: Literal["stretch", "content"] = "content") -> None:
    """Draws a button that says how an argument is donated: no spec of it changes."""
    name = each.path.partition("/")[0]
    kind: Literal["primary", "secondary"] = "primary" if key == "first" else "secondary"
    with st.popover(f"Donate {plain(name)}", key=f"donate:{key}", width=width, type=kind):
        st.caption("In the call of `jax.jit`:")
        st.code(f'donate_argnames=("{name}",)', language="python", width="content")


def example(described: Described) -> None:
    """Draws what the screen makes of a program that nobody has opened yet."""
    program = Program(described, described.mesh)
    placed = treemap.tiles(program.arguments())
    tried = constrain.fixes(program)
    listed = _listed(program, tried)
    st.markdown(f"**An example.** {plain(_first(listed, tried))}")
    st.vega_lite_chart(treemap.chart(placed), alt=treemap.alt(placed), key="example-picture")


def picture_of(program: Program, capacity: int) -> None:
    """Draws where the bytes of a device are, of so many where that is known, and who holds the array
    that is clicked.
    """
    arguments = program.arguments()
    if not (placed := treemap.tiles(arguments)):
        return
    hosted = sum(treemap.weight(each) for each in arguments if each.memory)
    held = bytes_text(sum(each.weight for each in placed) - hosted)
    roots = by_key((each.path.partition("/")[0], each.weight) for each in placed)
    parts = ", ".join(f"{name} {bytes_text(sum(each))}" for name, each in [*roots.items()][:2])
    room = f" of {bytes_text(capacity)}" if capacity else ""
    room += f", {bytes_text(hosted)} on the host" if hosted else ""
    st.markdown(f"**Arguments per device: {held}{room}** :small[{plain(parts)}]")
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
        picture.draw(held_layout, "float32", "picked-layout")
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

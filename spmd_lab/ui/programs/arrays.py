"""Where the bytes of a program are on a device, who holds an array, and tables of all arrays."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from spmd_core.advice import held_spec, results_beside
from spmd_core.base import bytes_text, count_text
from spmd_core.experiment import layout_of, parse_experiment, shape_text, spec_code
from spmd_core.workloads import Held, Program, findings
from spmd_lab.ui.layout import picture
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.programs import treemap
from spmd_lab.ui.tables import sheet

UPDATED = "updated "  # before the path of a result that is held beside its argument


def on_device(program: Program) -> tuple[Held, ...]:
    """Returns the arguments, and the results that a device holds beside those not donated."""
    path = f"{UPDATED}{{}}".format
    return program.arguments() + tuple(
        replace(each, leaf=each.leaf.model_copy(update={"path": path(each.leaf.path)}))
        for each in results_beside(program)
    )


def odd(program: Program) -> frozenset[str]:
    """Returns the paths of arrays that are sharded otherwise than those beside them."""
    owner = program.described.optimizer
    paths = {
        path
        for each in findings(program)
        if each.meant and each.kind == "rule" and any(each.spec or ())  # else its color has it
        for path in (each.path, *(other for other in each.others if other != owner.get(each.path)))
    }
    return frozenset(paths | {f"{UPDATED}{path}" for path in paths})


def picture_of(program: Program, mended: int | None) -> None:
    """Draws where the bytes of a device are, and who holds the array that is clicked. `mended`: those
    with all fixes; None while these are compared.
    """
    held = on_device(program)
    if not (placed := treemap.tiles(held)):
        return
    hosted = sum(treemap.weight(each) for each in held if each.memory)
    size = bytes_text(sum(each.weight for each in placed) - hosted)
    room = f", {bytes_text(hosted)} on the host" if hosted else ""
    after = size if mended is None else bytes_text(mended)
    fixed = f", {after} with all fixes" if after != size and not room else ""
    st.markdown(f"**Held on each device: {size}{room}{fixed}**")
    event = st.vega_lite_chart(
        treemap.chart(placed, odd(program)),
        alt=treemap.alt(placed),
        key="treemap",
        on_select="rerun",
        selection_mode=["picked"],
        width="stretch",
    )
    _picked(program, held, event)


def tables(program: Program) -> None:
    """Draws the tables of the arguments and outputs, folded."""
    for title, listed in (("Arguments", program.arguments()), ("Outputs", program.outputs())):
        with st.expander(
            f"{title}: {count_text(len(listed))}", key=f"program-{title}", on_change="rerun"
        ) as box:
            if box.open:
                st.dataframe(sheet(table(listed)), hide_index=True)


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
    if path is None:
        return
    held = next((e for e in arrays if path in (e.leaf.path, patterns.get(e.leaf.path))), None)
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

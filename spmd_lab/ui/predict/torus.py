"""A mesh on its torus in both device orders, side by side, and what each axis is there in words."""

import streamlit as st

from spmd_core.base import RequestError, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.machine import get_topology
from spmd_core.time import MeshAxis, mesh_axes
from spmd_lab.ui.charts import torus_chart
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict.tables import NONE, nowrap
from spmd_lab.ui.shell import draw_table, refusal

ORDERS = {"topology": "By topology", "plain": "Plain"}
_MEANINGS = {
    "topology": "as jax's mesh_utils assigns devices",
    "plain": "devices as they are listed",
}
_WIDTH_PX = 330  # of one picture; two are side by side
_LEGEND = (
    "Colors go from the first place along {axis} (blue) to the last (red), and the line joins the "
    "devices of one group in their order. Neighbors: how many links are between one device and the "
    "next along the axis, on average. Gather: until every device has 1 GiB, by the cost model."
)


def show(experiment: Experiment) -> None:
    """Both orders: the picture, colored along a mesh axis, and every axis in words."""
    try:
        topology = get_topology(experiment.target)
        axes_of = {order: mesh_axes(topology, experiment.mesh, order) for order in ORDERS}
    except RequestError as error:
        refusal(str(error))
        return
    if topology.chip.is_gpu:  # every GPU of a domain is as near as every other
        draw_table(axes_table(axes_of["plain"], "Links"))
        return
    axis = _axis_field(experiment)
    chosen = experiment.option("device_order")
    for column, (order, axes) in zip(st.columns(2, gap="medium"), axes_of.items(), strict=True):
        with column:
            used = " :blue-badge[this experiment]" if order == chosen else ""
            meaning = f":gray[:small[{plain(_MEANINGS[order])}]]"
            st.markdown(f"**{plain(ORDERS[order])}** {meaning}{used}")
            sentence = "; ".join(f"{each.name}: {each.words}" for each in axes)
            st.vega_lite_chart(
                torus_chart.torus_chart(topology, experiment.mesh, axis, order, _WIDTH_PX),
                alt=f"{topology.name}, {order} order, colored along {axis}. {sentence}",
                width="content",
                key=f"torus:{order}",
            )
            draw_table(axes_table(axes))
    st.caption(plain(f"{torus_chart.caption(topology)} {_LEGEND.format(axis=axis)}"))
    if (verdict := difference(axes_of["topology"], axes_of["plain"])) is not None:
        st.markdown(plain(verdict))


def _axis_field(experiment: Experiment) -> str:
    largest = max(experiment.mesh, key=lambda pair: pair[1])[0]
    names = [name for name, _ in experiment.mesh]
    if len(names) == 1:
        return largest
    chosen = st.segmented_control(
        "Color along",
        names,
        format_func=plain,
        default=largest,
        key=f"torus:axis:{','.join(names)}",
        required=True,
    )
    return chosen or largest


def axes_table(axes: tuple[MeshAxis, ...], title: str = "On the chips") -> dict[str, list[str]]:
    """One row per axis: what it is on the torus, or which links it uses where there is none, how
    far apart neighbors are, and what gathering over it takes.
    """
    return {
        "Axis": [nowrap(f"{each.name} {each.size}") for each in axes],
        title: [each.words for each in axes],
        "Neighbors": [
            (
                NONE
                if each.links_apart is None
                else nowrap(f"{each.links_apart:.2g} link{'' if each.links_apart == 1 else 's'}")
            )
            for each in axes
        ],
        nowrap("Gather 1 GiB"): [nowrap(seconds_text(each.gather_s)) for each in axes],
    }


def difference(placed: tuple[MeshAxis, ...], listed: tuple[MeshAxis, ...]) -> str | None:
    """What the plain order costs or gains, axis by axis, in a sentence; None where the two are
    alike.
    """
    parts = []
    for one, other in zip(placed, listed, strict=True):
        if one.gather_s and other.gather_s and abs(other.gather_s / one.gather_s - 1) > 0.05:
            ratio = other.gather_s / one.gather_s
            parts.append(
                f"{ratio:.2g}× as long over {one.name}"
                if ratio > 1
                else f"{ratio:.0%} of the time over {one.name}"
            )
    return f"In plain order, gathering takes {' and '.join(parts)}." if parts else None

"""From a program's collective to the Collectives screen: how long it takes there, by size."""

from contextlib import suppress

import streamlit as st

from spmd_core.base import RequestError, bytes_text, read_bytes
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import Collective
from spmd_core.terms import kind_title
from spmd_core.workloads import COLLECTIVES
from spmd_lab.ui import cards, choices
from spmd_lab.ui.markdown import plain


def draw(experiment: Experiment, one: Collective) -> None:
    """Draws a link to the sweep of collectives of this target and mesh, at one collective: its kind,
    axes and bytes; none where a sweep has no such kind.
    """
    if one.kind not in COLLECTIVES or not one.axes:
        return
    with suppress(RequestError):
        query = _query(experiment, one)
        st.page_link(
            "pages/collectives.py",
            label=plain(f"{kind_title(one.kind)} by size on {experiment.target}"),
            icon=":material/network_check:",
            query_params=query,
        )


def _query(experiment: Experiment, one: Collective) -> dict[str, str]:
    sweep = parse_experiment(
        {
            "workload": "collectives",
            "target": experiment.target,
            "mesh": experiment.axis_sizes,
            "options": {"device_order": experiment.option("device_order")},
        }
    )
    axes = [name for name, _ in experiment.mesh if name in one.axes]
    shown = bytes_text(one.bytes)
    exact = shown if read_bytes(shown) == one.bytes else f"{one.bytes} B"
    size = {choices.SIZE: exact} if experiment.place.is_absent and one.bytes else {}
    return cards.query(sweep) | {choices.KIND: one.kind, choices.TAB: "+".join(axes)} | size

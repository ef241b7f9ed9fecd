"""Which chips a collective is among, beside its kinds: a picture of the slice."""

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from spmd_core.base import capital
from spmd_core.experiment import Experiment
from spmd_core.fields import Axes
from spmd_core.machine import get_topology
from spmd_core.time import group_words
from spmd_lab.ui.charts import torus_chart
from spmd_lab.ui.markdown import coded, plain

_WIDTH_PX, _COLUMNS = 280, (2, 1)


@contextmanager
def beside(experiment: Experiment, axes: Axes) -> Iterator[None]:
    """Draws what follows on the left, and on the right the chips of each group over these axes: of
    TPUs that are not here, whose links are known.
    """
    topology = get_topology(experiment.place) if experiment.place.is_absent else None
    if topology is None or topology.chip.is_gpu or topology.devices == 1:
        yield
        return
    order = str(experiment.option("device_order"))
    left, right = st.columns(_COLUMNS, gap="medium")
    with left:
        yield
    words = capital(group_words(topology, experiment.mesh, order, axes))
    with right:
        is_one = set(axes) >= {name for name, size in experiment.mesh if size > 1}
        apart = "" if is_one else ", a color for each group"
        st.markdown(f"**On the chips**{plain(apart)}")
        chips = torus_chart.groups_chart(topology, experiment.mesh, axes, order, _WIDTH_PX)
        alt = f"{topology.name}: the chips of each group. {words}"
        st.vega_lite_chart(chips, key="sweep-chips", alt=alt, width="content")
        marks = {layer["mark"]["type"]: layer for layer in chips["layer"]}
        order = " The line joins one group in the order of the mesh." * ("line" in marks)
        order = " Numbers: the place of a chip in its group." if "text" in marks else order
        # as on 8 chips of v5e, which mesh_utils joins as one ring
        why = ", as `jax.make_mesh` places this mesh" * ("scattered" in words)
        st.caption(coded(f"{words} of the chips{why}.{order}"))

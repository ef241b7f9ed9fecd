"""The fields of a topology and of a mesh on it, for Predict and for Compare."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, count_text, mesh_text
from spmd_core.machine import (
    CHIPS,
    Topology,
    absent_target,
    get_topology,
    legal_shapes,
    nearest_of_chips,
    shape_text,
)
from spmd_core.plan import AXES_LINES, MESH_AXES
from spmd_core.terms import chip_title
from spmd_core.workloads import named_axes
from spmd_lab.ui import mesh_fields as axis_fields, state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import drafts
from spmd_lab.ui.state import Form, Mesh

USUAL_CHIPS = 16  # of a topology chosen in the place of a target that is none


class _Words(NamedTuple):
    shape: str
    shape_help: str
    slices: str
    slices_help: str


_TPU_WORDS = _Words(
    "Shape",
    "Chips along each physical axis of a slice: every shape that exists.",
    "Slices",
    "Slices of this shape, joined by DCN, the data center network.",
)
_GPU_WORDS = _Words(
    "GPUs of a domain",
    "GPUs that NVLink joins.",
    "NVLink domains",
    "NVLink domains of so many GPUs, joined by the network.",
)


def on_topology(screen: str, draft: Form, *, has_kind: bool = False) -> Form:
    """The draft, once the fields of its topology show its target. `has_kind`: that of the kind of
    chip is drawn elsewhere.
    """
    if has_kind:
        target = _shape(screen, draft["target"], st.columns([6, 4], gap="small"))
    else:
        left, *places = st.columns([5, 6, 4], gap="small")
        with left:
            kind, chosen = kind_field(screen, draft["target"])
        target = draft["target"]
        if chosen in CHIPS and chosen != kind:
            now = drafts.topology_target(target)
            chips = math.prod(now.topology) * now.slices if now and kind else USUAL_CHIPS
            target = nearest_of_chips(chosen, chips).target
        else:
            target = _shape(screen, target, places)
    if target != draft["target"]:
        redraw(screen, drafts.moved(draft, target))
    return draft


def redraw(screen: str, draft: Form) -> None:
    """Draw the screen again with the fields of `draft`."""
    state.remember(screen, state.draft(screen))
    state.replace_draft(screen, state.parse_or_keep(draft))
    st.rerun()


def kind_field(screen: str, target: str) -> tuple[str | None, str]:
    """Draws the field of the kind of chip: that of the target, None where it has none, and the one
    chosen.
    """
    now = drafts.topology_target(target)
    named = target if now is None or now.generation is None else now.generation
    chosen = st.selectbox(
        "TPU or GPU",
        [*([] if named in CHIPS else [named]), *CHIPS],
        key=state.seed(state.key(screen, "generation"), named),
        format_func=chip_title,
        help="Every TPU generation and GPU that programs are compiled for. None has to be attached.",
    )
    return (named if named in CHIPS else None), str(chosen)


def _shape(screen: str, target: str, places: Sequence[DeltaGenerator]) -> str:
    now = drafts.topology_target(target)
    if now is None or now.generation not in CHIPS:
        return target
    kind = now.generation
    legal, chip = legal_shapes(kind), CHIPS[kind]
    shapes = {
        shape_text(shape): shape
        for shape in (legal if now.topology in legal else (now.topology, *legal))
    }
    words = _GPU_WORDS if chip.is_gpu else _TPU_WORDS
    shape = places[0].selectbox(
        plain(words.shape),
        list(shapes),
        key=state.seed(state.key(screen, f"shape.{kind}"), shape_text(now.topology)),
        help=plain(words.shape_help),
    )
    slices = places[1].number_input(
        plain(words.slices),
        1,
        max(chip.max_slices, now.slices),
        key=state.seed(state.key(screen, f"slices.{kind}"), now.slices),
        help=plain(words.slices_help),
    )
    return absent_target(kind, shapes[shape], int(slices), chip.platform)


def mesh_fields(screen: str, draft: Form) -> Mesh:
    """Axis names and sizes, presets of one click, and whether they fill the topology."""
    try:
        topology = get_topology(draft["target"])
    except RequestError:
        topology = None
    named = named_axes(draft["workload"])
    mesh = _model_mesh(screen, draft) if named else axis_fields.mesh_input(screen)
    if topology is None:
        return mesh
    _fill(screen, draft, topology, mesh)
    with st.container(horizontal=True, gap="small"):
        for words, preset in drafts.presets(draft["workload"], topology, mesh).items():
            if st.button(
                plain(words),
                key=f"{screen}:preset:{words}",
                type="tertiary",
                icon=":material/grid_on:",
                disabled=preset == mesh,
            ):
                _use_mesh(screen, draft, preset)
    return mesh


def _fill(screen: str, draft: Form, topology: Topology, mesh: Mesh) -> None:
    """Whether the mesh fills the topology; where it does not, a button for one that does."""
    devices = math.prod(int(size or 0) for _, size in mesh)
    sizes = " × ".join(f"{size}" for _, size in mesh)
    product = f"{plain(sizes)}{f' = {devices:,}' if len(mesh) > 1 else ''}"
    if devices == topology.devices:
        st.caption(f"{product}: fills {plain(topology.name)}.")
        return
    st.caption(
        f":red[{product}, but {plain(topology.name)} has {count_text(topology.devices)} devices.]"
    )
    full = drafts.filled(draft | {"mesh": mesh}, topology)
    words = f"Use {mesh_text((name, size) for name, size in full)}"
    if st.button(plain(words), key=f"{screen}:fill", icon=":material/auto_fix_high:"):
        _use_mesh(screen, draft, full)


def _use_mesh(screen: str, draft: Form, mesh: Mesh) -> None:
    devices = math.prod(size or 0 for _, size in draft["mesh"])
    redraw(screen, drafts.with_mesh(draft, mesh, devices))


def _model_mesh(screen: str, draft: Form) -> Mesh:
    old = [list(axis) for axis in draft["mesh"]]
    count = st.segmented_control(
        "Mesh axes",
        range(1, max(4, len(old)) + 1),
        key=state.seed(state.key(screen, "mesh.count"), len(old)),
        required=True,
        help="Slices outermost. What each axis shards:\n"
        + "\n".join(f"- {plain(line)}" for line in AXES_LINES),
    ) or len(old)
    mesh = axis_fields.axis_rows(
        screen, old, count, ("fsdp", "tensor", "data", *MESH_AXES), ("axis", "size"), _chosen_name
    )
    return [[name, size or 0] for name, size in mesh]


def _chosen_name(
    place: DeltaGenerator, label: str, key: str, name: str, visible: axis_fields.Visible
) -> str:
    names = list(MESH_AXES) if name in MESH_AXES else [name, *MESH_AXES]
    return place.selectbox(label, names, key=key, label_visibility=visible)

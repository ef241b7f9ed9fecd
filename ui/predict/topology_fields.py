"""The fields of a topology and of a mesh on it, for Predict and for Compare."""

import math
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, count_text, mesh_text
from spmd_core.experiment import AXES, named_axes
from spmd_core.machine import (
    CHIPS,
    GPUS,
    absent_target,
    get_topology,
    legal_shapes,
    nearest_of_chips,
    shape_text,
)
from ui import mesh_fields as axis_fields
from ui import state
from ui.markdown import plain
from ui.predict import drafts

_CHIPS = 16  # of a topology chosen in the place of a target that is none


def on_topology(screen: str, draft: dict[str, Any]) -> dict[str, Any]:
    """The draft, once the fields of its topology show its target."""
    target = _topology(screen, draft["target"])
    if target != draft["target"]:
        redraw(screen, drafts.moved(draft, target))
    return draft


def redraw(screen: str, draft: dict[str, Any]) -> None:
    """Draw the screen again with the fields of `draft`."""
    state.remember(screen, state.draft(screen))
    state.replace_draft(screen, state.parse_or_keep(draft))
    st.rerun()


def _topology(screen: str, target: str) -> str:
    """Generation, shape and slices; what a link brought that is none of them stays until another is
    chosen.
    """
    now = drafts.topology_target(target)
    named = target if now is None or now.generation is None else now.generation
    generations = [*([] if named in CHIPS else [named]), *CHIPS]
    left, middle, right = st.columns([5, 6, 4], gap="small")
    with left:
        chosen = st.selectbox(
            "TPU or GPU",
            generations,
            key=state.seed(state.key(screen, "generation"), named),
            format_func=_chip_words,
            help="Every TPU generation and GPU that programs are compiled for. None has to be attached.",
        )
    if chosen not in CHIPS:
        return target
    if now is None or named != chosen:
        chips = (
            math.prod(now.topology) * now.slices if now is not None and named in CHIPS else _CHIPS
        )
        return nearest_of_chips(chosen, chips).target
    legal, chip = legal_shapes(chosen), CHIPS[chosen]
    shapes = {
        shape_text(shape): shape
        for shape in (legal if now.topology in legal else (now.topology, *legal))
    }
    with middle:
        shape = st.selectbox(
            "GPUs of a domain" if chip.is_gpu else "Shape",
            list(shapes),
            key=state.seed(state.key(screen, f"shape.{chosen}"), shape_text(now.topology)),
            help="GPUs that NVLink joins."
            if chip.is_gpu
            else "Chips along each physical axis of a slice: every shape that can be had.",
        )
    with right:
        slices = st.number_input(
            "NVLink domains" if chip.is_gpu else "Slices",
            1,
            max(chip.max_slices, now.slices),
            key=state.seed(state.key(screen, f"slices.{chosen}"), now.slices),
            help="NVLink domains of so many GPUs, joined by the network."
            if chip.is_gpu
            else "Slices of this shape, joined by DCN, the data center network.",
        )
    return absent_target(chosen, shapes[shape], int(slices), chip.platform)


def _chip_words(generation: str) -> str:
    if generation in GPUS:
        return generation.upper()
    return "7x" if generation == "tpu7x" else generation


def mesh_fields(screen: str, draft: dict[str, Any]) -> list[list[Any]]:
    """Axis names and sizes, presets of one click, and whether they fill the topology."""
    try:
        topology = get_topology(draft["target"])
    except RequestError:
        topology = None
    named = named_axes(draft["workload"])
    mesh = _model_mesh(screen, draft) if named else axis_fields.mesh_input(screen)
    if topology is None:
        return mesh
    devices = math.prod(int(size or 0) for _, size in mesh)
    words = " × ".join(f"{size}" for _, size in mesh)
    if devices == topology.devices:
        st.caption(
            f"{plain(words)}{f' = {devices:,}' if len(mesh) > 1 else ''}: fills {plain(topology.name)}."
        )
    else:
        st.caption(
            f":red[{plain(words)}{f' = {devices:,}' if len(mesh) > 1 else ''}, but {plain(topology.name)} has {count_text(topology.devices)} devices.]"
        )
        full = drafts.filled(draft | {"mesh": mesh}, topology)
        words = f"Use {mesh_text((name, size) for name, size in full)}"
        if st.button(plain(words), key=f"{screen}:fill", icon=":material/auto_fix_high:"):
            redraw(
                screen,
                drafts.with_mesh(draft, full, math.prod(size or 0 for _, size in draft["mesh"])),
            )
    with st.container(horizontal=True, gap="small"):
        for words, preset in drafts.presets(draft["workload"], topology, mesh).items():
            if st.button(
                plain(words),
                key=f"{screen}:preset:{words}",
                type="tertiary",
                icon=":material/grid_on:",
                disabled=preset == mesh,
            ):
                redraw(
                    screen,
                    drafts.with_mesh(
                        draft, preset, math.prod(size or 0 for _, size in draft["mesh"])
                    ),
                )
    return mesh


def _model_mesh(screen: str, draft: dict[str, Any]) -> list[list[Any]]:
    """Rows of an axis that a decoder is sharded over, and its size."""
    old = [list(axis) for axis in draft["mesh"]]
    count = st.segmented_control(
        "Mesh axes",
        range(1, max(4, len(old)) + 1),
        key=state.seed(state.key(screen, "mesh.count"), len(old)),
        required=True,
        help="Slices outermost. What each axis shards is under *Sharding*.",
    ) or len(old)
    mesh: list[list[Any]] = []
    for position in range(count):
        name, size = axis_fields.axis_at(
            screen, position, old, mesh, ("fsdp", "tensor", "data", *AXES)
        )
        names = list(AXES) if name in AXES else [name, *AXES]
        left, right = st.columns(2, gap="small")
        labels: Any = "visible" if position == 0 else "collapsed"  # of the first row
        chosen = left.selectbox(
            f"Axis {position + 1} name",
            names,
            key=state.seed(state.key(screen, f"axis.{position}"), name),
            label_visibility=labels,
        )
        length = right.number_input(
            f"Axis {position + 1} size",
            value=None,
            step=1,
            key=state.seed(state.key(screen, f"size.{position}"), size),
            label_visibility=labels,
        )
        mesh.append([chosen, length or 0])
    if len(mesh) < len(old):
        axis_fields.remove_axes(screen, old, len(mesh))
    return mesh

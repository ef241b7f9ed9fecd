"""The fields of the Collectives screen, as the JSON form of an experiment."""

import math

import streamlit as st

from spmd_core.base import RequestError, bytes_text, mesh_text
from spmd_core.fields import Mesh
from spmd_core.machine import Topology, default_target, get_topology, parse_target
from spmd_core.terms import workload_title
from spmd_core.workloads import (
    ALL,
    CALIBRATION,
    COLLECTIVES,
    COLLECTIVES_SWEEP,
    TRANSFERS,
    chosen_kinds,
    get_workload,
)
from spmd_lab.ui import choices, forms, inputs, mesh_fields, state
from spmd_lab.ui.collectives import typed
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form

SCREEN = "collectives"
_ENDS = ("smallest", "largest")
SIZES = tuple(2**power for power in range(8, 33, 2))
_WORKLOADS = (COLLECTIVES_SWEEP.name, CALIBRATION.name)


def what_input() -> str:
    """Collectives size by size, or the ceilings of the machine: the name of the workload."""
    now = state.draft(SCREEN)["workload"]
    chosen = st.segmented_control(
        "What to measure",
        _WORKLOADS,
        format_func=lambda name: (
            "Ceilings of this machine" if name == CALIBRATION.name else plain(workload_title(name))
        ),
        required=True,
        key=state.seed(state.key(SCREEN, "what"), now),
        label_visibility="collapsed",
    )
    if chosen and chosen != now:
        old = state.draft(SCREEN)
        target = old["target"]
        if chosen == CALIBRATION.name and target.startswith(("tpu:", "gpu:")):
            target = default_target()
        state.replace_draft(
            SCREEN, state.parse_or_keep({"workload": chosen, "target": target, "mesh": old["mesh"]})
        )
        state.set_run(SCREEN, None)
        st.rerun()
    return now


def fields(what: str) -> Form:
    """Draw the fields, all but the target folded; their values."""
    draft = state.draft(SCREEN)
    options = {name: value for name, value in draft["options"].items() if name == "device_order"}
    chosen: Form = {"workload": what, "target": _target(draft)}
    is_sweep = what == COLLECTIVES_SWEEP.name
    with forms.fold(SCREEN, f"Mesh: {plain(mesh_text(draft['mesh'], ' '))}", "fields:mesh"):
        chosen["mesh"] = mesh_fields.mesh_input(SCREEN)
    if is_sweep:
        with forms.fold(SCREEN, _swept(draft["options"]), "fields:kinds"):
            options |= _sizes(draft["options"]) | _kinds(draft["options"])
            chosen["dtype"] = inputs.dtype_input(SCREEN, get_workload(what))
    return draft | chosen | {"options": options}


def _target(draft: Form) -> str:
    """The field of the target; a mesh that does not fill the one that is typed becomes that of its
    chips.
    """
    text = inputs.target_input(SCREEN)
    if text == draft["target"]:
        return text
    try:
        place = parse_target(text)
        own = mesh_of(get_topology(place)) if place.is_absent else (("x", place.device_count or 0),)
    except RequestError:
        return text  # which the screen refuses in its own words
    mesh = draft["mesh"]
    devices = math.prod(size for _, size in own)
    if devices and math.prod(size or 0 for _, size in mesh) != devices:
        mesh = [list(axis) for axis in own]
    state.replace_draft(SCREEN, draft | {"target": place.text, "mesh": mesh})
    state.set_run(SCREEN, None)
    return st.rerun()


def mesh_of(topology: Topology) -> Mesh:
    """Returns the mesh with an axis for slices, each axis of the chips, and the devices of a chip, as
    far as there is more than one; for GPUs of NVLink domains, and of one. jax's mesh_utils places the
    last axis of a mesh on the first of the chips: so x is along x.
    """
    chips = [*zip("xyz", topology.shape, strict=False)]
    cores = ("core", topology.chip.devices_per_chip)
    named = [("slice", topology.slices), *reversed(chips), cores]
    return tuple(each for each in named if each[1] > 1) or (("x", 1),)


def _swept(now: Form) -> str:
    """The head of the fields of a sweep: its sizes, as they are in the fields."""
    low, high = (
        st.session_state.get(state.key(SCREEN, name)) or _shown(name, now) for name in _ENDS
    )
    return f"Sizes, kinds: {plain(f'{low} to {high}{_beyond(high)}')}"


def _beyond(largest: str) -> str:
    """Returns the size that is chosen beside those of the sweep, where it is larger."""
    try:
        size, most = typed.read_size(choices.now(choices.SIZE)), typed.read_size(largest)
    except RequestError:
        return ""
    return f", and {bytes_text(size)}" * (size > most)


def _shown(name: str, now: Form) -> str:
    value = now.get(name, COLLECTIVES_SWEEP.options[name].default)
    return bytes_text(value) if isinstance(value, int) else str(value)


def _kinds(now: Form) -> Form:
    kinds = st.pills(
        "Collectives",
        list(TRANSFERS),
        selection_mode="multi",
        format_func=lambda kind: plain(TRANSFERS[kind].title),
        key=state.seed(state.key(SCREEN, "kinds"), list(chosen_kinds(now))),
    )
    return {"kinds": ALL if set(kinds) == set(COLLECTIVES) else ",".join(kinds)}


def _sizes(now: Form) -> Form:
    rows = COLLECTIVES_SWEEP.options
    drawn = forms.draw_fields(forms.keyed(SCREEN), (rows["axes"], rows["points"]), now)
    left, right = st.columns(2, gap="small")
    with left:
        smallest = _size_input(_ENDS[0], now)
    with right:
        largest = _size_input(_ENDS[1], now)
    return {"smallest": smallest, "largest": largest} | drawn


def _size_input(name: str, now: Form) -> int | str:
    """A size of the list, or one that is typed; as typed where it is none, which the screen refuses."""
    row = COLLECTIVES_SWEEP.options[name]
    value = now.get(name, row.default)
    options = sorted({*SIZES, value} if isinstance(value, int) else SIZES)
    named = {bytes_text(each): each for each in options}
    shown = _shown(name, now)
    key = state.seed(state.key(SCREEN, name), shown)
    text = st.session_state[key] or shown
    listed = list(dict.fromkeys([*named, shown, text]))
    chosen = st.selectbox(
        plain(row.label),
        listed,
        key=key,
        accept_new_options=True,
        help="Type another, e.g. 100 MB.",
    )
    try:
        return named.get(chosen) or typed.read_size(chosen)
    except RequestError:
        return chosen

"""The fields of a program: target, sizes of its mesh axes and symbols, and specs by group of
arguments.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from spmd_core.experiment import spec_code
from spmd_core.fields import Spec, axes_of, padded
from spmd_core.machine import accelerator_files
from spmd_core.workloads import Leaf, Program
from spmd_lab.ui import inputs, mesh_fields, state
from spmd_lab.ui.markdown import code, plain
from spmd_lab.ui.state import Form, Mesh

SCREEN = "programs"
TOPOLOGIES = (
    "tpu:v5e:2x4",
    "tpu:v5e:4x4",
    "tpu:v5p:2x2x2",
    "tpu:v6e:4x4",
    "tpu:tpu7x:2x2x2",
    "gpu:h100:8",
    "gpu:h100:2x8",
)


_FIXED = "The program uses this axis inside shard_map: its size is part of the program."


def program_fields(program: Program) -> Form:
    """The experiment that the fields describe, as its JSON form."""
    draft = state.draft(SCREEN)
    mesh = _mesh(program, draft["mesh"])
    with st.expander(f"Target: {plain(draft['target'])}", key="fields:target"):
        target = _target(draft["target"])
    fields: Form = {"target": target, "mesh": mesh}
    if symbols := program.described.symbols:
        sizes = dict(draft["dims"])
        fields["dims"] = {
            name: int(
                inputs.number_input(SCREEN, f"dim.{name}", f"Size of {name}", sizes.get(name) or 64)
            )
            for name in symbols
        }
    fields["specs"] = _specs(program, dict(draft["specs"]), mesh)
    return draft | fields


def _mesh(program: Program, now: Mesh) -> Mesh:
    if not program.described.mesh:
        return mesh_fields.mesh_input(SCREEN)
    return [
        [
            axis,
            int(
                inputs.number_input(
                    SCREEN,
                    f"mesh.{axis}",
                    f"Mesh axis {axis}",
                    size,
                    text=_FIXED if axis in program.described.manual_axes else None,
                )
            ),
        ]
        for axis, size in now
    ]


def _target(now: str) -> str:
    local = ["local"] if accelerator_files() else []
    key = state.seed(state.key(SCREEN, "target"), now)
    options = list(
        dict.fromkeys([now, *TOPOLOGIES, *local, "cpu:8", "cpu:16", st.session_state[key]])
    )
    chosen = st.selectbox(
        "Target",
        options,
        key=key,
        accept_new_options=True,
        help="Where it is compiled for: TPUs or GPUs that are not attached, such as tpu:v5p:4x4x4 and "
        "gpu:h100:2x8, or devices on which it also runs: `local`, or simulated ones such as cpu:8.",
    )
    return chosen or now


def _specs(program: Program, now: Form, mesh: Mesh) -> Form:
    """A spec of its own for one group of arguments; those of others stay."""
    described = program.described
    parameters = {described.patterns[leaf.path] for leaf in described.weights}
    size = {each.leaf.path: each.bytes for each in program.arguments()}
    listed = sorted(
        described.groups.items(),
        key=lambda each: (each[0] not in parameters, -sum(size[leaf.path] for leaf in each[1])),
    )
    groups = {group: leaves for group, leaves in listed if leaves[0].sizes}
    if not groups:
        return now
    st.markdown("**Change a spec**")
    chosen = st.selectbox(
        "Argument",
        list(groups),
        key=state.seed(state.key(SCREEN, "group"), next(iter(now), next(iter(groups)))),
        # plain text, the same after a change: the browser selects an option by its text
        format_func=lambda group: f"{f'{len(groups[group])} × ' * (len(groups[group]) > 1)}{group}",
        help="Arguments of the same path in several layers are one group: `*` stands for the number. "
        "Moments with the spec of their parameter change with it.",
    )
    leaf, before = groups[chosen][0], _entries(program, now, groups[chosen][0])
    given = [
        inputs.axes_input(
            SCREEN, f"spec.{chosen}.{dim}", f"Dim {dim}, size {size}, sharded over", entry, mesh
        )
        for dim, (size, entry) in enumerate(zip(leaf.sizes, before, strict=False))
    ]
    spec, was = tuple(map(axes_of, given)), tuple(map(axes_of, before))
    moved = [chosen, *(_moments(program, now, chosen, was) if spec != was else ())]
    others = {group: each for group, each in now.items() if group not in moved}
    is_kept = chosen in now and spec == was  # as a link gives it, though its file has the same
    changed = {
        group: given for group in moved if is_kept or _differs(groups[group], spec, group in now)
    }
    for group, each in (changed | others).items():
        st.caption(f"{code(group)}: {code(spec_code(tuple(map(axes_of, each))))}")
    return changed | others


def _entries(program: Program, now: Form, leaf: Leaf) -> Sequence[Any]:
    group = program.described.patterns[leaf.path]
    return now.get(group) or [list(axes) for axes in program.spec(leaf)]


def _moments(program: Program, now: Form, group: str, spec: Spec) -> dict[str, None]:
    """Returns the groups of optimizer state of a group's parameters that have this spec as they do."""
    described = program.described
    return {
        described.patterns[path]: None
        for path, owner in described.optimizer.items()
        if described.patterns[owner] == group
        and tuple(map(axes_of, _entries(program, now, described.leaves[path]))) == spec
    }


def _differs(leaves: Sequence[Leaf], spec: Spec, is_given: bool) -> bool:
    """Returns True if a spec is another than the file's: of any layer where a group has its own."""
    some = leaves if is_given else leaves[:1]
    return any(spec != padded(each.spec or (), len(each.sizes)) for each in some)

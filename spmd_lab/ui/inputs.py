"""Widgets to values: each function draws the fields of one part of an experiment and returns that
part's JSON form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, read_settings
from spmd_core.machine import accelerator_files
from spmd_core.plan import VARIABLE, get_model
from spmd_core.terms import title
from spmd_core.workloads import Workload
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form, Mesh

ABSENT = (
    "tpu:v5e:4x4",
    "tpu:v6e:4x4",
    "tpu:v5p:2x2x4",
    "gpu:h100:8",
    "gpu:h100:2x8",
)  # offered as targets of a prediction
_MEANS_ABSENT = {
    "compare": " Or TPUs or GPUs that need not be attached, such as tpu:v5p:4x4x4 and gpu:h100:2x8: "
    "programs are compiled for them and their times predicted.",
    "collectives": " Or TPUs or GPUs that need not be attached, such as v5p:64 and h100:64: their "
    "times are predicted.",
    "layout": " Or TPUs or GPUs that need not be attached, such as tpu:v5p:4x4x4 and gpu:h100:2x8: "
    "cells show the device ids that JAX gives there.",
}
_SHARED = "All variants of the study share this."
_MEMORY_KINDS = ("device", "pinned_host")


def target_input(screen: str) -> str:
    """Where the experiment runs; other targets than those offered can be typed. TPUs and GPUs that
    are not attached are offered where they have an answer.
    """
    now = state.draft(screen)["target"]
    offered = [*(["local"] if accelerator_files() else []), "cpu:8", "cpu:16", "cpu:64"]
    offered += ["cluster:local:2", *read_settings().cluster_targets]
    absent = ABSENT if screen in _MEANS_ABSENT else ()
    options = list(dict.fromkeys([now, *offered, *absent]))
    key = state.seed(state.key(screen, "target"), now)
    if st.session_state[key] not in options:
        options.append(st.session_state[key])
    meaning = "Where it runs: `local` is this machine's accelerators, `cpu:8` eight simulated CPU devices. `cluster:local:2` two processes of two; `cluster:NAME` the hosts of a cluster that the server's owner has named. Type another, e.g. cpu:32."
    meaning += _MEANS_ABSENT.get(screen, "")
    return (
        st.selectbox(
            "Target",
            options,
            key=key,
            accept_new_options=True,
            format_func=_target_words if screen != "layout" else _layout_target_words,
            help=meaning,
        )
        or now
    )


def _layout_target_words(target: str) -> str:
    return (
        f"{target}, not attached" if target.startswith(("tpu:", "gpu:")) else _target_words(target)
    )


def _target_words(target: str) -> str:
    kind, _, count = target.partition(":")
    if target == "local":
        return "local, attached here"
    if kind in ("tpu", "gpu"):
        return f"{target}, predicted"
    return f"{target}, simulated" if kind == "cpu" and count.isdigit() else target


def axes_input(
    screen: str,
    field: str,
    label: str,
    now: Any,
    mesh: Mesh,
) -> str | list[str] | None:
    """The mesh axes that one dim is sharded over, major first: None, an axis, or a list.

    An axis that left the mesh stays among the choices, so that the refusal can name it and nothing
    is dropped silently.
    """
    if now is None:
        chosen = []
    elif isinstance(now, str):
        chosen = [now]
    else:
        chosen = list(now)
    options = list(dict.fromkeys([*(name for name, _ in mesh), *chosen]))
    key = state.seed(state.key(screen, f"{field}/{','.join(options)}"), chosen)
    axes = st.multiselect(
        plain(label),
        options,
        key=key,
        placeholder="not sharded",
    )
    if not axes:
        return None
    if len(axes) == 1:
        return axes[0]
    return axes


def dims_input(
    screen: str,
    what: Workload,
    mesh: Mesh,
    places: tuple[DeltaGenerator, DeltaGenerator] | None = None,
) -> Form:
    """Size and axes of every dim of a workload as the fields `dims` and `sharding`: one row each,
    or the axes at the first and the sizes at the second of `places`.
    """
    draft = state.draft(screen)
    dims, sharding = {}, {}
    for dim in what.dims:
        right, left = places or st.columns([2, 3], gap="small", vertical_alignment="bottom")[::-1]
        optional = dim in what.optional_dims
        key = state.seed(state.key(screen, f"dim.{dim}"), draft["dims"].get(dim))
        notes = [
            f"Empty leaves {dim} out." if optional else "",
            _SHARED if state.variants(screen) and dim not in what.per_device else "",
        ]
        size = left.number_input(
            plain(dim),
            value=None,
            step=1,
            key=key,
            placeholder="left out" if optional else "size",
            help=plain(" ".join(filter(None, notes))) or None,
        )
        if size is not None or not optional:
            dims[dim] = size
        with right:
            axes = axes_input(
                screen,
                f"sharding.{dim}",
                f"{dim} sharded over",
                draft["sharding"].get(dim),
                mesh,
            )
        if axes is not None:
            sharding[dim] = axes
    return {"dims": dims, "sharding": sharding}


def dtype_input(screen: str, what: Workload) -> str:
    """The dtype of the operands."""
    now = state.draft(screen)["dtype"]
    options = list(dict.fromkeys([*what.dtypes, now]))
    return st.selectbox("dtype", options, key=state.seed(state.key(screen, "dtype"), now))


def memory_input(screen: str, names: tuple[str, ...]) -> dict[str, str]:
    """The memory kind of each array, as the field `memory`."""
    draft = state.draft(screen)
    memory = {}
    for name in names:
        key = state.seed(state.key(screen, f"memory.{name}"), draft["memory"].get(name, "device"))
        label = "Memory kind" if len(names) == 1 else f"Memory of {plain(name)}"
        memory[name] = st.selectbox(
            label,
            _MEMORY_KINDS,
            key=key,
            help="`pinned_host` keeps it in host memory; compute moves it over.",
        )
    return memory


def spec_input(screen: str, name: str, dims: tuple[str, ...], mesh: Mesh) -> list[Any] | None:
    """A spec of its own for one array, or None where it follows the table."""
    draft = state.draft(screen)
    now = draft["overrides"].get(name)
    own = st.toggle(
        "Spec of its own", key=state.seed(state.key(screen, f"own.{name}"), now is not None)
    )
    if not own:
        return None
    entries = list(now or [])[: len(dims)] or [draft["sharding"].get(dim) for dim in dims]
    entries += [None] * (len(dims) - len(entries))
    return [
        axes_input(screen, f"override.{name}.{dim}", f"{dim} of {name}, sharded over", entry, mesh)
        for dim, entry in zip(dims, entries, strict=True)
    ]


def number_input(
    screen: str, field: str, label: str, now: float, *, step: float = 1, text: str | None = None
) -> Any:
    """A number of the draft."""
    key = state.seed(state.key(screen, field), now)
    value = st.number_input(
        plain(label), value=None, step=step, key=key, help=plain(text) if text else None
    )
    return now if value is None else value


def choice_input(
    screen: str,
    field: str,
    label: str,
    options: tuple[str, ...],
    now: str,
    words: Callable[[str], str] = str,
) -> str:
    """One of a few words."""
    key = state.seed(state.key(screen, field), now)
    return st.selectbox(
        plain(label),
        list(dict.fromkeys([*options, now])),
        key=key,
        format_func=words,
    )


def strategies_input(
    screen: str, field: str, offered: Sequence[str], now: Sequence[str]
) -> list[str]:
    """Strategies to choose from. Those of `now` keep their order, which is part of an experiment,
    so that a link stays what it is.
    """
    options = list(dict.fromkeys([*now, *offered]))
    shown = [name for name in offered if name in options] + [
        name for name in options if name not in offered
    ]
    chosen = st.pills(
        "Strategies",
        shown,
        selection_mode="multi",
        format_func=lambda name: plain(title(name)),
        key=state.seed(state.key(screen, field), list(now)),
    )
    return [name for name in options if name in chosen]


def size_inputs(
    model: str, now: Mapping[str, int], keyed: Callable[[str, object], str]
) -> dict[str, int]:
    """A field for each size of a model that may differ from its preset; an empty one leaves it.

    `keyed`: the key of a widget with its first value.
    """
    try:
        preset = get_model(model)
    except RequestError:
        preset = None
    chosen: dict[str, int] = {}
    for name in VARIABLE:
        size = st.number_input(
            plain(name),
            value=None,
            step=1,
            key=keyed(f"size.{name}", now.get(name)),
            placeholder=str(getattr(preset, name)) if preset else "as the model",
        )
        if size is not None:
            chosen[name] = int(size)
    return chosen

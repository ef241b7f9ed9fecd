"""Pasted code sets the form: a mesh, and specs of the arrays that it names."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Pasted, Spec, axes_json, read_pasted
from ui import state
from ui.markdown import plain

# what arrays are called elsewhere -> here
_ALSO = {
    "x": ("inputs", "input", "activations", "a"),
    "weights": ("w", "kernel", "weight", "b"),
    "y": ("out", "output", "outputs", "out_shardings", "result"),
}


def box(screen: str, arrays: Mapping[str, Sequence[str]]) -> None:
    """A place to paste code; read, it replaces the screen's form. `arrays`: their dims, by name."""
    with st.expander("Paste a PartitionSpec or code", icon=":material/content_paste:"):
        text = st.text_area(
            "Code",
            key=f"{screen}:pasted",
            max_chars=4000,
            height=90,
            placeholder="NamedSharding(mesh, P('x', None))",
            label_visibility="collapsed",
        )
        st.caption("Read as syntax, never evaluated.")
        pressed = st.button("Read it", key=f"{screen}:read", icon=":material/input:")
        if not pressed:
            return
        try:
            form = filled(state.draft(screen), read_pasted(text or ""), arrays)
        except RequestError as error:
            st.error(plain(str(error)), icon=":material/error:")
            return
        state.replace_draft(screen, state.parse_or_keep(form))
        st.rerun()


def filled(
    form: Mapping[str, Any], pasted: Pasted, arrays: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The form with what was pasted. A spec that names no array is of the next one without.

    RequestError where there are more specs than arrays, or more entries than dims.
    """
    new = dict(form)
    if pasted.mesh is not None:
        new["mesh"] = [list(axis) for axis in pasted.mesh]
    specs = _by_array(pasted, list(arrays))
    written = {name: _entries(name, spec, arrays[name]) for name, spec in specs.items()}
    if len(arrays) == 1 and written and not form.get("overrides"):
        (entries,) = written.values()
        dims = next(iter(arrays.values()))
        new["sharding"] = {dim: axes for dim, axes in zip(dims, entries, strict=True) if axes}
    elif written:
        new["overrides"] = dict(form.get("overrides", {})) | written
    return new


def _by_array(pasted: Pasted, names: list[str]) -> dict[str, Spec]:
    if len(names) == 1:
        if len(pasted.specs) > 1:
            raise refuse(
                f"{len(pasted.specs)} specs",
                "were pasted for one array",
                "paste one, or choose a product",
            )
        return dict(zip(names, (spec for _, spec in pasted.specs), strict=False))
    found: dict[str, Spec] = {}
    for name, spec in pasted.specs:
        known = _known(name, names) or next((each for each in names if each not in found), None)
        if known is None:
            raise refuse(
                f"{len(pasted.specs)} specs",
                f"are more than {len(names)} arrays",
                f"paste those of {', '.join(names)}",
            )
        found[known] = spec
    return found


def _known(name: str, names: Sequence[str]) -> str | None:
    short = name.removesuffix("_spec").removesuffix("_sharding")
    return next((each for each in names if short == each or short in _ALSO.get(each, ())), None)


def _entries(name: str, spec: Spec, dims: Sequence[str]) -> list[Any]:
    if len(spec) > len(dims):
        raise refuse(
            f"a spec of {len(spec)} entries",
            f"is longer than the rank {len(dims)} of {name}",
            "leave entries out, or add a dim",
        )
    return [axes_json(axes) for axes in (*spec, *((),) * (len(dims) - len(spec)))]

"""Pasted code sets the form: a mesh, shape and dtype, and specs of the arrays that it names."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Pasted, PastedArray, read_pasted
from spmd_core.fields import Spec, axes_json
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form

# what arrays are called elsewhere -> here
_ALSO = {
    "x": ("inputs", "input", "activations", "a"),
    "weights": ("w", "kernel", "weight", "b"),
    "y": ("out", "output", "outputs", "out_shardings", "result"),
}


def box(screen: str, arrays: Mapping[str, Sequence[str]]) -> None:
    """A place to paste code. It is read when it was pasted, by Ctrl+Enter or by the button, and
    replaces the screen's form. `arrays`: their dims, by name.
    """
    with st.expander("Paste a PartitionSpec or code", icon=":material/content_paste:"):
        text = st.text_area(
            "Code",
            key=f"{screen}:pasted",
            max_chars=4000,
            height=90,
            placeholder="f32[8@x,16@y]",
            label_visibility="collapsed",
        )
        st.caption(
            "A PartitionSpec, a mesh, or an array with its shape. Ctrl+Enter fills the fields. The "
            "code is not run."
        )
        pressed = st.button("Fill the fields", key=f"{screen}:read", icon=":material/input:")
        was_read, problem, receipt = state.aside(screen, "pasted") or ("", None, "")
        if pressed or (text and text != was_read):
            problem, receipt = _read(screen, text or "", arrays)
            state.set_aside(screen, "pasted", (text, problem, receipt))
            if problem is None:
                st.rerun()
        if problem is not None and is_unread(screen):
            st.error(plain(problem), icon=":material/error:")
        if receipt and text == (state.aside(screen, "pasted") or ("",))[0]:
            st.text(receipt)


def is_unread(screen: str) -> bool:
    """Returns True if the text in the box was not read in full: the fields are of before it."""
    text, problem, _ = state.aside(screen, "pasted") or ("", None, "")
    return problem is not None and text == st.session_state.get(f"{screen}:pasted")


def no_picture() -> None:
    """Draw the reason in place of a picture of the fields."""
    st.info("No picture: the pasted code was not read. Correct or clear it.")


def _read(screen: str, text: str, arrays: Mapping[str, Sequence[str]]) -> tuple[str | None, str]:
    """Fill the form with what was pasted; a sentence where that cannot be done, and the receipt."""
    receipt = ""
    try:
        pasted = read_pasted(text)
        receipt = receipt_words(pasted, text)
        form = filled(state.draft(screen), pasted, arrays)
    except RequestError as error:
        return str(error), receipt
    state.replace_draft(screen, state.parse_or_keep(form))
    return None, receipt


def receipt_words(pasted: Pasted, text: str) -> str:
    """Returns what was read of each line of a text and what was not, as plain text.

    Lines with no mesh, spec or array are named at the end.
    """
    lines = [
        f"- Line {each.line}: {each.words}"
        if each.problem is None
        else f"- Line {each.line}: not read, {each.problem}"
        for each in pasted.receipt
    ]
    if pasted.mesh is None:
        lines.append("- No mesh in the text: that of the fields is unchanged.")
    used = {at for each in pasted.receipt for at in (each.line, each.written)}
    written = [at for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    if rest := [str(at) for at in written if at not in used]:
        lines.append(f"- Not used: line {', '.join(rest)}.")
    return "\n".join(lines)


def filled(form: Mapping[str, Any], pasted: Pasted, arrays: Mapping[str, Sequence[str]]) -> Form:
    """The form with what was pasted. A spec that names no array is of the next one without; shape
    and dtype are taken where the form has one array.

    RequestError where a mesh or spec was not read, where there are more specs than arrays, or more
    entries than dims.
    """
    pasted.check()
    new = dict(form)
    if pasted.mesh is not None:
        new["mesh"] = [list(axis) for axis in pasted.mesh]
        if not pasted.specs:
            new["sharding"] = _of_axes(new.get("sharding") or {}, {name for name, _ in pasted.mesh})
    if len(arrays) == 1 and pasted.arrays:
        new, arrays = _shaped(new, pasted.arrays[-1], next(iter(arrays)))
    places = _by_array(pasted, list(arrays))
    written = {
        name: _entries(name, pasted.specs[at][1], arrays[name]) for name, at in places.items()
    }
    if kinds := {name: kind for name, at in places.items() if (kind := pasted.memory[at])}:
        new["memory"] = dict(new.get("memory", {})) | kinds
    if len(arrays) == 1 and written and not new.get("overrides"):
        (entries,) = written.values()
        dims = next(iter(arrays.values()))
        new["sharding"] = {dim: axes for dim, axes in zip(dims, entries, strict=True) if axes}
    elif written:
        new["overrides"] = dict(new.get("overrides", {})) | written
    return new


def _of_axes(sharding: Form, axes: set[str]) -> Form:
    def known(over: Any) -> bool:
        return {over} <= axes if isinstance(over, str) else {*over} <= axes

    return {dim: over for dim, over in sharding.items() if known(over)}


def _shaped(form: Form, array: PastedArray, name: str) -> tuple[Form, Mapping[str, Sequence[str]]]:
    """The form with the shape and dtype of an array, sharded as far as it has the dims; those dims."""
    dims = {f"d{dim}": size for dim, size in enumerate(array.shape)}
    sharding = {dim: axes for dim, axes in form["sharding"].items() if dim in dims}
    new = form | {"dims": dims, "sharding": sharding, "overrides": {}}
    return new | ({"dtype": array.dtype} if array.dtype else {}), {name: tuple(dims)}


def _by_array(pasted: Pasted, names: list[str]) -> dict[str, int]:
    """Returns the place of each array's spec among those of the text."""
    if len(names) == 1:
        if len(pasted.specs) > 1:
            raise refuse(
                f"{len(pasted.specs)} specs",
                "were pasted for one array",
                "paste one, or choose a product",
            )
        return dict(zip(names, range(len(pasted.specs)), strict=False))
    specs: dict[str, int] = {}
    for at, (name, _) in enumerate(pasted.specs):
        known = _known(name, names) or next((each for each in names if each not in specs), None)
        if known is None:
            raise refuse(
                f"{len(pasted.specs)} specs",
                f"are more than {len(names)} arrays",
                f"paste those of {', '.join(names)}",
            )
        specs[known] = at
    return specs


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

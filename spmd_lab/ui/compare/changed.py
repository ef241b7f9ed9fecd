"""Another workload, or options that make it another one: what the variants keep, what that drops,
and the way back.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from spmd_core.experiment import Experiment, has_newer, names_of
from spmd_core.terms import listed as listed_words, workload_title
from spmd_core.workloads import Workload, get_workload
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form, VariantForm

_SCREEN = "compare"
_ARRAYS = ("overrides", "memory", "data")  # named by arrays, which another workload has not
_SHOWN = 3  # names of variants that the sentence lists
Before = tuple[list[VariantForm], int, Form, str]  # variants, which one, fields, sentence


def change_workload(name: str) -> None:
    """Switch to another workload: target, mesh and timing stay, and so does what the two have in
    common, for every variant.
    """
    what = get_workload(name)
    _change(workload_title(name), lambda form: _of_workload(form, what))


def change_dims(what: Workload, options: Form) -> None:
    """Options made the workload another one: sizes, sharding and strategies that it still has stay."""
    _change(what.title, lambda form: _of_dims(form, what, options))


def _of_workload(old: Form, what: Workload) -> Form:
    shared = {dim: axes for dim, axes in old["sharding"].items() if dim in what.defaults}
    first = {what.sharded_dim or what.dims[0]: old["mesh"][0][0]} if what.dims else {}
    kept = [strategy for strategy in old["strategies"] if strategy in what.strategies]
    return {field: old[field] for field in ("target", "mesh", "timing", "seed")} | {
        "workload": what.name,
        "dims": dict(what.defaults),
        "sharding": shared or first,
        "dtype": old["dtype"] if old["dtype"] in what.dtypes else what.dtypes[0],
        "strategies": kept or list(what.default_strategies),
    }


def _of_dims(old: Form, what: Workload, options: Form) -> Form:
    kept = [dim for dim in what.dims if dim in old["dims"] or dim not in what.optional_dims]
    return old | {
        "options": options,
        "overrides": {},
        "memory": {},
        "data": {},
        "dims": {dim: old["dims"].get(dim, what.defaults.get(dim)) for dim in kept},
        "sharding": {dim: axes for dim, axes in old["sharding"].items() if dim in what.dims},
    }


def _change(title: str, change: Callable[[Form], Form]) -> None:
    """Change every variant; those that then equal another one are dropped, and a sentence reports
    it."""
    now, before, at = state.draft(_SCREEN), state.variants(_SCREEN), state.variant_at(_SCREEN)
    new = state.parse_or_keep(change(now))
    kept: list[VariantForm] = []
    dropped = []
    for place, (name, form) in enumerate(before):
        changed = new if place == at else state.parse_or_keep(change(form))
        if place != at and changed in (new, *(each for _, each in kept)):
            dropped.append(place)
        else:
            kept.append((name, changed))
    if not get_workload(new["workload"]).is_comparable:
        kept, dropped = [], [place for place in range(len(before)) if place != at]
    state.set_variants(
        _SCREEN, kept, next((place for place, (_, form) in enumerate(kept) if form is new), 0)
    )
    state.replace_draft(_SCREEN, new)
    if before:
        undo: Before = before, at, now, _sentence(title, before, dropped)
        state.set_aside(_SCREEN, "undo", undo)


def _sentence(title: str, before: Sequence[VariantForm], dropped: Sequence[int]) -> str:
    names = names_of([form for _, form in before], [name for name, _ in before])
    has_arrays = any(form.get(field) for _, form in before for field in _ARRAYS)
    arrays = "; specs, memory and data of single arrays are at their defaults" if has_arrays else ""
    stay = len(before) - len(dropped)
    if not dropped:
        kept = "the variant stays" if stay == 1 else f"all {stay} variants stay"
        return f"Changed to {title}: {kept}{arrays}."
    gone = [names[place] for place in dropped]
    dropped_names = (
        listed_words(gone) if len(gone) <= _SHOWN else f"{gone[0]} and {len(gone) - 1} others"
    )
    what = (
        "is dropped: it would be as another one is"
        if len(gone) == 1
        else "are dropped: they would be as others are"
    )
    return f"Changed to {title}: {dropped_names} {what}{arrays}."


def draw(experiment: Experiment) -> None:
    """What the last change of workload did to the variants, and a button that takes it back; and
    that a file of the user's own has changed.
    """
    if has_newer(experiment):
        st.info(
            "The file of this workload has changed. Run takes the new version, and keeps your values "
            "of the fields that it still has.",
            icon=":material/edit_document:",
        )
    before: Before | None = state.aside(_SCREEN, "undo")
    if before is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="changed"):
        st.info(plain(before[-1]), icon=":material/info:", width="stretch")
        st.button("Undo", icon=":material/undo:", key="changed:undo", on_click=_undo)


def _undo() -> None:
    before: Before | None = state.aside(_SCREEN, "undo")
    state.set_aside(_SCREEN, "undo", None)
    if before is not None:
        listed, at, draft, _ = before
        state.set_variants(_SCREEN, listed, at)
        state.replace_draft(_SCREEN, draft)

"""The variants of a study on Compare: which one the fields show; adding, naming and removing one."""

from collections.abc import Callable

import streamlit as st

from spmd_core.experiment import MAX_NAME, MAX_VARIANTS, Experiment, names_of
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import state
from spmd_lab.ui.charts import colors
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import drafts
from spmd_lab.ui.state import VariantForm

_SCREEN = "compare"
_ADD = "A copy of the fields, to change there. All variants are measured in the same rounds."
_COPY = "“{}” is still a copy of “{}”: change its mesh, sharding or target beside, then press Run."


def name_field() -> None:
    """In a study, the name of the variant that the fields are of."""
    listed = state.variants(_SCREEN)
    if not listed:
        return
    at = state.variant_at(_SCREEN)
    name, form = listed[at]
    key = state.seed(state.key(_SCREEN, "variant.name"), name or "")
    given = (
        st.text_input(
            f"Name of variant {at + 1:d} of {len(listed)}",
            key=key,
            max_chars=MAX_NAME,
            placeholder=_names(listed)[at],
            help="Left empty, it is named by what differs.",
        ).strip()
        or None
    )
    if given != name:
        listed[at] = given, form
        state.set_variants(_SCREEN, listed, at)


def offer(experiment: Experiment) -> None:
    """A button that adds a variant."""
    if experiment.what.is_comparable:
        most = len(state.variants(_SCREEN)) >= MAX_VARIANTS
        _button("Add a variant", "add", _add, _ADD, disabled=most)


def draw(experiment: Experiment) -> None:
    """The variants of a study to choose from, and a button to remove the chosen one."""
    listed = state.variants(_SCREEN)
    if not listed or not experiment.what.is_comparable:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="variants"):
        _choose(experiment, listed)
        help_ = "Takes the variant that the fields show out of the study."
        _button("Remove this one", "remove", _remove, help_)
        if len({form["target"] for _, form in listed}) > 1:
            target = state.draft(_SCREEN)["target"].removeprefix("tpu:")
            help_ = "Gives every variant the target that the fields show."
            _button(plain(f"All on {target}"), "target", _all_on, help_, icon="dns")


def refused(alike: tuple[str, str]) -> None:
    """Draws that two variants are equal, and what to change."""
    st.info(plain(_COPY.format(*alike)), icon=":material/difference:")


def equal() -> tuple[str, str] | None:
    """Returns the names of two variants that are equal, the one that the fields show first; None
    where no two are.
    """
    listed, at = state.variants(_SCREEN), state.variant_at(_SCREEN)
    # a copy leaves out strategies that would be measured twice
    forms = [{**form, "strategies": ()} for _, form in listed]
    for one in sorted(range(len(forms)), key=lambda place: place != at):
        if others := [
            other for other in range(len(forms)) if forms[other] == forms[one] and other != one
        ]:
            names = _names(listed)
            return names[one], names[others[0]]
    return None


def _button(
    label: str,
    name: str,
    change: Callable[[], None],
    text: str,
    *,
    icon: str | None = None,
    disabled: bool = False,
) -> None:
    st.button(
        label,
        icon=f":material/{icon or name}:",
        key=f"variant:{name}",
        on_click=change,
        type="tertiary",
        disabled=disabled,
        help=text,
    )


def _names(listed: list[VariantForm]) -> tuple[str, ...]:
    return names_of([form for _, form in listed], [name for name, _ in listed])


def _choose(experiment: Experiment, listed: list[VariantForm]) -> None:
    at, names, rows = state.variant_at(_SCREEN), _names(listed), colors.of_variants(experiment)
    marked = [colors.marked(experiment, rows.get(name, ()), name) for name in names]
    chosen = st.pills(
        "Editing",
        range(len(listed)),
        default=at,
        required=True,
        wrap=True,
        format_func=lambda place: marked[place],
        key=state.key(_SCREEN, f"variant.at/{len(listed)}"),
    )
    if chosen is not None and chosen != at:
        _show(listed, chosen)
        st.rerun()


def _show(listed: list[VariantForm], at: int) -> None:
    state.set_variants(_SCREEN, listed, at)
    state.replace_draft(_SCREEN, listed[at][1])


def _add() -> None:
    now = dict(state.draft(_SCREEN))
    listed = state.variants(_SCREEN) or [(None, now)]
    at = state.variant_at(_SCREEN) + 1
    # one device does the same under every sharding: once is enough
    sharded = [name for name in now["strategies"] if not STRATEGIES[name].is_single_device]
    listed.insert(at, (None, now | {"strategies": sharded or now["strategies"]}))
    _show(listed, at)


def _all_on() -> None:
    now = state.draft(_SCREEN)["target"]
    listed = [
        (name, form if form["target"] == now else drafts.on_target(form, now))
        for name, form in state.variants(_SCREEN)
    ]
    _show(listed, state.variant_at(_SCREEN))


def _remove() -> None:
    listed = state.variants(_SCREEN)
    at = state.variant_at(_SCREEN)
    del listed[at]
    _show(listed, min(at, len(listed) - 1))

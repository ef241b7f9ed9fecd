"""What a screen holds between reruns; the only speller of session keys.

The state of a screen is one valid Experiment under a durable key. Beside it is the draft: what the
fields hold now, as the JSON form of an experiment, valid or not, so that a bad entry loses nothing.
Widgets are seeded from the draft.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, names_of, parse_experiment, with_shared
from spmd_core.workloads import ALL, DEFAULT_SPEC

Form = dict[
    str, Any
]  # JSON of an experiment or of a search's question, or of a part; maybe invalid
Mesh = list[list[Any]]  # of a form: [axis, size] pairs; the size of an empty field is 0
VariantForm = tuple[str | None, Form]  # name, None where it follows from what differs; experiment


@dataclass(frozen=True, slots=True)
class Notice:
    """Why a link cannot be opened, or an experiment not run here, and what can be done instead:
    the `nearest` experiment that can, or one that another screen shows (`elsewhere`).
    """

    sentence: str
    nearest: Experiment | None = None
    elsewhere: Experiment | None = None


_DEFAULTS: dict[str, Form] = {
    # the smallest that communicates and yet wins by sharding on simulated devices
    "compare": {
        "mesh": [["x", 8]],
        "workload": "normalize",
        "sharding": {"rows": "x"},
        "dims": {"rows": 8192, "cols": 1024},
        "strategies": ["single", "auto"],
    },
    # none of the recipes, whose words would stand above the answer; replicated, so that array and
    # mesh differ
    "layout": {
        "mesh": [["x", 2], ["y", 4]],
        "workload": "array",
        "dims": {"d0": 8, "d1": 16},
        "sharding": {"d0": "y"},
        "data": {"array": "arange"},
    },
    # a model that people know, on v5e that train it on a trillion tokens in a month: the plan that
    # the question of it finds
    "predict": DEFAULT_SPEC
    | {
        "target": "tpu:v5e:16x16",
        "mesh": [["data", 2], ["fsdp", 128]],
        "dims": {"batch": 512, "sequence": 8192},
        "options": {
            "model": "llama-3.1-8b",
            "remat": "full",
            "save": "query, key, value, out, attention",
            "microbatches": 2,
        },
    },
    "collectives": {
        "mesh": [["x", 2], ["y", 4]],
        "workload": "collectives",
        "options": {"kinds": "all-reduce"},
    },
    # none is open: a program of one's own takes its place
    "programs": {"mesh": [["x", 8]], "workload": "elementwise"},
}

OPENED = "opened"  # aside: the id of the experiment of a program that the user opened here
_UNDONE = 50  # changes of a screen that can be taken back


def experiment(screen: str) -> Experiment:
    """The screen's experiment: the last valid one, or the screen's default."""
    key = _durable(screen, "experiment")
    if key not in st.session_state:
        st.session_state[key] = first(screen)
    return st.session_state[key]


def first(screen: str) -> Experiment:
    """Returns what a screen begins with: on real devices 8 times what fills simulated ones, and
    collectives of a TPU, predicted, where only simulated devices are here.
    """
    default = parse_experiment(_DEFAULTS[screen])
    if screen == "collectives" and default.place.is_simulated:
        return default.vary(target="tpu:v5e:2x4", options={"kinds": ALL})
    if screen != "compare" or default.place.is_simulated:
        return default
    return default.vary(dims={"rows": 16384, "cols": 4096})


def forget(screen: str) -> None:
    """Let the screen begin again with what it has by default."""
    replace(screen, first(screen))
    set_run(screen, None)


def draft(screen: str) -> Form:
    """What the screen's fields hold, as the JSON form of an experiment, which may be invalid."""
    key = _durable(screen, "draft")
    if key not in st.session_state:
        st.session_state[key] = experiment(screen).to_json()
    return st.session_state[key]


def edit(
    screen: str,
    changed: Form,
    press: str = "",
    note: Callable[[Experiment, Experiment], None] | None = None,
    refused: Callable[[Experiment], str] = lambda after: "",
) -> tuple[Experiment, str | None]:
    """Take the fields as they are now: the last valid experiment, and a sentence where the fields
    describe none.

    A valid change forgets the run that the screen showed: its result answers another question. It
    draws the screen again where folds are named by the fields in them, unless its button `press` was
    pressed, which would be lost. `note` is called with the experiments before and after a change.
    `refused` returns why a changed experiment is not taken up; "" where it is.
    """
    before = experiment(screen)
    moved = changed != draft(screen)
    st.session_state[_durable(screen, "draft")] = changed
    try:
        after = parse_experiment(study(screen))
    except RequestError as error:
        return before, str(error)
    if after != before and (sentence := refused(after)):
        return before, sentence
    noticed = notice(screen)  # on the screen already: a rerun drops it
    if moved:
        set_notice(screen, None)
        set_aside(screen, "undo", None)
    if after != before:
        st.session_state[_durable(screen, "experiment")] = after
        if (shown := run(screen)) is not None:
            set_aside(screen, "edited", shown)
        set_run(screen, None)
        if note:
            note(before, after)
    if moved and press and noticed is None and not st.session_state.get(press):
        st.rerun()
    return after, None


def replace(screen: str, new: Experiment, at: int = 0) -> None:
    """Make `new` the screen's experiment, and every field show it; of a study, the variant at `at`."""
    st.session_state[_durable(screen, "experiment")] = new
    forms = [each.experiment.to_json() for each in new.variants]
    named = zip(new.variants, names_of(forms), forms, strict=True)
    set_variants(
        screen, [(None if each.name == own else each.name, form) for each, own, form in named], at
    )
    set_aside(screen, "edited", None)
    replace_draft(screen, new.members[at].experiment.to_json())


def note_change(
    screen: str,
    before: Experiment,
    after: Experiment,
    beside: object = None,
    goes_on: Callable[[Experiment, Experiment], bool] = lambda first, last: False,
) -> None:
    """Keep a change of the screen's experiment, and what changed beside it, for `undo`; one with the
    last change where that `goes_on` from the experiment before it to `after`.
    """
    kept = aside(screen, "changes") or ()
    if kept and kept[-1][1] == before and goes_on(kept[-1][0], before) and goes_on(before, after):
        before, kept = kept[-1][0], kept[:-1]
    set_aside(screen, "changes", (*kept, (before, after, beside))[-_UNDONE:])


def acts(screen: str) -> int:
    """How often the viewer gave a screen another experiment than by its fields."""
    return aside(screen, "acts") or 0


def note_act(screen: str) -> None:
    """Count what gives a screen another experiment than by its fields."""
    set_aside(screen, "acts", acts(screen) + 1)


def before_change(screen: str) -> Experiment | None:
    """The experiment before the last change that was kept; None where the screen shows another one
    since.
    """
    kept = aside(screen, "changes") or ()
    return kept[-1][0] if kept and kept[-1][1] == experiment(screen) else None


def undo(screen: str) -> Any:
    """Show the experiment before the last change again; returns what was kept beside the change."""
    if (before := before_change(screen)) is None:
        return None
    note_act(screen)
    *kept, (_, _, beside) = aside(screen, "changes")
    set_aside(screen, "changes", tuple(kept))
    replace(screen, before)
    set_run(screen, None)
    return beside


def replace_draft(screen: str, new: Form) -> None:
    """Make the fields show `new`: the widgets of the old draft are left behind with their keys."""
    st.session_state[_durable(screen, "draft")] = new
    generation = _durable(screen, "generation")
    st.session_state[generation] = st.session_state.get(generation, 0) + 1


def variants(screen: str) -> list[VariantForm]:
    """(name, None where it follows from what differs; JSON form) of every variant of a study; empty
    where the experiment is alone. What all share is as in the draft, that of `variant_at`.
    """
    listed: list[VariantForm] = list(aside(screen, "variants") or ())
    if listed:
        now = draft(screen)
        listed = [(name, with_shared(form, now)) for name, form in listed]
        at = variant_at(screen)
        listed[at] = listed[at][0], now
    return listed


def variant_at(screen: str) -> int:
    """Which variant the fields show."""
    return aside(screen, "variant_at") or 0


def set_variants(screen: str, listed: Sequence[VariantForm], at: int = 0) -> None:
    """Make these the variants of the screen's study, of which the fields show that at `at`."""
    several = list(listed) if len(listed) > 1 else []
    set_aside(screen, "variants", several)
    set_aside(screen, "variant_at", at if several else 0)


def study(screen: str) -> Form:
    """What the screen's fields hold with all variants, as the JSON form of an experiment."""
    listed = variants(screen)
    if not listed:
        return draft(screen)
    return {
        "study": [{"experiment": form} | ({"name": name} if name else {}) for name, form in listed]
    }


def parse_or_keep(new: Form) -> Form:
    """The canonical JSON form where `new` is an experiment, with the optional fields that widgets
    read; else `new`, completed.
    """
    try:
        return parse_experiment(new).to_json()
    except RequestError:
        return {"overrides": {}, "memory": {}, "data": {}, "options": {}} | new


def key(screen: str, field: str) -> str:
    """The widget key of a field: it changes when the form is replaced."""
    return f"{screen}:{st.session_state.get(_durable(screen, 'generation'), 0)}:{field}"


def seed(widget_key: str, value: Any) -> str:
    """Give a widget its first value, unless the user has given it one; returns the key.

    Streamlit sends such a value once. Where a rerun overtakes it, before the browser has drawn the
    field, it is sent again: the field would be empty there, and the next click would report that.
    """
    if widget_key not in st.session_state:
        st.session_state[widget_key] = value
    elif _is_undrawn(widget_key):
        st.session_state[widget_key] = st.session_state[widget_key]
    return widget_key


def _is_undrawn(widget_key: str) -> bool:
    """Whether the browser, which sends the value of each field it has with every rerun, sent none
    of this one. Streamlit has no public name for what it sent; without it: False.
    """
    context = get_script_run_ctx()
    try:
        held = context.session_state._state  # type: ignore[union-attr]
        name = held._key_id_mapper.get_id_from_key(widget_key, "")
        return bool(name) and name not in held._new_widget_state.states
    except AttributeError:
        return False


def run(screen: str) -> str | None:
    """The run that the screen shows."""
    return st.session_state.get(_durable(screen, "run"))


def set_run(screen: str, run_id: str | None) -> None:
    """Show this run on the screen."""
    if run_id is None and run(screen):
        st.session_state[_durable(screen, "last_run")] = run(screen)
    st.session_state[_durable(screen, "run")] = run_id


def last_run(screen: str) -> str | None:
    """The run that the screen showed before its fields were edited."""
    return st.session_state.get(_durable(screen, "last_run"))


def link(screen: str) -> tuple[str, str] | None:
    """The query (experiment, run) that the screen last read or wrote."""
    return st.session_state.get(_durable(screen, "link"))


def set_link(screen: str, query: tuple[str, str] | None) -> None:
    """Remember the query that was read or written; None: it is to be written in any case."""
    st.session_state[_durable(screen, "link")] = query


def is_linked(screen: str, experiment: Experiment) -> bool:
    """Returns True if the experiment was opened by a link, not typed."""
    return aside(screen, "linked") == experiment.id


def notice(screen: str) -> Notice | None:
    """The notice on the link that was opened, until the next edit."""
    return st.session_state.get(_durable(screen, "notice"))


def set_notice(screen: str, notice: Notice | None) -> None:
    """Show this until the next edit."""
    st.session_state[_durable(screen, "notice")] = notice


def remember(screen: str, form: Form) -> None:
    """Keep the fields of a workload for when it is chosen again."""
    st.session_state[_durable(screen, f"of.{form['workload']}")] = form


def recall(screen: str, new: Form) -> Form:
    """The fields that the workload of `new` had when last chosen on the same target; else `new`."""
    kept = st.session_state.get(_durable(screen, f"of.{new['workload']}"))
    return kept if kept is not None and kept["target"] == new["target"] else new


def aside(screen: str, name: str) -> Any:
    """What the user noted beside the experiment, such as a measured time; None where nothing was."""
    return st.session_state.get(_durable(screen, f"aside.{name}"))


def set_aside(screen: str, name: str, value: Any) -> None:
    """Note something beside the experiment."""
    st.session_state[_durable(screen, f"aside.{name}")] = value


def first_look(target: str) -> bool:
    """Whether this session has not looked for the devices of a target before."""
    key = f"looked.{target}"
    first = key not in st.session_state
    st.session_state[key] = True
    return first


def _durable(screen: str, what: str) -> str:
    return f"screen.{screen}.{what}"

"""The question of a training run: model, tokens, kind of chip, and so many chips, days or dollars."""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError
from spmd_core.experiment import experiment_of, parse_experiment
from spmd_core.machine import CHIPS, nearest_of_chips
from spmd_core.plan import Plan
from spmd_core.sweeps import KINDS, MOST_CHIPS, TrainingAnswer, TrainingQuestion, train
from spmd_core.terms import chip_title
from spmd_lab.ui import inputs, price, state
from spmd_lab.ui.choices import MOST, Linked
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import drafts, topology_fields
from spmd_lab.ui.state import Form

SCREEN = "predict"
SEARCHED = "Plan found"
_TOKENS_E9 = 1000.0  # where a link has none
_LEAST_E9 = 0.001
_CHIPS, _DAYS, _DOLLARS = LIMITS = ("chips", "days", "dollars")
_KNOWN = {_CHIPS: "chips", _DAYS: "deadline", _DOLLARS: "budget"}
_FIRST = {_DAYS: 30.0, _DOLLARS: 1e6}
_SEARCHED = ("filled", "mesh", "nearest")  # aside: what a search filled in
Asked = Mapping[str, Any]


_LINKED = {
    "tokens": Linked(SCREEN, "tokens", f"{_TOKENS_E9:g}"),
    _DAYS: Linked(SCREEN, _DAYS),
    _DOLLARS: Linked(SCREEN, _DOLLARS),
}


def from_query() -> None:
    """Takes tokens, deadline and budget out of a link, once. A limit without a plan begins its search."""
    taken = [name for name, each in _LINKED.items() if each.from_query()]
    if limit()[0] in taken and not {"experiment", "run"} & {*st.query_params}:
        state.set_aside(SCREEN, "asked", (state.aside(SCREEN, "linked"), "", ()))


def tokens() -> float:
    """Returns the tokens to train on."""
    return (_LINKED["tokens"].number() or 0.0) * 1e9


def asked() -> Asked:
    """Returns tokens, deadline and budget, and what the last search filled in, for `ask_again`."""
    return {name: each.now() for name, each in _LINKED.items()} | {
        name: state.aside(SCREEN, name) for name in _SEARCHED
    }


def ask_again(before: Asked) -> None:
    """Restores an earlier question. No search changes the plan that is shown with it."""
    for name, value in before.items():
        if name in _LINKED:
            _LINKED[name].keep(value)
        else:
            state.set_aside(SCREEN, name, value)
    state.set_aside(SCREEN, "asked", None)


def limit() -> tuple[str, float | None]:
    """Returns what decides the number of chips, and its value: none of chips."""
    for name in (_DAYS, _DOLLARS):
        if value := _LINKED[name].number():
            return name, value
    return _CHIPS, None


def fields(
    models: tuple[str, ...],
    words: Callable[[str], str],
    has_chips: bool = True,
    answer: DeltaGenerator | None = None,
) -> str:
    """Draws the question, and returns the model. Another kind or number of chips, deadline or budget
    draws the screen again with its plan, after a line of progress in `answer`. Without `has_chips`
    other fields ask for these.
    """
    draft = state.draft(SCREEN)
    state.set_aside(SCREEN, "number", None)
    now = draft["options"].get("model", models[0])
    model = inputs.choice_input(SCREEN, "model", "Model", models, now, words=words)
    if not has_chips:
        _tokens_and_kind(draft)
        return model
    left, right = st.columns(2, gap="small")
    with left:
        _number("tokens", "Tokens (billions)", _TOKENS_E9, 100.0, _LEAST_E9)
        by = st.selectbox(
            "Size by",
            list(LIMITS),
            format_func=_KNOWN.__getitem__,
            key=state.seed(state.key(SCREEN, "limit"), limit()[0]),
            help="A deadline or a budget finds the number of chips.",
        )
    for name in (_DAYS, _DOLLARS):
        if name != by:
            _LINKED[name].keep("")
    with right:
        kind, chosen = topology_fields.kind_field(SCREEN, draft["target"])
        chips = _limit_field(by, chosen, _chips(draft, kind))
    if has_price():
        price.field(chosen)
    given = (by, chips, model) if chips else (by, model, *_searched())
    with answer or st.container():
        _follow(draft, model, (kind, chosen), given)
    return model


def _tokens_and_kind(draft: Form) -> None:
    """Draws the question without its limit. Another kind draws the screen again with its topology."""
    _number("tokens", "Tokens (billions)", _TOKENS_E9, 100.0, _LEAST_E9)
    kind, chosen = topology_fields.kind_field(SCREEN, draft["target"])
    if chosen in CHIPS and chosen != kind:
        target = nearest_of_chips(chosen, _chips(draft, kind)).target
        topology_fields.redraw(SCREEN, drafts.moved(draft, target))


def _searched() -> tuple[Any, ...]:
    return tokens(), limit(), tuple(price.by_kind().items())


def _limit_field(by: str, kind: str, now: int) -> int | None:
    """Draws the field of what decides; returns the chips, None where they are searched."""
    if by != _CHIPS:
        _number(by, plain(by.capitalize()), _FIRST[by], 1.0)
        return None
    chips = _chips_field(now)
    if not number_refusal():
        _nearest(kind, chips)
    return chips


def has_price() -> bool:
    """Returns True if the question itself needs a price: its field is among those of the question."""
    return limit()[0] == _DOLLARS


def _nearest(kind: str, shown: int) -> None:
    """Draws why another number of chips is shown than was typed."""
    chips, *of = state.aside(SCREEN, "nearest") or (0,)
    if of == [kind, shown]:
        no_slice = f"{chips:,} chips form no slice of {chip_title(kind)}"
        st.caption(plain(f"{no_slice}: {shown:,} is the nearest."))


def _number(name: str, label: str, first: float, step: float, least: float = 0.0) -> None:
    """Draws a field; where its number is none, the last one stays, and `number_refusal` is why."""
    key = state.seed(state.key(SCREEN, f"aside.{name}"), _LINKED[name].number() or first)
    value = st.number_input(label, step=step, format="%g", key=key)  # a browser keeps back others
    if value is not None and not least <= value <= MOST[name]:
        _refuse(label, value, least, MOST[name])
    else:
        _LINKED[name].keep(f"{value:.12g}" if value else "")


def _refuse(label: str, value: float, least: float, most: float) -> None:
    rule = f"{least:,.12g} or more" if value < least else f"up to {most:,.12g}"
    state.set_aside(SCREEN, "number", f"{label}: enter {rule}, not {value:,.12g}")


def _chips_field(now: int) -> int:
    """Draws the field of chips; where its number is none, returns the last one."""
    key = state.seed(state.key(SCREEN, "chips"), now)
    value = int(st.number_input("Chips", step=1, key=key))
    if 1 <= value <= MOST_CHIPS:
        return value
    _refuse("Chips", value, 1, MOST_CHIPS)
    return now


def number_refusal() -> str | None:
    """Returns why a number of the question is none; None where each is one."""
    return state.aside(SCREEN, "number")


def _chips(draft: Form, kind: str | None) -> int:
    target = drafts.topology_target(draft["target"])
    if not target or not kind:
        return topology_fields.USUAL_CHIPS
    return min(math.prod(target.topology) * target.slices, MOST_CHIPS)


def _follow(draft: Form, model: str, kinds: tuple[str | None, str], given: tuple[Any, ...]) -> None:
    """Once a question changed, draws the plan that it finds from the fields that you set.
    A link keeps the plan that it has.
    """
    kind, chosen = kinds
    asked, before = (state.aside(SCREEN, "linked"), chosen, given), state.aside(SCREEN, "asked")
    state.set_aside(SCREEN, "asked", asked)
    if before is None or before[0] != asked[0]:
        state.set_aside(SCREEN, "mesh", draft["mesh"])
        return
    is_same = before == asked
    if given[0] == _CHIPS:  # a shape that was chosen has a number of chips, too
        is_same = before[2][::2] == given[::2] and given[1] == _chips(draft, kind)
    if chosen not in CHIPS or (is_same and chosen == kind):
        return
    own, by_chips = own_fields(draft), given[0] == _CHIPS
    chips = given[1] if by_chips else _chips(own, kind)
    near = nearest_of_chips(chosen, chips)
    rounded = (chips, chosen, near.chips) if by_chips and near.chips != chips else None
    state.set_aside(SCREEN, "nearest", rounded)
    if not (by_chips and _is_meshed(draft)):
        what = f"Finding the plan for the {_KNOWN[given[0]]} on {chip_title(chosen)}…"
        with contextlib.suppress(RequestError), st.spinner(plain(what)):
            (row,) = answer_of(state.experiment(SCREEN).plan, model, (chosen,), near.chips).rows
            if row.plan:
                fill(row.plan)
    new = state.parse_or_keep(drafts.moved(_with(own, model), near.target))
    state.set_aside(SCREEN, "filled", (own, new))
    topology_fields.redraw(SCREEN, new)


def fill(plan: Plan) -> None:
    """Draws the screen again with a plan of the answer, and keeps the fields that you set."""
    new = state.parse_or_keep(experiment_of(plan).to_json())
    state.set_aside(SCREEN, "filled", (own_fields(state.draft(SCREEN)), new))
    state.set_aside(SCREEN, "mesh", new["mesh"])
    topology_fields.redraw(SCREEN, new)


def _is_meshed(draft: Form) -> bool:
    """Returns True if you set the mesh: no search and no link did."""
    return draft["mesh"] != state.aside(SCREEN, "mesh")


def own_fields(draft: Form) -> Form:
    """Returns the fields as you set them, without those that the last question filled in:
    another question begins without these.
    """
    own, filled = state.aside(SCREEN, "filled") or (draft, draft)
    is_filled = state.parse_or_keep(_with(draft, filled["options"].get("model"))) == filled
    return own if is_filled else draft


def chosen_words() -> str:
    """Returns who chose the plan: the search of the question, else the fields; neither at first."""
    draft = state.draft(SCREEN)
    if state.experiment(SCREEN) == state.first(SCREEN):
        return "Plan"
    is_searched = own_fields(draft) is not draft and not _is_meshed(draft)
    return SEARCHED if is_searched else "Plan as set"


def _with(draft: Form, model: str | None) -> Form:
    return draft | {"options": draft["options"] | ({"model": model} if model else {})}


def answer_of(
    plan: Plan | None,
    model: str | None = None,
    kinds: tuple[str, ...] = (),
    chips: int | None = None,
) -> TrainingAnswer:
    """Returns the answer to the screen's question, the plan's own kind of chip first. It starts from
    the plan you set.

    Raises:
      RequestError: it has none: a budget without a price.
    """
    assert plan is not None
    return train(asked_of(plan, model, kinds, chips))


def asked_of(
    plan: Plan, model: str | None = None, kinds: tuple[str, ...] = (), chips: int | None = None
) -> TrainingQuestion:
    """Returns the screen's question about a plan, from the one you set."""
    (by, value), asked = limit(), plan
    with contextlib.suppress(RequestError):
        asked = parse_experiment(own_fields(state.draft(SCREEN))).plan or plan
    own = plan.topology.chip.generation
    return TrainingQuestion(
        asked.to_json() | {"model": model or plan.model},
        tokens(),
        asked.batch,
        kinds or tuple(dict.fromkeys((own, *KINDS))),
        (chips or plan.topology.chips) if by == _CHIPS else None,
        value if by == _DAYS else None,
        value if by == _DOLLARS else None,
        tuple(price.by_kind().items()),
    )

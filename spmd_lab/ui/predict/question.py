"""The question of a training run: model, tokens, kind of chip, and so many chips, days or dollars."""

import contextlib
import math
from collections.abc import Callable

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import experiment_of
from spmd_core.machine import CHIPS, nearest_of_chips
from spmd_core.plan import Plan
from spmd_core.sweeps import KINDS, MOST_CHIPS, TrainingAnswer, TrainingQuestion, train
from spmd_lab.ui import inputs, price, state
from spmd_lab.ui.choices import MOST, Linked
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import drafts, topology_fields
from spmd_lab.ui.state import Form

SCREEN = "predict"
_TOKENS_E9 = 1000.0  # where a link has none
_CHIPS, _DAYS, _DOLLARS = LIMITS = ("chips", "days", "dollars")
_FIRST = {_DAYS: 30.0, _DOLLARS: 1e6}


_LINKED = {
    "tokens": Linked(SCREEN, "tokens", f"{_TOKENS_E9:g}"),
    _DAYS: Linked(SCREEN, _DAYS),
    _DOLLARS: Linked(SCREEN, _DOLLARS),
}


def from_query() -> None:
    """Takes tokens, deadline and budget out of a link, once."""
    for each in _LINKED.values():
        each.from_query()


def tokens() -> float:
    """Returns the tokens to train on."""
    return (_LINKED["tokens"].number() or 0.0) * 1e9


def limit() -> tuple[str, float | None]:
    """Returns what decides the number of chips, and its value: none of chips."""
    for name in (_DAYS, _DOLLARS):
        if value := _LINKED[name].number():
            return name, value
    return _CHIPS, None


def fields(models: tuple[str, ...], words: Callable[[str], str], has_chips: bool = True) -> str:
    """Draws the question; the model. Another kind or number of chips draws the screen again with
    the topology, a deadline or a budget with the plan that keeps it. Without `has_chips` their
    number and the limit that decides it are fields elsewhere.
    """
    draft = state.draft(SCREEN)
    now = draft["options"].get("model", models[0])
    model = inputs.choice_input(SCREEN, "model", "Model", models, now, words=words)
    if not has_chips:
        _chips(draft, *topology_fields.kind_field(SCREEN, draft["target"]), has_chips)
        return model
    left, right = st.columns(2, gap="small")
    with left:
        _number("tokens", "Billion tokens", _TOKENS_E9, 100.0)
        by = st.selectbox(
            "Given",
            list(LIMITS),
            key=state.seed(state.key(SCREEN, "limit"), limit()[0]),
            help="Days or dollars find the number of chips.",
        )
    for name in (_DAYS, _DOLLARS):
        if name != by:
            _LINKED[name].keep("")
    with right:
        kind, chosen = topology_fields.kind_field(SCREEN, draft["target"])
        if by == _CHIPS:
            _chips(draft, kind, chosen)
        else:
            _number(by, plain(by.capitalize()), _FIRST[by], 1.0)
            _follow(draft, model, kind, chosen)
    return model


def _number(name: str, label: str, first: float, step: float) -> None:
    key = state.seed(state.key(SCREEN, f"aside.{name}"), _LINKED[name].number() or first)
    value = st.number_input(
        label, min_value=0.0, max_value=MOST[name], step=step, format="%g", key=key
    )
    _LINKED[name].keep(f"{value:.12g}" if value else "")


def _chips(draft: Form, kind: str | None, chosen: str, is_asked: bool = True) -> None:
    """The number of chips; the screen again where it, or the kind of chip, changed."""
    target = drafts.topology_target(draft["target"])
    now = (
        math.prod(target.topology) * target.slices
        if target and kind
        else topology_fields.USUAL_CHIPS
    )
    wanted = now = min(now, MOST_CHIPS)
    if is_asked:
        key = state.seed(state.key(SCREEN, "chips"), now)
        wanted = st.number_input("Chips", 1, MOST_CHIPS, key=key)
    if chosen in CHIPS and (chosen != kind or wanted != now):
        moved = drafts.moved(draft, nearest_of_chips(chosen, int(wanted)).target)
        topology_fields.redraw(SCREEN, moved)


def _follow(draft: Form, model: str, kind: str | None, chosen: str) -> None:
    """Once a question with a deadline or a budget changed: the plan of the chosen chips that keeps
    it. A link keeps the plan that it has.
    """
    asked = (model, chosen, tokens(), limit(), tuple(price.by_kind().items()))
    before = state.aside(SCREEN, "asked")
    state.set_aside(SCREEN, "asked", asked)
    plan = state.experiment(SCREEN).plan
    if chosen not in CHIPS or plan is None or (before in (None, asked) and chosen == kind):
        return
    with contextlib.suppress(RequestError):
        (row,) = answer_of(plan, plan.to_json() | {"model": model}, (chosen,)).rows
        if row.plan and row.run:
            topology_fields.redraw(SCREEN, experiment_of(row.plan).to_json())
    if chosen != kind:
        target = nearest_of_chips(chosen, plan.topology.chips).target
        topology_fields.redraw(SCREEN, drafts.moved(draft, target))


def answer_of(plan: Plan, form: Form | None = None, kinds: tuple[str, ...] = ()) -> TrainingAnswer:
    """Returns the answer to the screen's question, the plan's own kind of chip first.

    Raises:
      RequestError: it has none: a budget without a price.
    """
    by, value = limit()
    own = plan.topology.chip.generation
    return train(
        TrainingQuestion(
            form or plan.to_json(),
            tokens(),
            plan.batch,
            kinds or tuple(dict.fromkeys((own, *KINDS))),
            plan.topology.chips if by == _CHIPS else None,
            value if by == _DAYS else None,
            value if by == _DOLLARS else None,
            tuple(price.by_kind().items()),
        )
    )

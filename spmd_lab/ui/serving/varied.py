"""One text of the question of serving varied, and the answer to keep: below the answer itself."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from spmd_core.answers import (
    kept_serving,
    served_mesh,
    served_points_headline,
    served_points_table,
)
from spmd_core.base import RequestError, seconds_text
from spmd_core.reports import html_text, search_document
from spmd_core.search import ServingAnswer, ServingQuestion
from spmd_core.sweeps import SERVED_SWEPT, ServedPoint, served_points
from spmd_core.trials import searches
from spmd_lab.ui import exports, state
from spmd_lab.ui.charts.base import TOP, Spec, category, hover, layer, layered, quantity
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.predict import run_answer
from spmd_lab.ui.shell import done, refusal

SWEEP = "sweep"  # of the query string
_LONGEST = 400
_POINT = {"type": "point", "filled": True, "size": 90}


def draw(
    question: ServingQuestion, answered: Callable[[ServingQuestion], ServingAnswer], screen: str
) -> None:
    """Draws the sweep, folded until it is opened or a link names one."""
    linked = st.query_params.get(SWEEP, "")[:_LONGEST]
    title, key = "Vary one thing: where does another sharding win?", "serving-sweep"
    with st.expander(title, bool(linked), key=key, on_change="rerun") as folded:
        if not folded.open:
            return
        text = _asked(linked, screen)
        try:
            points = served_points(question, text, answered)
        except RequestError as error:
            refusal(as_sentence(str(error)))
            return
        st.query_params[SWEEP] = text
        st.markdown(f"**{plain(served_points_headline(points))}**")
        if alt := "; ".join(f"{e.value}: {served_mesh(e.lead)}" for e in points if e.lead):
            st.vega_lite_chart(_chart(points), key="serving-varied", alt=alt)
        run_answer.draw_filled(served_points_table(points, question))


def _asked(linked: str, screen: str) -> str:
    name, _, values = linked.partition("=")
    name = name if name in SERVED_SWEPT else next(iter(SERVED_SWEPT))
    left, right = st.columns([1, 3])
    key = state.key(screen, "serve.vary")
    names = list(SERVED_SWEPT)
    name = left.selectbox(
        "Vary",
        names,
        key=state.seed(key, name),
        format_func=lambda each: each.replace("_", " ").capitalize(),
    )
    first = values if values and linked.startswith(f"{name}=") else SERVED_SWEPT[name]
    field = state.seed(state.key(screen, f"serve.vary.{name}"), first)
    return f"{name}={right.text_input('Values', key=field, max_chars=_LONGEST)}"


def _chart(points: Sequence[ServedPoint]) -> Spec:
    rows = [
        {
            "value": each.value,
            "rate": each.lead.per_chip,
            "mesh": f"{each.lead.plan.topology.name.removeprefix('gpu:')}, {served_mesh(each.lead)}",
            "takes": f"{seconds_text(each.lead.served.tpot_s)} a token",
        }
        for each in points
        if each.lead and each.lead.served
    ]
    values = [each.value for each in points]
    x = {"field": "value", "type": "ordinal", "sort": values, "title": None}
    x |= {"scale": {"domain": values}, "axis": {"labelAngle": 0}}
    y = quantity("rate", title="tokens/s per chip")
    color = category("mesh", list(dict.fromkeys(row["mesh"] for row in rows)), legend=TOP)
    tips = hover(value="value", mesh="best", takes="takes", rate="tokens/s per chip")
    line = layer(rows, {"type": "line", "opacity": 0.4}, x=x, y=y)
    return layered([line, layer(rows, _POINT, x=x, y=y, color=color, tooltip=tips)], 220)


def outputs(answer: ServingAnswer) -> Callable[[str], None] | None:
    """Draws what can be taken from here: a report, and the answer among the searches of History.
    Returns what draws the button of its file, for who sends it, where the answer is kept.
    """
    kept, question = kept_serving(answer, time.time()), answer.question
    with st.container(horizontal=True, vertical_alignment="center"):
        exports.download(
            "HTML report",
            lambda: html_text(search_document(kept, {})),
            f"{kept.id}.html",
            "One HTML file.",
        )
        if is_kept := lab().searches.has(question.id):
            st.page_link(
                "pages/history.py",
                label="Kept on History",
                icon=":material/history:",
                query_params={"searches": question.id},
            )
        pressed = may_act() and st.button(
            "Keep",
            icon=":material/bookmark:",
            key="serving:keep",
            help="With the searches of History: to compare, archive, or put on a page.",
        )
    if pressed and done(as_viewer, searches.keep, lab(), kept):
        st.rerun()
    return partial(exports.search_page, kept) if is_kept else None

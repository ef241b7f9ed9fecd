"""The Search screen: which sharding is best, how sure that is, and why not another."""

from functools import partial

import streamlit as st

from spmd_core.search import FEW
from spmd_core.surveys import search as words
from spmd_core.trials import FEW_S, searches as running
from spmd_lab.ui import exports, links, shell
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import as_sentence
from spmd_lab.ui.search import answer, keep, question_inputs

share = shell.open_page("search")
broken = keep.from_query()
with st.sidebar:
    question, budget_s, refusal = question_inputs.fields()
broken = keep.still(broken, question)
question = running.alike(lab(), question)
keep.write_query(question)
search = None if broken else running.find(lab(), question)  # of which question, below a bad link?
at_work = search is not None and not search.is_over
file, few = None, FEW if question.kind == "model" else None

with st.container(horizontal=True, vertical_alignment="center", key="head"):
    is_model = question is None or question.kind == "model"
    title = shell.QUESTIONS["search"] if is_model else "Which sharding is fastest?"
    st.title(title, width="stretch")
    downloads = st.container(horizontal=True, width="content")
    pressed = (not search or answer.may_begin(search)) and st.button(
        words.AGAIN if search else "Search",
        type="primary" if answer.is_next(question, search) else "secondary",
        icon=":material/travel_explore:",
        key="search:start",
        disabled=bool(refusal) or at_work,
        help=f"Estimates all, and tries the best for up to {budget_s:g} s." if budget_s else None,
    )

if broken:
    shell.refusal(f"This link cannot be opened as it is. {as_sentence(broken)}")
if refusal:
    shell.refused("search", refusal)
elif pressed:
    answer.begin(question, budget_s, few)

if at_work and search:
    answer.watch(search)
elif not search and answer.look(question):
    pass
elif search is None:
    keep.before(question.kind)
else:
    if search.problem:
        shell.refusal(search.problem_words)
    ended = words.stopped_words(search.answer, search.budget_s, search.is_few)
    if answer.headline(search.answer, answer.BEFORE if refusal else "", ended):
        answer.begin(question, budget_s or FEW_S, few)
    answer.details(search.answer)
    keep.answered(search.question)
    if lab().searches.has(search.question.id):
        kept = lab().searches.find(search.question.id)
        file = partial(exports.search_page, kept)
        with downloads, st.popover("Download", icon=":material/download:"):
            exports.search_buttons(kept)
keep.others(question)
links.share_box(share, "search", file=file)

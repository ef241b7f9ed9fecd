"""Rows of History that are more than a run: the runs of a batch, and searches."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from textwrap import shorten

import streamlit as st

from spmd_core.base import seconds_text, span_text
from spmd_core.history import difference_rows, part_words, shape_words, text_matches, when_words
from spmd_core.reports import MOST
from spmd_core.results import SPREAD_NOTICE
from spmd_core.runs import RunSummary
from spmd_core.search import KeptSearch
from spmd_core.surveys.search import kept_words
from spmd_core.terms import outcome_words
from spmd_lab.ui import cards, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain

RUNS, SEARCHES = "runs", "searches"  # of the query string: those that are shown
_SCREEN, _PAGE = "history", "pages/history.py"
_MOST_PARTS, _MOST_VALUES, _LONGEST_VALUES = 3, 5, 40  # of what differs; their characters
_MOST_HEADS, _LONGEST = 2, 90  # verdicts of a row; characters of an answer


def follow_own_link() -> None:
    """Take up what a link of this screen to itself names: the browser keeps the query, and shows the
    address without it.
    """
    named = {name: text for name in (RUNS, SEARCHES) if (text := st.query_params.get(name))}
    if named != (state.aside(_SCREEN, "named") or {}):
        state.set_aside(_SCREEN, "named", named)
        st.query_params.update(named)


def is_batch(runs: Sequence[RunSummary]) -> bool:
    """Returns True if runs of one row were submitted together, and are of several experiments."""
    return len({run.experiment for run in runs}) > 1


def name_of(runs: Sequence[RunSummary]) -> str:
    """Returns what the runs of a batch have in common: what is computed, else its kind."""
    members = [each.experiment for run in runs for each in run.experiment.members]
    for words in (cards.computed_words, lambda each: shape_words(each)["Workload"]):
        if len(called := {words(each) for each in members}) == 1:
            return called.pop()
    return "Several workloads"


def facts_of(runs: Sequence[RunSummary]) -> str:
    """Returns in what the runs of a batch differ, as Markdown."""
    parts = []
    for label, texts in difference_rows([run.experiment for run in reversed(runs)]):
        values = list(dict.fromkeys(texts))  # as they were submitted
        shown = ", ".join(values)
        is_short = len(values) <= _MOST_VALUES and len(shown) <= _LONGEST_VALUES
        parts.append(part_words(label, shown) if is_short else _counted(len(values), label))
    more = len(parts) - _MOST_PARTS
    return plain("; ".join(parts[:_MOST_PARTS] + [f"{more} more"] * (more > 0)))


def _counted(values: int, label: str) -> str:
    of = label.removesuffix(" sharded over")
    return f"{values} {'values' if of == label else 'shardings'} of {of}"


def link_of(runs: Sequence[RunSummary]) -> tuple[str, dict[str, str]]:
    """Returns the script and query that show a batch side by side, of many runs the last."""
    if len(runs) > MOST:
        return cards.page_of(runs[0].experiment), cards.query(runs[0].experiment, runs[0].run)
    return _PAGE, {RUNS: ",".join(run.run for run in runs)}


def came(runs: Sequence[RunSummary]) -> str:
    """Returns as HTML the verdicts of a batch's runs, and their times."""
    outcomes = [cards.outcome(run) for run in runs]
    heads = Counter((color, head) for color, head, words in outcomes if head)
    if len(heads) == 1 and heads.total() == len(runs):
        ((color, head),) = heads
        verdict = f'<em class="{color}">{escape(head)}</em> each of {len(runs)}'
    else:
        named = [head for _, head, _ in outcomes if head]
        if len(heads) > _MOST_HEADS:  # how each ended
            named = [outcome_words(run).partition(",")[0] for run in runs]
        counted = (f"{escape(head)} {count}" for head, count in Counter(named).most_common())
        verdict = f'<em class="gray">{", ".join(counted)}</em>'
    per = "per step" if runs[0].experiment.plan else "per call"
    span = span_of(runs, least=0.0)
    return f"<span>{verdict}</span><b>{escape(span)}{f'<i>{per}</i>' if span else ''}</b>"


def span_of(runs: Sequence[RunSummary], least: float = SPREAD_NOTICE) -> str:
    """Returns the times of runs from the lowest to the highest; "" where these are not apart."""
    timed = (run for run in runs if not run.experiment.what.is_bare_array)
    times = [each for run in timed if (each := cards.compared_s(run))] or [0.0]
    ends = min(times), max(times)
    return span_text(*ends) if ends[1] > (1 + least) * ends[0] else ""


def searches(text: str | None) -> list[KeptSearch]:
    """Returns the kept searches that fit a text, the last first."""
    zone = st.context.timezone
    return [
        each
        for each in lab().searches.listed()
        if not text or text_matches(text, _text(each), each.at, zone)
    ]


def _text(kept: KeptSearch) -> str:
    winner = kept.ranking[0].name if kept.ranking else ""
    return " · ".join((kept.title, kept.words, winner, kept.origin or "", kept.id))


def ticked() -> list[str]:
    """Returns the searches that are ticked."""
    return list(state.aside(_SCREEN, SEARCHES) or ())


def untick() -> None:
    """Tick no search."""
    for each in ticked():
        st.session_state.pop(_key(each), None)
    state.set_aside(_SCREEN, SEARCHES, [])


def _key(search: str) -> str:
    return f"tick-search:{search}"


def search_row(kept: KeptSearch) -> None:
    """Draws a kept search as a row that opens it, and keeps whether it is ticked."""
    held, moment = ticked(), when_words(kept.at, st.context.timezone)
    with st.container(horizontal=True, gap=None, wrap=False, key=f"line-{kept.id}"):
        is_ticked = st.checkbox(
            plain(f"Tick {kept.title}, {moment}"),
            key=state.seed(_key(kept.id), kept.id in held),
            label_visibility="collapsed",
        )
        facts = "Serving" if cards.is_serving(kept) else "Search"
        facts += f" of {kept.space:,}" * (kept.space > 1)
        facts += f", from {kept.origin}" if kept.origin else ""
        label = f"**{plain(kept.title)}** {plain(facts)}"
        st.page_link(_PAGE, label=label, query_params={SEARCHES: kept.id})
        st.html(
            f"{cards.search_glimpse(kept)}<span>{_verdict(kept)}</span><b>{_figure(kept)}</b>"
            f"<small>{moment[11:16]}</small>"
        )
    others = [each for each in held if each != kept.id]
    state.set_aside(_SCREEN, SEARCHES, [*others, kept.id] if is_ticked else others)


def _verdict(kept: KeptSearch) -> str:
    """Returns as HTML the name of a search's winner, or of serving the sentence of the answer."""
    words = kept_words(kept)
    if words == kept.words:
        return escape(shorten(words, _LONGEST, placeholder="…"))
    name = shorten(words.partition(": ")[2], _LONGEST, placeholder="…")
    return f"<em>{escape(name)}</em>the first of its ranking"


def _figure(kept: KeptSearch) -> str:
    """Returns as HTML the time of a search's winner; "" where it is of no time."""
    first = kept.winner
    if first is None:
        return ""
    of = "per token" if cards.is_serving(kept) else "its best"
    return f"{escape(seconds_text(first.seconds))}<i>{of}, {escape(first.stage)}</i>"

"""Stored runs as a list by days: a row opens its run, and a tick holds it beside others."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from itertools import groupby
from operator import itemgetter
from textwrap import shorten

import streamlit as st

from spmd_core.base import by_key, count_text
from spmd_core.history import difference_rows, evidence_of, part_words, shape_words, when_words
from spmd_core.runs import RunSummary
from spmd_core.search import KeptSearch
from spmd_lab.ui import cards, state, style
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.history import together
from spmd_lab.ui.markdown import plain

_YEAR = 300  # days from which on a day has its year
_FIRST, _TIMES = 30, 3  # rows that are drawn, and so many times as many with each press
_LONGEST, _MOST_CHANGES = 14, 3  # characters of a text beside the one before; changes named
MOST_LISTED = 200  # runs of a list
_SCREEN, _TICKED, _ROWS, _UNFOLDED, _TABLE = "history", "ticked", "rows", "unfolded", "table"
PINNED = "Pinned"
_HEADS = "<small>Run</small><small>Verdict</small><small>Result</small><small>Started</small>"


def draw(runs: Sequence[RunSummary], searches: Sequence[KeptSearch], evidence: str) -> None:
    """Draws the rows by days, pinned ones first and searches by their moments, and keeps which are
    ticked; each run with a badge of its evidence where that is another.
    """
    many = state.aside(_SCREEN, _ROWS) or _FIRST
    before = _before(runs)
    named = set(ticked())
    changes = {  # none of a named run
        run.run: "" if run.labels.name else changed(run, before.get(run.run)) for run in runs[:many]
    }
    with st.container(key="days", gap=None):
        st.html(f"<h2>{_HEADS}</h2>")
        placed = _placed(runs[:many], searches, has_more=len(runs) > many)
        for day, rows in groupby(placed, itemgetter(0)):
            st.html(f"<h2>{escape(day)}</h2>")
            for _, row in rows:
                if isinstance(row, KeptSearch):
                    together.search_row(row)
                    continue
                (run, *alike) = row.runs
                is_batch = together.is_batch(row.runs)
                facts = (
                    together.facts_of(row.runs)
                    if is_batch
                    else _facts(run, "" if alike else changes[run.run], evidence)
                )
                is_ticked = _row(row, facts, day == PINNED, run.run in named)
                of_row = [each.run for each in row.runs if is_batch or each is run]
                (named.update if is_ticked else named.difference_update)(of_row)
    kept_order = [run.run for run in runs if run.run in named]
    state.set_aside(_SCREEN, _TICKED, [*kept_order, *sorted(named.difference(kept_order))])
    if len(runs) > many:
        more = f"Show more of {count_text(len(runs))}"
        st.button(more, on_click=state.set_aside, args=(_SCREEN, _ROWS, many * _TIMES), key="more")
    elif len(runs) >= MOST_LISTED:
        st.caption(f"The last {MOST_LISTED} are listed: search for others.")


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """The runs of a row: those of one batch or experiment, or one of them below the first.

    Attributes:
      unfolded: how many are listed below it, each in a row of its own.
    """

    runs: list[RunSummary]
    unfolded: int = 0
    is_within: bool = False


def folded(runs: Sequence[RunSummary]) -> Iterator[tuple[str, FoldedRow]]:
    """Yields the day of each row and what is in it: runs of one batch or experiment where the last of
    them is, each in its own row where they are unfolded or one below the first is ticked alone.
    """
    zone, now = st.context.timezone, time.time()
    for day, of_day in groupby(runs, lambda run: day_of(run, zone, now)):
        for alike in by_key((cards.same(run), run) for run in of_day).values():
            if not _is_unfolded(alike):
                yield day, FoldedRow(alike)
                continue
            yield day, FoldedRow(alike[:1], len(alike) - 1)
            yield from ((day, FoldedRow([run], is_within=True)) for run in alike[1:])


def _is_unfolded(alike: Sequence[RunSummary]) -> bool:
    held, opened = {*ticked()}, state.aside(_SCREEN, _UNFOLDED) or ()
    is_batch_held = together.is_batch(alike) and all(run.run in held for run in alike)
    is_part = any(run.run in held for run in alike[1:]) and not is_batch_held
    return len(alike) > 1 and (is_part or any(run.run in opened for run in alike))


def _placed(
    runs: Sequence[RunSummary], searches: Sequence[KeptSearch], has_more: bool
) -> Iterator[tuple[str, FoldedRow | KeptSearch]]:
    """Yields the day and what is in each row: searches before the first run that is older, those older
    than every run unless the list `has_more`.
    """
    zone, now = st.context.timezone, time.time()
    left = sorted(searches, key=lambda each: each.at)
    for day, row in folded(runs):
        is_placed = day == PINNED or row.is_within
        while left and not is_placed and left[-1].at > row.runs[0].submitted_at:
            yield _day(left[-1].at, zone, now), left.pop()
        yield day, row
    if not has_more:
        yield from ((_day(each.at, zone, now), each) for each in reversed(left))


def _unfold(runs: Sequence[RunSummary], unfolded: int = 0) -> None:
    """Draws a button that lists each of some runs, with their times where these are apart; or that
    folds those which are `unfolded` below the first.
    """
    spread = "" if together.is_batch(runs) else together.span_of(runs)
    first, held = runs[0].run, state.aside(_SCREEN, _UNFOLDED) or ()
    st.button(
        plain("Fold" if unfolded else f"{len(runs)} runs{spread and f', {spread}'}"),
        key=f"unfold:{first}",
        type="tertiary",
        icon=f":material/expand_{'less' if unfolded else 'more'}:",
        on_click=state.set_aside,
        args=(
            _SCREEN,
            _UNFOLDED,
            [*(each for each in held if each != first)] + [first] * (not unfolded),
        ),
    )


def ticked() -> list[str]:
    """Returns the runs that are ticked, also those that a filter hides."""
    return list(state.aside(_SCREEN, _TICKED) or ())


def tick(runs: Iterable[str]) -> None:
    """Tick these runs and no others."""
    runs = list(runs)  # which may be made of what is ticked
    for run in (*ticked(), *runs):
        st.session_state.pop(_key(run), None)
    state.set_aside(_SCREEN, _TICKED, runs)
    state.set_aside(_SCREEN, _TABLE, table_key() + 1)  # whose rows are ticked otherwise


def table_key() -> int:
    """Returns how often runs were ticked outside of the table, which then begins anew."""
    return state.aside(_SCREEN, _TABLE) or 0


def tick_rows(runs: Sequence[RunSummary], rows: Sequence[int]) -> None:
    """Tick these rows of a table of runs, and none of its others."""
    shown = [each.run for each in runs]
    chosen = [shown[at] for at in sorted(rows) if at < len(shown)]
    kept = [run for run in ticked() if run not in shown]
    for run in shown:
        st.session_state.pop(_key(run), None)
    state.set_aside(_SCREEN, _TICKED, [*chosen, *kept])


def _key(run: str) -> str:
    return f"tick:{run}"


def _row(row: FoldedRow, facts: str, is_pinned: bool, is_ticked: bool) -> bool:
    (run, *alike), is_batch = row.runs, together.is_batch(row.runs)
    name = run.labels.name or cards.short_words(run.experiment, has_mesh=False)
    name = together.name_of(row.runs) if is_batch else name
    moment = when_words(run.submitted_at, st.context.timezone)
    key = f"line-{'within-' * row.is_within}{run.run}"
    with st.container(horizontal=True, gap=None, wrap=False, key=key):
        drawn = st.checkbox(
            plain(f"Tick {name}, {moment}"),
            key=state.seed(_key(run.run), is_ticked),
            label_visibility="collapsed",
        )
        page, query = cards.page_of(run.experiment), cards.query(run.experiment, run.run)
        if is_batch:
            page, query = together.link_of(row.runs)
        if alike or row.unfolded:
            with st.container(gap=None):
                with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                    st.page_link(page, label=f"**{plain(name)}**", query_params=query)
                    _unfold(row.runs, row.unfolded)
                st.caption(facts)
        else:
            st.page_link(page, label=f"**{plain(name)}** {facts}", query_params=query)
        came = together.came(row.runs) if is_batch else f"{_verdict(run)}<b>{_figure(run)}</b>"
        st.html(
            f"{glimpse.html(run.best_experiment)}{came}"
            f"<small>{moment[5:10] if is_pinned else moment[11:16]}</small>"
        )
    return drawn


def _facts(run: RunSummary, change: str, evidence: str) -> str:
    """Returns a run's mesh, tags, what changed in it, and its evidence unless it is that of most, as
    Markdown.
    """
    kind, _ = evidence_of(run)
    parts = (
        plain(shape_words(run.experiment)["Mesh"]),
        plain(f"since the last: {change}") if change else "",
        cards.tag_badges(run.labels.tags),
        style.evidence_badge(kind or "Measured") if run.answer and kind != evidence else "",
    )
    return " ".join(part for part in parts if part)


def _verdict(run: RunSummary) -> str:
    """Returns as HTML what came out of a run, or why nothing did."""
    color, head, words = cards.outcome(run)
    words = shorten(run.error.message, 60, placeholder="…") if run.error else words
    strong = f'<em class="{color}">{escape(head)}</em> ' if head else ""
    return f"<span>{strong}{escape(words)}</span>"


def _figure(run: RunSummary) -> str:
    """Returns the figure of a run as HTML; "" where nothing came out."""
    first, beside = cards.figure(run)
    return f"{escape(first)}{f'<i>{escape(beside)}</i>' if beside else ''}"


def day_of(run: RunSummary, zone: str | None, now: float) -> str:
    """Returns the heading of a run's row: its day in a time zone, unless it is pinned."""
    return PINNED if run.labels.is_pinned else _day(run.submitted_at, zone, now)


def _day(moment: float, zone: str | None, now: float) -> str:
    day, today = (date.fromisoformat(when_words(at, zone)[:10]) for at in (moment, now))
    ago = (today - day).days
    return {0: "Today", 1: "Yesterday"}.get(ago) or f"{day:%A}, {day.day} {day:%B}" + (
        f" {day.year}" * (ago > _YEAR)
    )


def _before(runs: Sequence[RunSummary]) -> dict[str, RunSummary]:
    """Returns for each run the one of the same workload, program and model before it, of these."""
    earlier, last = {}, {}
    for run in sorted(runs, key=lambda each: (each.submitted_at, each.run)):
        plan = run.experiment.plan
        kind = run.experiment.workload, _program(run), plan.model if plan else ""
        of = kind, bool(run.experiment.variants)
        if of in last:
            earlier[run.run] = last[of]
        last[of] = run
    return earlier


def changed(run: RunSummary, before: RunSummary | None) -> str:
    """Returns in what a run differs from the listed one of its workload before it; "" for the first.

    `rows 8192 → 64`; "" where only the time differs.
    """
    if before is None:
        return ""
    changes = list(_changes(difference_rows([before.experiment, run.experiment])))
    left = len(changes) - _MOST_CHANGES
    more = f", {left} more" if left > 0 else ""
    return ", ".join(changes[:_MOST_CHANGES]) + more


def _program(run: RunSummary) -> str:
    """Returns the hash of the file of an exported program; "" of other workloads."""
    program = run.experiment.exported
    return program.described.program if program else ""


def _changes(rows: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    for label, (old, new) in rows:
        words = part_words(label, new)
        is_short = max(len(old), len(new)) <= _LONGEST and words.endswith(new)
        is_spec = label.startswith("spec of ")
        if label == "mesh" and not is_short:  # which the row has
            yield label
        else:
            yield f"{words.removesuffix(new)}{old} → {new}" if is_short and not is_spec else words

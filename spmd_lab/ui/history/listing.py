"""The parts of the History screen: which runs are listed or shown, and what can be done with them."""

from collections.abc import Collection, Sequence

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from spmd_core.base import agreed, bytes_text, numbered, seconds_text, shorten
from spmd_core.history import evidence_of
from spmd_core.reports import FEWEST, MOST
from spmd_core.runs import RunSummary
from spmd_core.search import KeptSearch
from spmd_core.terms import experiment_words, outcome_words
from spmd_lab.ui import cards, choices, run_tables, shell, style, tables
from spmd_lab.ui.compare import beside, view
from spmd_lab.ui.entrance.short import OPEN
from spmd_lab.ui.history import days
from spmd_lab.ui.history.together import RUNS, SEARCHES
from spmd_lab.ui.lab import as_viewer, find, lab, may_act, room
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import archives, collections, labels, outcome, tour
from spmd_lab.ui.tables import formatted

ONLY_SEARCHED = "Only runs of searches, remedies and traces are here: switch them on below."
VIEWS = ("List", "Table", "Predicted beside measured")
SEARCHED = "searched"  # of the query string: runs of searches are listed, too
ONLY_EXAMPLES = "Examples of another machine, until your first run."


_MOST_UNREAD, _OLDEST = 20, 20  # that are named; that are offered at once
_MOST_NAMED, _LONGEST = 20, 64  # runs of a link; characters of an id


def follow_short_link() -> None:
    """Go to the run that a short link names, or list it as missing: it may be imported."""
    run = st.query_params.get(OPEN, "")
    if not choices.RUN_ID.fullmatch(run):
        return
    st.query_params.pop(OPEN, None)
    if (status := find(run)) is not None:
        st.switch_page(
            cards.page_of(status.experiment), query_params=cards.query(status.experiment, run)
        )
    st.query_params[RUNS] = run


def listed(
    workload: str | None, state: str | None, text: str | None
) -> tuple[Sequence[RunSummary], int]:
    """The runs that fit the filters; those of searches, which are many and quick, on demand, and
    how many these are. Results that came with the program only as long as there are no others.
    """
    own = "imported" if lab().history(limit=1, searched=False) else "examples"

    def stored(searched: bool | None) -> Sequence[RunSummary]:
        return lab().history(
            source=own,
            limit=days.MOST_LISTED,
            workload=workload,
            state=state,
            text=text,
            zone=st.context.timezone,
            searched=searched,
            pinned_first=True,
        )

    of_searches = stored(True)
    is_shown = st.session_state.get(SEARCHED, st.query_params.get(SEARCHED) == "true")
    runs = stored(None if is_shown else False)
    if runs and own == "examples":
        st.caption(ONLY_EXAMPLES)
    return runs, len(of_searches)


def named() -> list[RunSummary]:
    """Returns the stored runs that the link names; draws a sentence on those that are not here."""
    names = list(dict.fromkeys(name for name in asked() if len(name) <= _LONGEST))[:_MOST_NAMED]
    stored = list(lab().history(runs=names))
    if sentence := not_here("", asked(), {run.run for run in stored}):
        st.info(plain(sentence), icon=":material/link_off:")
    return stored


def show(runs: Sequence[str]) -> None:
    """Have the link name these runs; none: all are listed."""
    if runs:
        st.query_params[RUNS] = ",".join(runs)
    else:
        for name in (RUNS, choices.BASELINE):
            st.query_params.pop(name, None)


def back() -> None:
    """Draws a button that lists all runs again."""
    icon = ":material/arrow_back:"
    st.button("All runs", icon=icon, key="back", type="tertiary", on_click=_list)


def _list() -> None:
    show(())
    st.query_params.pop(SEARCHES, None)


def clear_filters() -> None:
    """Draws that nothing fits the filters, and a button that clears them."""
    st.info("No stored run fits these filters.", icon=":material/filter_alt_off:")
    st.button(
        "Clear the filters",
        key="filters:clear",
        icon=":material/filter_alt_off:",
        on_click=st.session_state.update,
        args=({"search": "", "workload": None, "state": None},),
    )


def draw(view: str, runs: Sequence[RunSummary], searches: Sequence[KeptSearch]) -> None:
    """Draws the runs in one of the views: by days with the searches, with every column, or their
    predictions.
    """
    if view == "Table":
        _table(runs)
    elif view == "Predicted beside measured":
        beside.draw(runs)
    else:
        days.draw(runs, searches, cards.evidence_of_most(runs))


def held(view: str, runs: Sequence[RunSummary], searches: int) -> None:
    """Draws how many runs and `searches` there are, in how many rows of a view, and the evidence of most; or what can
    be done with ticked ones.
    """
    ticked, shown = days.ticked(), {run.run for run in runs}
    if missing := [run for run in ticked if run not in shown]:  # of which some may be deleted
        shown_too = {run.run for run in lab().history(runs=missing)}
        ticked = [run for run in ticked if run in shown or run in shown_too]
    if ticked:
        _held(ticked, len({*ticked} - shown))
        return
    rows = len(runs) if view != VIEWS[0] else sum(1 for _ in days.folded(runs))
    within = f" in {numbered(rows, 'row')}" if rows < len(runs) else ""
    beside = f", {numbered(searches, 'search')}" if searches and view == VIEWS[0] else ""
    words = [plain(f"{numbered(len(runs), 'run')}{within}{beside}.")]
    if evidence := cards.evidence_of_most(runs):
        words.append(style.evidence_badge(evidence))
        if any(evidence_of(run)[0] != evidence for run in runs):
            words.append("unless marked")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if len(runs) > 1 and view != VIEWS[2]:  # which has no rows
            st.button(f"Select {FEWEST} to {MOST} to compare", key="compare", disabled=True)
        st.caption(" ".join(words), width="content")


def _held(ticked: Sequence[str], hidden: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="held"):
        is_one = len(ticked) == 1
        st.button(
            "Details" if is_one else f"Compare {len(ticked)}",
            type="primary",
            key="compare",
            on_click=show,
            args=(ticked,),
            disabled=len(ticked) > MOST,
            help=f"At most {MOST} are compared." if len(ticked) > MOST else None,
        )
        act(ticked)
        if not is_one:
            archives.download(ticked)
        st.button("Untick", key="untick", type="tertiary", on_click=days.tick, args=((),))
        if hidden:
            are = agreed(hidden, "is")
            st.caption(plain(f"{hidden} of {len(ticked)} ticked {are} not in this list."))


def act(runs: Sequence[str]) -> None:
    """Draws buttons that put runs into a collection or an archive, or delete them."""
    collections.add(runs)
    if tour.at(runs) is not None or not may_act():
        return  # results of the tour are to be looked at
    names = f"{len(runs)} runs" if len(runs) > 1 else "this run"
    with st.popover(f"Delete {names}", icon=":material/delete:"):
        st.markdown(f"Delete {names} with everything measured? This cannot be undone.")
        pressed = st.button(f"Delete {names} for good", key="delete", type="primary")
        if pressed and shell.done(as_viewer, lab().delete, runs):
            days.tick(run for run in days.ticked() if run not in runs)
            view.forget()
            show(())
            st.rerun()


def _table(runs: Sequence[RunSummary]) -> None:
    """Draws every column of the rows, to sort by and to tick."""
    table, held = run_tables.runs_table(runs), set(days.ticked())
    rows = [at for at, run in enumerate(runs) if run.run in held]
    event = st.dataframe(
        formatted(table, {run_tables.TIME: seconds_text}),
        hide_index=True,
        column_config=_columns(table),
        placeholder=tables.NONE,
        alt="Every column of the runs",
        key=f"table:{days.table_key()}:{hash(tuple(run.run for run in runs))}",
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": rows}},
    )
    days.tick_rows(runs, event.selection.rows)


def _columns(table: pd.DataFrame) -> dict[str, ColumnConfig]:
    """Moments in the viewer's own time zone; times to three digits. Both sort by value. Texts have
    the room that the longest one needs.
    """
    return {
        run_tables.WHEN: st.column_config.DatetimeColumn(
            format="YYYY-MM-DD HH:mm", timezone=st.context.timezone, width=130
        ),
        run_tables.TIME: st.column_config.NumberColumn(
            help="Of the fastest strategy, per call or training step; of a study, of its best variant",
            width=82,
        ),
        run_tables.OPERANDS_KIB: st.column_config.NumberColumn(
            format="localized", help="All operands together, unsharded", width=100
        ),
    } | tables.wide_enough(table)


def asked() -> list[str]:
    """The runs that the link names."""
    return [name for name in st.query_params.get(RUNS, "").split(",") if name]


def not_here(what: str, asked: Sequence[str], known: Collection[str]) -> str | None:
    """A sentence about runs or searches that a link names and that are not stored; None where all
    are.
    """
    missing = [name for name in asked if name not in known]
    if not missing:
        return None
    names = ", ".join(shorten(run, 40).strip("'") for run in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return (
        f"The link names {what}{names}{more}, not stored here: deleted, or of another machine. "
        "Ask its sender for the archive, and import it here."
    )


def upkeep() -> None:
    """Runs that this version cannot read, and what is stored beyond the limit: offered for
    deletion.
    """
    if unread := lab().unread():
        with st.expander(f"{len(unread)} stored runs cannot be read by this version"):
            for each in unread[:_MOST_UNREAD]:
                st.markdown(f":small[{plain(each.reason)}]")
            if st.button("Delete them for good", key="delete:unread", icon=":material/delete:"):
                _delete([each.run for each in unread])
    taken = room()
    if taken.is_stored_full:
        oldest = lab().oldest_finished(_OLDEST)
        st.warning(
            plain(
                f"{bytes_text(taken.stored_bytes)} are stored, and this server allows "
                f"{bytes_text(taken.stored_most_bytes)}: nothing new is taken before some "
                "runs are deleted. Download first what you want to keep."
            )
        )
        if st.button(
            f"Delete the {len(oldest)} oldest finished runs for good",
            key="delete:oldest",
            icon=":material/delete:",
            disabled=not oldest,
        ):
            _delete(oldest)


def _delete(runs: Sequence[str]) -> None:
    if shell.done(as_viewer, lab().delete, runs):
        view.forget()
        st.rerun()


def one(run: RunSummary) -> None:
    """Draws what came out of a run, and opens, exports, labels or deletes it."""
    outcome.draw(run, lab().result(run.run))
    facts = (outcome_words(run), experiment_words(run.experiment), f"run {run.run}")
    st.caption(plain(" · ".join(facts)))
    labels.draw(run.run)
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(key="main-link", width="content"):
            st.page_link(
                cards.page_of(run.experiment),
                label="**Open this run**",
                icon=":material/open_in_new:",
                query_params=cards.query(run.experiment, run.run),
            )
        act([run.run])

"""The parts of the History screen: picking runs, and what can be done with them."""

from collections import Counter
from collections.abc import Collection, Sequence

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from spmd_core.base import bytes_text, count_text, seconds_text, shorten
from spmd_core.history import answer_words
from spmd_core.runs import RunSummary
from spmd_core.terms import ago, experiment_words, outcome_words
from spmd_lab.ui import cards, choices, exports, run_tables, shell, state, tables
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.compare import view
from spmd_lab.ui.entrance.short import OPEN
from spmd_lab.ui.lab import as_viewer, find, lab, room
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import archives, collections, labels, outcome, tour
from spmd_lab.ui.tables import formatted

MOST_LISTED = 200  # runs of a list, unless more are requested

ONLY_SEARCHED = "Only runs of searches are here: switch them on above."
ONLY_EXAMPLES = (
    "These results came with the program, of another machine: your first run takes their place."
)


_MOST_UNREAD, _OLDEST = 20, 20  # that are named; that are offered at once
_MOST_CARDS = 30
_ROWS, _TALL = 12, 564  # more rows scroll within so many pixels: what a tick opens is in sight
_MOST_PICTURES = 60  # of a table: more would be more to send than the rows
_RUNS = "runs"  # of the query string: the ticked runs, so that a link shows the same side by side
_MOST_HIDDEN = 20  # of the ticked runs that a filter hides
_ALT = (
    "Stored runs, pinned ones first, then newest first: day and hour, shards, workload, verdict or "
    "how it ended, time, name and tags where there are some, target, mesh, sharding"
)


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
    st.query_params[_RUNS] = run


def listed(
    workload: str | None, state: str | None, text: str | None
) -> tuple[Sequence[RunSummary], int]:
    """The runs that fit the filters; those of searches, which are many and quick, on demand, and
    how many these are. Results that came with the program as long as there are no others, and
    those that the link names.
    """
    own = "imported" if lab().history(limit=1, searched=False) else "examples"

    def stored(
        searched: bool | None, source: str = own, runs: Sequence[str] = ()
    ) -> Sequence[RunSummary]:
        return lab().history(
            source=source,
            runs=runs,
            workload=workload,
            state=state,
            text=text,
            zone=st.context.timezone,
            searched=searched,
            pinned_first=True,
        )

    of_searches = stored(True)
    is_left_out = bool(of_searches) and not st.toggle(
        plain(
            f"Show {count_text(len(of_searches))}{' or more' * (len(of_searches) >= MOST_LISTED)} "
            f"run{'s' * (len(of_searches) != 1)} of searches"
        ),
        key="searched",
        bind="query-params",
        help="What a search measured or compiled on its way, which Find a sharding lists, too; "
        "and what was compiled to see what would remove a collective.",
    )
    runs = stored(False if is_left_out else None)
    if own != "examples" and (linked := _named(asked(), runs)):
        runs = [*stored(None, "examples", linked), *runs]
    if runs and own == "examples":
        st.caption(ONLY_EXAMPLES)
    return runs, len(of_searches)


def pick(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """The table of runs; those that are ticked, in its order, then those that a filter hides."""
    named = asked()
    names = _named(named, runs)
    hidden = list(lab().history(runs=names)) if names else []
    known = {run.run for run in (*runs, *hidden)}
    if sentence := not_here("", named, known):
        st.info(plain(sentence), icon=":material/link_off:")
    rows = [at for at, run in enumerate(runs) if run.run in named]
    linked = [name for name in named if name in known]
    # the viewer went back, or opened a link, or what it names was imported
    if state.aside("history", "ticked") not in (None, linked):
        state.set_aside("history", "opened", (state.aside("history", "opened") or 0) + 1)
    # rows are picked by number: a table with other rows must not inherit the numbers
    key = f"runs:{hash(tuple(run.run for run in runs))}:{state.aside('history', 'opened')}"
    with st.container(key="run-table"):
        table = _table(runs)
        event = st.dataframe(
            formatted(table, {run_tables.TIME: seconds_text}),
            key=key,
            hide_index=True,
            on_select="rerun",
            selection_mode="multi-row",
            selection_default={"selection": {"rows": rows}},
            row_height=44,
            height=_TALL if len(runs) > _ROWS else "content",
            column_config=_columns(table),
            column_order=[name for name in run_tables.SHOWN if name in table],
            placeholder=tables.NONE,
            alt=_ALT,
        )
    picked = [runs[at] for at in sorted(event.selection.rows) if at < len(runs)] + hidden
    if hidden:
        of = f"{len(hidden)} of {len(picked)} ticked runs {'is' if len(hidden) == 1 else 'are'}"
        st.caption(f"{of} hidden by the filters above.")
    state.set_aside("history", "ticked", ticked := [run.run for run in picked])
    _cards(runs, ticked)
    if ticked != linked:  # an archive may bring what is missing: the link keeps it
        _name([*ticked, *(name for name in named if name not in known)])
    return picked


def _table(runs: Sequence[RunSummary]) -> pd.DataFrame:
    pictures = [glimpse.address(glimpse.svg(run.experiment)) for run in runs[:_MOST_PICTURES]]
    added = {
        run_tables.PICTURE: [*pictures, *[""] * (len(runs) - len(pictures))],
        run_tables.VERDICT: [cards.short_outcome(run) for run in runs],
    }
    return run_tables.runs_table(runs, st.context.timezone, **added)


def _name(runs: Sequence[str]) -> None:
    if runs:
        st.query_params[_RUNS] = ",".join(runs)
    else:
        st.query_params.pop(_RUNS, None)


def _cards(runs: Sequence[RunSummary], ticked: Sequence[str]) -> None:
    shown = {run.run: run for run in runs[:_MOST_CARDS]}
    often = Counter(map(_card, shown.values()))
    st.session_state["cards"] = [run for run in ticked if run in shown]
    with st.container(key="run-cards"):
        st.pills(
            "Stored runs: tap to tick",
            list(shown),
            selection_mode="multi",
            # the browser reports the label that was pressed: equal ones end with the run
            format_func=lambda run: (
                _card(shown[run]) + (f" · {plain(run)}" if often[_card(shown[run])] > 1 else "")
            ),
            key="cards",
            on_change=_tick,
            args=(tuple(shown),),
        )
        if len(runs) > _MOST_CARDS:
            st.caption(f"The first {_MOST_CARDS} of {len(runs)}: search for others.")


def _tick(shown: Sequence[str]) -> None:
    """Take the cards that are ticked into the address; runs that no card shows stay ticked."""
    _name([*st.session_state["cards"], *(name for name in asked() if name not in shown)])


def _card(run: RunSummary) -> str:
    name = run.labels.name or experiment_words(run.experiment)
    facts = [answer_words(run) or outcome_words(run), ago(run.submitted_at)]
    return f"**{plain(name)}** {plain(' · '.join(facts))}"


def _columns(table: pd.DataFrame) -> dict[str, ColumnConfig]:
    """Moments in the viewer's own time zone; times to three digits. Both sort by value. Texts have
    the room that the longest one needs.
    """
    return {
        run_tables.WHEN: st.column_config.DatetimeColumn(
            format="HH:mm", timezone=st.context.timezone, width=64
        ),
        run_tables.PICTURE: st.column_config.ImageColumn(
            width=140, help="Operands and result by their shards, or the mesh"
        ),
        run_tables.TIME: st.column_config.NumberColumn(
            help="Of the fastest strategy, per call or training step; of a study, of its best variant",
            width=82,
        ),
        run_tables.OPERANDS_KIB: st.column_config.NumberColumn(
            format="localized", help="All operands together, unsharded", width=100
        ),
    } | tables.wide_enough(table.drop(columns=run_tables.PICTURE))


def asked() -> list[str]:
    """The runs that the link names."""
    return [name for name in st.query_params.get(_RUNS, "").split(",") if name]


def _named(asked: Sequence[str], runs: Sequence[RunSummary]) -> list[str]:
    shown = {run.run for run in runs}
    return [name for name in dict.fromkeys(asked) if name not in shown and len(name) <= 64][
        :_MOST_HIDDEN
    ]


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


def actions(picked: Sequence[RunSummary], runs: Sequence[RunSummary]) -> None:
    """Open, export and delete what is picked; with nothing picked, export all rows."""
    if not picked:
        exports.rows_button(runs)
        return
    if len(picked) == 1:
        _answer(picked[0])
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(picked) == 1:
            _open(picked[0])
        collections.add([run.run for run in picked])
        if len(picked) > 1:
            archives.download([run.run for run in picked])
        if tour.at([run.run for run in picked]) is not None:
            return  # its results are to be looked at
        names = f"{len(picked)} runs" if len(picked) > 1 else "this run"
        with st.popover(f"Delete {names}", icon=":material/delete:"):
            st.markdown(f"Delete {names} with everything measured? This cannot be undone.")
            pressed = st.button(f"Delete {names} for good", key="delete", type="primary")
            if pressed and shell.done(as_viewer, lab().delete, [run.run for run in picked]):
                view.forget()
                st.query_params.pop(_RUNS, None)
                st.rerun()


def _answer(run: RunSummary) -> None:
    outcome.draw(run, lab().result(run.run))
    facts = (outcome_words(run), experiment_words(run.experiment), f"run {run.run}")
    st.caption(plain(" · ".join(facts)))
    labels.draw(run.run)


def _open(run: RunSummary) -> None:
    with st.container(key="main-link", width="content"):
        st.page_link(
            cards.page_of(run.experiment),
            label="**Open this run**",
            icon=":material/open_in_new:",
            query_params=cards.query(run.experiment, run.run),
        )
    exports.buttons(run.run, run.experiment)

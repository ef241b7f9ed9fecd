"""The parts of the History screen: picking runs, what can be done with them, and two of them side by side."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.errors import shorten
from spmd_core.recipes import differences_of
from spmd_core.runs.states import RunSummary
from spmd_core.units import bytes_text
from spmd_core.words.experiments import experiment_words
from spmd_core.words.names import ago
from spmd_core.words.runs import headline
from ui import cards, exports, shell, state, tables
from ui.charts import base
from ui.compare import view
from ui.lab import lab, viewer
from ui.markdown import plain

_MOST_UNREAD, _OLDEST = 20, 20  # told of, and offered at once
_RUNS = "runs"  # of the query string: the picked runs, so that a link shows the same two side by side


def pick(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """The table of runs; those that are picked in it, in its order."""
    if sentence := state.once("history", "missing", not_here(st.query_params.get(_RUNS, ""), runs)):
        st.info(plain(sentence), icon=":material/link_off:")
    asked = st.query_params.get(_RUNS, "").split(",")
    rows = [at for at, run in enumerate(runs) if run.run in asked]
    # rows are picked by number: a table with other rows must not inherit the numbers
    key = f"runs:{hash(tuple(run.run for run in runs))}"
    event = st.dataframe(
        tables.runs_table(runs), key=key, hide_index=True, on_select="rerun", selection_mode="multi-row",
        selection_default={"selection": {"rows": rows}}, height=420 if len(runs) > 11 else "auto",
        alt="Stored runs, newest first: when, state, experiment, fastest strategy, its median or predicted time, run id",
        column_config={"Experiment": st.column_config.TextColumn(width="large")})
    picked = [runs[at] for at in sorted(event.selection.rows) if at < len(runs)]
    names = ",".join(run.run for run in picked)
    if names != st.query_params.get(_RUNS, ""):
        if names:
            st.query_params[_RUNS] = names
        else:
            st.query_params.pop(_RUNS, None)
    return picked


def not_here(asked: str, runs: Sequence[RunSummary]) -> str | None:
    """What to say of runs that a link names and the table has not got; None where it has all."""
    missing = [run for run in asked.split(",") if run and run not in {known.run for known in runs}]
    if not missing:
        return None
    names = ", ".join(shorten(run, 40).strip("'") for run in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return (f"The link names {names}{more}, which are not in this table: deleted, of another "
            "machine, or left out by the filters above.")


def upkeep() -> None:
    """Runs that this version cannot read, and what is stored beyond the limit: offered for deletion."""
    if unread := lab().unread():
        with st.expander(f"{len(unread)} stored runs cannot be read by this version"):
            for each in unread[:_MOST_UNREAD]:
                st.markdown(f":small[{plain(each.reason)}]")
            if st.button("Delete them for good", key="delete:unread", icon=":material/delete:"):
                _delete([each.run for each in unread])
    taken = lab().room(viewer())
    if taken.is_stored_full:
        oldest = lab().oldest_finished(_OLDEST)
        st.warning(plain(f"{bytes_text(taken.stored_bytes)} are stored, and this server allows "
                         f"{bytes_text(taken.stored_most_bytes)}: nothing new is taken before some "
                         "runs are deleted. Download first what you want to keep."))
        if st.button(f"Delete the {len(oldest)} oldest finished runs for good",
                     key="delete:oldest", icon=":material/delete:", disabled=not oldest):
            _delete(oldest)


def _delete(runs: Sequence[str]) -> None:
    if sentence := shell.attempt(lab().delete, runs):
        shell.refusal(sentence)
        return
    view.forget()
    st.rerun()


def actions(picked: Sequence[RunSummary]) -> None:
    """Open, export and delete what is picked."""
    if not picked:
        st.caption("Tick one run to open or export it, two to see them side by side, any number to delete them.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(picked) == 1:
            run = picked[0]
            st.page_link(cards.page_of(run.experiment), label="**Open this run**", icon=":material/open_in_new:",
                         query_params=cards.query(run.experiment, run.run))
            exports.buttons(run.run, run.experiment)
        names = f"{len(picked)} runs" if len(picked) > 1 else "this run"
        with st.popover(f"Delete {names}", icon=":material/delete:"):
            st.markdown(f"Delete {names} with everything measured? This cannot be undone.")
            if st.button(f"Delete {names} for good", key="delete", type="primary"):
                sentence = shell.attempt(lab().delete, [run.run for run in picked])
                if sentence:
                    shell.refusal(sentence)
                else:
                    view.forget()
                    st.query_params.pop(_RUNS, None)
                    st.rerun()


def side_by_side(first: RunSummary, second: RunSummary) -> None:
    """Two runs: what differs in the experiments, both answers, and the medians in one chart."""
    st.subheader("Side by side", anchor=False)
    labels = [f"{letter}: {ago(run.submitted_at)}, {run.run}" for letter, run in zip("AB", (first, second), strict=True)]
    found = []
    for column, run, label in zip(st.columns(2), (first, second), labels, strict=True):
        with column.container(border=True, height="stretch"):
            st.markdown(f"**{plain(label)}**  \n{plain(experiment_words(run.experiment))}")
            result = lab().result(run.run)
            if result is None:
                st.caption("This run left no result.")
            else:
                st.markdown(plain(headline(result, differences_of(result))))
                found.append((label, result))
    chart = base.side_by_side_chart(found)
    if chart:
        st.vega_lite_chart(chart, alt="Median time per call by strategy for both runs; the numbers are in the table below", key="side-by-side")
        st.table(tables.medians_table(found), hide_index=True, border="horizontal")
    differences = tables.differences_table(first.experiment, second.experiment)
    if len(differences):
        st.markdown("**What differs in the experiments**")
        st.table(differences, hide_index=True, border="horizontal")
    else:
        st.caption("Both runs are of the same experiment.")

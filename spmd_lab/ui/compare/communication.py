"""Why on Compare: who sends what to whom, the reason of the selected collective and its line in the
program, and when it happened on the devices.
"""

import streamlit as st

from spmd_core.advice import removal_words
from spmd_core.answers import collectives_table
from spmd_core.base import bytes_text, count_text
from spmd_core.pictures import is_product
from spmd_core.program import CollectiveRow, file_name
from spmd_core.results import Result, of_rows
from spmd_core.sheets import EMPTY, NONE, Table
from spmd_core.terms import spoken
from spmd_core.trials import remedy_searches as running, with_remedies
from spmd_core.workloads import sources
from spmd_lab.ui import cards, choices
from spmd_lab.ui.arrows import view as arrows
from spmd_lab.ui.charts import colors
from spmd_lab.ui.compare import selected, study, trace
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.ir import viewer
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.shell import draw_table

PROGRAMS = "programs"  # the viewer's name on this screen
_WHY = "Why, and where"
_NO_TEXT = "A dropped file has numbers of lines alone: `spmd_lab.explain(step)(…).open()` keeps their text."
# Streamlit lets text in a cell be 25rem wide at most, however wide the table is.
_STYLE = """<style>
.st-key-communication td [data-testid="stMarkdownContainer"] { max-width: none; }
.st-key-communication td:nth-child(-n+2) [data-testid="stMarkdownContainer"] { min-width: 7rem; }
.st-key-communication code { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 1100px) {
  .st-key-communication td:nth-child(-n+2) [data-testid="stMarkdownContainer"] { min-width: 5rem; }
}
</style>"""


def draw(view: View) -> None:
    """A way to see where the time goes, first; the collectives to select from, the arrows and the
    account of the selected one, every collective as a table where there are several, and the trace.
    """
    result, experiment = view.result, view.result.experiment
    is_offered = trace.offered(view)
    is_traced = is_offered and trace.is_traced(view)
    if is_offered and not is_traced:
        trace.draw(view)
    if answers := running.known(lab(), result.run):
        result = with_remedies(result, answers[1])
    names = selected.communicating(result)
    if names:
        if len(names) == 1 < len(result.strategies):
            st.caption(colors.sentence(f"{spoken(names[0], result)} communicates", experiment))
        name = study.choose(experiment, names)
        outcome = result.strategies[name].collectives or ()
        own = result.model_copy(update={"experiment": result.row(name).experiment})
        arrows.show(own, name, outcome, lambda row: _account(result, name, row))
    listed = [each for name in names for each in result.strategies[name].collectives or ()]
    if view.collectives.rows and len(listed) != 1:  # of one, its account has all
        with st.container(key="communication"):
            st.html(_STYLE)
            draw_table(_marked(view), named=colors.cells(result))
    if is_product(experiment.what) and not experiment.variants:
        st.page_link(
            "pages/layout.py",
            label="This step in pictures",
            icon=":material/grid_view:",
            query_params=cards.query(experiment),
        )
    if is_traced:
        st.subheader("When", anchor=False)
        trace.draw(view)


def _account(result: Result, name: str, row: CollectiveRow) -> None:
    programs = {name: lab().text(result.run, name, "program") or ""}
    table = collectives_table(of_rows(result, [name]), programs=programs)
    at = next((at for at, each in enumerate(table.rows) if _is(table, each, row)), None)
    if at is None:
        return
    cells = dict(zip(table.columns, (each.text for each in table.rows[at]), strict=True))
    sizes = []  # beside its bytes on a device, which the choice above has
    if row.count not in (None, 1) and row.bytes_total:
        sizes.append(f"{bytes_text(row.bytes_total)} in {count_text(row.count)} executions")
    sizes += [
        f"{cells[each]} {words}"
        for each, words in (("Time", "in all"), ("Exposed", "exposed"))
        if cells.get(each, NONE) != NONE
    ]
    small = f"  \n:small[{plain(', '.join(sizes))}]" if sizes else ""
    st.markdown(f"{coded(cells.get(_WHY, ''))}{small}")
    if row.first.remove is not None:
        st.caption(f"What would remove it: {coded(removal_words(row.first.remove))}")
    own = file_name(result.row(name).experiment.workload, result.row(name).strategy)
    file, _, number = (row.first.source or "").rpartition(":")
    if file == own and number.isdigit():
        st.button(
            plain(f"Line {number} in the compiled program"),
            key=f"lead:{name}:{number}",
            type="tertiary",
            icon=":material/code:",
            on_click=_lead,  # by ids: what a button is given is kept with every session
            args=(result.run, tuple(result.strategies), name, int(number)),
        )
    program = result.row(name).experiment.exported
    if program and number and not sources.lines(program.described.program, file):
        st.caption(_NO_TEXT)


def _is(table: Table, cells: tuple, row: CollectiveRow) -> bool:
    shown = dict(zip(table.columns, cells, strict=True))
    sized = shown.get("In total", EMPTY).value in (None, row.bytes_total)
    return (shown["Collective"].text, shown["Bytes"].text) == (row.what, row.size) and sized


def _marked(view: View) -> Table:
    table = view.collectives
    _, row = selected.of(view.result)
    if row is None or len(table.rows) < 2:
        return table
    at = table.columns.index("Collective")
    rows = [
        (*each[:at], type(each[at])(selected.MARK + each[at].text), *each[at + 1 :])
        if _is(table, each, row)
        else each
        for each in table.rows
    ]
    return Table(table.columns, tuple(rows))


def _lead(run: str, strategies: tuple[str, ...], strategy: str, number: int) -> None:
    st.session_state[choices.TAB] = "Program"
    viewer.lead(run, strategies, PROGRAMS, strategy, number)

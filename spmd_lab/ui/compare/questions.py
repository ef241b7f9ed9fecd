"""The questions under the card of a finished run, each a tab that is made when it is opened."""

import streamlit as st

from spmd_core.recipes import recipe_of
from spmd_lab.ui import choices, remedies
from spmd_lab.ui.charts import curve
from spmd_lab.ui.compare import communication, details, selected, sizes, study, trace
from spmd_lab.ui.compare.trace import traced
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.ir import viewer

FASTEST, WHY, FIX, SIZES = "Fastest", "Why", "Fix it", "From which size"
PROGRAM, DETAILS = "Program", "Details"
# tab of a link of before -> the question that has its content; a table of details stays itself
_SUCCESSORS = {
    "Arrows": WHY,
    "Communication": WHY,
    "Trace": WHY,
    "Sizes": SIZES,
    "Programs": PROGRAM,
    **dict.fromkeys(details.TABLES, DETAILS),
}


def draw(view: View) -> None:
    """Tabs of questions, of which only the open one is made; one without an answer is left out."""
    choices.open_detail(details.TABLES)
    choices.rename_tab(_SUCCESSORS)
    names = _names(view)
    recipe = recipe_of(view.result.experiment)
    is_why = WHY in names and recipe is not None and recipe.asks_why
    first = WHY if is_why or traced(view.result) else names[0]
    if view.result.experiment.what.is_small_program:
        first = DETAILS
    name, tab = choices.opened_tab(names, first)
    with tab:
        _DRAW[name](view)


def _names(view: View) -> list[str]:
    result = view.result
    has_answer = {
        FASTEST: bool(view.times) or any(each.series for each in result.strategies.values()),
        WHY: bool(view.collectives.rows) or trace.offered(view),
        FIX: bool(remedies.offered(result)),
        SIZES: bool(sizes.experiments_of(view)),
    }
    return [name for name in _DRAW if has_answer.get(name, True)]


def _fastest(view: View) -> None:
    for at, (chart, alt) in enumerate(view.times):
        st.vega_lite_chart(chart, alt=alt, key=f"times:{at}" if at else "times")
    with st.container(key="rows"):
        study.ranked(view)
    if view.result.experiment.variants:
        study.pictures(view.result.experiment)
    curve.draw_result(view.result)


def _program(view: View) -> None:
    name, _ = selected.of(view.result)
    if name and not st.session_state.get(choices.STRATEGY):
        st.session_state[choices.STRATEGY] = name
    viewer.show(view.result.run, view.result.order, communication.PROGRAMS)


_DRAW = {
    FASTEST: _fastest,
    WHY: communication.draw,
    FIX: lambda view: remedies.draw(view.result),
    SIZES: sizes.draw,
    PROGRAM: _program,
    DETAILS: details.draw,
}

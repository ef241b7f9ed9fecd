"""Communication on Compare: the table of what the programs send and why, and from each line that
caused it to its ops in the viewer.
"""

import streamlit as st

from spmd_core.pictures import is_product
from spmd_core.program import file_name
from spmd_core.results import Result
from spmd_core.words import title
from spmd_lab.ui import cards
from spmd_lab.ui.compare import comparison
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.ir import viewer
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table

_MOST_LINKS = 8
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
    """The table, and a button for each line of a program that communicates: it opens the viewer
    there.
    """
    st.subheader("Communication")
    with st.container(key="communication"):
        st.html(_STYLE)
        draw_table(view.collectives)
    experiment = view.result.experiment
    if is_product(experiment.what) and not experiment.variants:
        st.page_link(
            "pages/layout.py",
            label="This step in pictures",
            icon=":material/grid_view:",
            query_params=cards.query(experiment),
        )
    causes = lines(view.result)[:_MOST_LINKS]
    if not causes:
        return
    # by ids: what a button is given is kept with every session, for two minutes after its end
    run, strategies = view.result.run, tuple(view.result.strategies)
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key="to-press-lines"
    ):
        st.caption("Show in the compiled program:", width="content")
        for strategy, number in causes:
            st.button(
                plain(f"{title(strategy)}, line {number}"),
                key=f"lead:{strategy}:{number}",
                type="tertiary",
                icon=":material/code:",
                on_click=_lead,
                args=(run, strategies, strategy, number),
            )


def lines(result: Result) -> list[tuple[str, int]]:
    """(strategy, number of a line of its own program that caused communication), in the order of
    the strategies.
    """
    causes: dict[tuple[str, int], None] = {}
    for name, strategy in result.strategies.items():
        own = file_name(result.experiment.workload, name)
        for collective in strategy.collectives or ():
            file, _, number = (collective.source or "").rpartition(":")
            if file == own and number.isdigit():
                causes[name, int(number)] = None
    return list(causes)


def _lead(run: str, strategies: tuple[str, ...], strategy: str, number: int) -> None:
    comparison.open_tab("Programs")
    viewer.lead(run, strategies, comparison.PROGRAMS, strategy, number)

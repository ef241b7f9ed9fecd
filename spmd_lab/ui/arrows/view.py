"""Who sends to whom, on a screen: the busiest link in a sentence, the picture, the links as a
table.
"""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from spmd_core.base import bytes_text, seconds_text
from spmd_core.facts import Collective
from spmd_core.pictures import Placed, Traffic, groups_in_mesh, placed, scene, traffic
from spmd_core.program import CollectiveRow, rows
from spmd_core.results import Result
from spmd_lab.ui import choices
from spmd_lab.ui.arrows import chart, onward, words
from spmd_lab.ui.lab import kept, lab
from spmd_lab.ui.markdown import coded, plain
from spmd_lab.ui.tables import sheet

_LIST = "arrows:list"
_FEW = 6  # collectives that are buttons to press; more are a list
MOST_ROWS, MOST_LINKS = 24, 200
_NAMED = 64  # devices: of more, a result does not name the groups, and the program's text does


def show(
    result: Result,
    strategy: str,
    collectives: Sequence[Collective],
    account: Callable[[CollectiveRow], None] | None = None,
) -> None:
    """The picture of a strategy's collectives, one of them or all; `account` draws what else is
    known of one.
    """
    if not collectives:
        st.caption("The compiled program has no communication.")
        return
    experiment = result.experiment
    mesh = placed(experiment, result.environment)
    text = _text(result.run, strategy) if experiment.device_count > _NAMED else None
    row, every_time = _choose(rows(collectives)[:MOST_ROWS], mesh, text)
    flow = traffic(mesh, collectives if row is None else row.members, text, every_time)
    many = experiment.what.unit
    alone = row is not None and len(row.members) == 1
    if account is not None and row is not None:
        account(row)
    if every_time:
        when = f"in one {many}"
    elif alone:
        when = "each time it runs"
    else:
        when = "when each runs once"
    st.markdown(f"**{coded(words.headline(mesh, flow, when))}**")
    if row is not None and (sent := words.sent(row.first)):
        st.caption(plain(sent))
    onward.draw(experiment, (row or rows(collectives)[0]).first)
    if flow.busiest is None:
        return
    drawn = scene(mesh, flow)
    st.vega_lite_chart(
        chart.chart(mesh, drawn), alt=words.alt(mesh, flow, drawn, when), key="arrows"
    )
    st.caption(plain(" ".join([*words.notes(flow, drawn), words.about(mesh, experiment)])))
    _table(mesh, flow)


def _choose(
    listed: Sequence[CollectiveRow], mesh: Placed, text: str | None
) -> tuple[CollectiveRow | None, bool]:
    """Which collectives are drawn, None for all; and whether each as often as it runs."""
    labels = {"all": words.ALL}
    for number, row in enumerate(listed, 1):
        groups = groups_in_mesh(row.first, mesh, text)
        labels[str(number)] = words.row_label(row, mesh, groups)
    options = list(labels) if len(listed) > 1 else ["1"]
    key = choices.ARROWS if len(options) <= _FEW else _LIST
    choices.offered(choices.ARROWS, options)
    if st.session_state.get(key) not in options:  # by number: labels are of this result alone
        wanted = st.query_params.get(choices.ARROWS, "")
        st.session_state[key] = wanted if wanted in options else options[0]
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    with left:
        chosen = _one_of(options, labels) or options[0]
    row = None if chosen == "all" else listed[int(chosen) - 1]
    if row is not None and len(row.members) == 1 and row.count == 1:
        return row, True
    once = right.toggle(
        "Once",
        key=choices.ONCE,
        bind="query-params",
        help="Bytes of one execution of each collective, not of all of them.",
    )
    return row, not once


def _one_of(options: Sequence[str], labels: Mapping[str, str]) -> str | None:
    if len(options) > _FEW:
        return st.selectbox(
            "Collective",
            options,
            format_func=labels.__getitem__,
            key=_LIST,
            on_change=_keep,
            args=(_LIST,),
            label_visibility="collapsed",
        )
    return st.pills(
        "Collective",
        options,
        required=True,
        format_func=lambda each: plain(labels[each]),
        key=choices.ARROWS,
        on_change=_keep,
        args=(choices.ARROWS,),
        label_visibility="collapsed",
    )


def _keep(key: str) -> None:
    chosen = st.session_state.get(key)
    if chosen in (None, "all"):
        st.query_params.pop(choices.ARROWS, None)
    else:
        st.query_params[choices.ARROWS] = chosen


@kept(4)
def _text(run: str, strategy: str) -> str | None:
    return lab().text(run, strategy, "hlo")


def _table(mesh: Placed, flow: Traffic) -> None:
    with st.expander("Every link as a table", key="links", on_change="rerun") as fold:
        if fold.open:
            few = flow.links[:MOST_LINKS]
            st.dataframe(
                sheet(
                    {
                        "From": [mesh.numbers[link.source] for link in few],
                        "To": [mesh.numbers[link.target] for link in few],
                        "Bytes": [bytes_text(link.nbytes) for link in few],
                        "Over": [", ".join(link.axes) or "–" for link in few],
                        "Mostly": [link.kind for link in few],
                        "Link": [words.way_words(mesh, link) for link in few],
                        "At its nominal rate": [
                            seconds_text(words.link_seconds(mesh, link)) for link in few
                        ],
                    }
                ),
                hide_index=True,
            )
            if len(flow.links) > MOST_LINKS:
                st.caption(f"The busiest {MOST_LINKS} of {len(flow.links):,} links.")

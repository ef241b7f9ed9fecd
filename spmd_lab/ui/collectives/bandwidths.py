"""The result of a sweep of collectives or of a calibration: the answer, its chart, its tables."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.answers import ceilings_table, fits_table, points_table
from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, link
from spmd_core.machine import nearest_of_chips
from spmd_core.results import Point, Result
from spmd_core.time import (
    Case,
    calibration,
    calibration_of,
    cases,
    measured,
    on_topology,
    with_expected,
)
from spmd_core.words import (
    axes_words,
    calibration_words,
    environment_words,
    experiment_words,
    failures,
    headline_parts,
    kind_title,
    sweep_words,
)
from spmd_lab.ui import cards, choices
from spmd_lab.ui.charts import bandwidth as chart
from spmd_lab.ui.collectives import moved
from spmd_lab.ui.collectives.words import (
    CEILINGS,
    KNEES,
    NOT_CALIBRATED,
    plan_words,
    sweep_time_words,
)
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.shell import draw_table, refusal
from spmd_lab.ui.tables import sortable

MOST_OTHERS = 20  # stored sweeps that are offered to be held beside
_NOTHING, _ALL = "nothing", "all"


def draw(result: Result, when: str) -> None:
    """A finished run: its headline first."""
    is_own = lab().notebook.origin(result.run) is None  # a calibration is of one machine
    known = calibration(result.experiment, lab().latest, lab().result) if is_own else None
    result = with_expected(result, known)
    sweep = measured(result)
    with st.container(key="answer"):
        _headline(*headline_parts(result))
    for sentence in failures(result):
        refusal(sentence)
    if sweep.ceilings:
        draw_table(ceilings_table(sweep.ceilings))
    elif sweep.points:
        _sweep(result.experiment, sweep.points, result.run)
    st.caption(
        plain(f"{environment_words(result.environment)} · finished {when} · run {result.run}")
    )
    labels.draw(result.run)
    if sweep.fits:
        with st.expander("Latency and bandwidth, fitted", expanded=bool(sweep.ceilings)):
            st.dataframe(sortable(fits_table(sweep.fits)), hide_index=True)
    if (
        is_own
        and result.experiment.what.has_formula
        and known is None
        and not result.experiment.place.is_absent
    ):
        _offer_calibration(result.experiment)
    notes = dict.fromkeys((*sweep.notes, *result.notes))
    if notes:
        st.caption(plain("; ".join(notes)))


def _headline(answer: str, more: str) -> None:
    st.subheader(plain(answer), anchor=False)
    if more:
        st.markdown(plain(more))


def before(experiment: Experiment) -> None:
    """What is known before anything is measured: stored runs, and the ceilings of the last
    calibration.
    """
    cards.stored(experiment)
    if not experiment.what.has_formula:
        st.markdown(plain(CEILINGS))
        return
    if experiment.place.is_absent:
        points = on_topology(experiment)
        _headline(*sweep_words(points))
        _sweep(experiment, points, None)
        return
    measured_soon = cases(experiment)
    st.subheader(plain(plan_words(measured_soon)), anchor=False)
    _how_long(experiment, measured_soon)
    _on_tpus(experiment)
    known = calibration(experiment, lab().latest, lab().result)
    if known is not None:
        st.markdown(plain(calibration_words(measured(known).ceilings)))
        st.page_link(
            cards.page_of(known.experiment),
            label="Open the calibration",
            icon=":material/open_in_new:",
            query_params=cards.query(known.experiment, known.run),
        )
    else:
        _offer_calibration(experiment)
    _offer_example(experiment)
    kinds = tuple(dict.fromkeys(each.kind for each in measured_soon))
    moved.show(kinds, max(each.devices for each in measured_soon))


def _on_tpus(experiment: Experiment) -> None:
    """The same collectives on as many TPU chips that are not here: predicted at once."""
    target = nearest_of_chips("v5e", experiment.device_count).target
    try:
        tpus, _ = link.nearest(experiment.to_json(), None, target)
        points = on_topology(tpus)
    except RequestError:
        return
    group = max((point.axes for point in points), key=len, default=())
    shown = [point for point in points if point.axes == group]
    if not shown:
        return
    name = target.removeprefix("tpu:")
    st.markdown(f"**On {plain(name)}, not here: predicted {plain(_over('+'.join(group)))}**")
    st.vega_lite_chart(
        chart.sweep_chart(shown, [], chart.BUS),
        key="sweep-on-tpus",
        alt=chart.sweep_alt(shown, chart.BUS),
        width="stretch",
    )


def _how_long(experiment: Experiment, asked: Sequence[Case]) -> None:
    """How long measuring will take, by the newest sweep that is stored."""
    stored = lab().history(
        workload=experiment.workload, state="succeeded", limit=1, source="examples"
    )
    if stored:
        before, is_example = lab().status(stored[0].run), stored[0].origin is not None
        st.markdown(plain(sweep_time_words(asked, before, is_example)))


def _offer_example(experiment: Experiment) -> None:
    """A link to the sweep that came with the program, where none is stored yet."""
    stored = lab().history(workload=experiment.workload, over=True, limit=1, source="examples")
    if stored and not lab().history(workload=experiment.workload, limit=1):
        st.page_link(
            cards.page_of(stored[0].experiment),
            label="See an example: a sweep that came with the program",
            icon=":material/monitoring:",
            query_params=cards.query(stored[0].experiment, stored[0].run),
        )


def _offer_calibration(experiment: Experiment) -> None:
    asked = calibration_of(experiment)
    st.page_link(
        cards.page_of(asked),
        label=NOT_CALIBRATED,
        icon=":material/speed:",
        query_params=cards.query(asked),
    )


def _sweep(experiment: Experiment, points: tuple[Point, ...], run: str | None) -> None:
    """The chart of one group of axes, and the table of all points."""
    groups = list(dict.fromkeys("+".join(point.axes) for point in points))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        over = choices.one_of("Over", groups, choices.TAB, _over)
        kinds = list(dict.fromkeys(point.kind for point in points))
        several = [*kinds, _ALL] if len(kinds) > 1 else kinds
        kind = choices.one_of("Collective", several, choices.KIND, kind_title)
        quantity = choices.one_of("Show", chart.QUANTITIES, choices.VIEW)
        other = _other(experiment, run)
    shown = [
        point for point in points if "+".join(point.axes) == over and kind in (point.kind, _ALL)
    ]
    beside = [point for point in _of_other(other, over) if kind in (point.kind, _ALL)]
    st.vega_lite_chart(
        chart.sweep_chart(shown, beside, quantity),
        key="sweep-chart",
        alt=chart.sweep_alt(shown, quantity),
        width="stretch",
    )
    st.caption(KNEES)
    with st.expander(
        f"All {len(points)} points as a table", key="points", on_change="rerun"
    ) as numbers:
        if numbers.open:
            st.dataframe(sortable(points_table(points)), hide_index=True)


def _over(group: str) -> str:
    return f"over {axes_words(group.split('+') if group else ())}"


def _other(experiment: Experiment, run: str | None) -> str | None:
    """Another stored sweep to hold beside this one: its run."""
    stored = {
        each.run: experiment_words(each.experiment)
        for each in lab().history(
            workload=experiment.workload, over=True, limit=MOST_OTHERS, source="examples"
        )
        if each.run != run
    }
    if not stored:
        return None
    chosen = st.selectbox(
        "Beside",
        [_NOTHING, *stored],
        key="sweep-beside",
        format_func=lambda run: stored.get(run) or _NOTHING,
    )
    return None if chosen == _NOTHING else chosen


def _of_other(run: str | None, over: str) -> list[Point]:
    result = lab().result(run) if run else None
    return (
        [point for point in measured(result).points if "+".join(point.axes) == over]
        if result
        else []
    )

"""The result of a sweep of collectives or of a calibration: the answer, its chart, its tables."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.answers import CEILING_ROWS, FITS, POINTS, ceiling_figures
from spmd_core.base import RequestError, capital
from spmd_core.experiment import Experiment, link
from spmd_core.machine import nearest_of_chips
from spmd_core.results import Point, Result, StrategyResult
from spmd_core.runs import RunStatus
from spmd_core.time import (
    calibration,
    calibration_of,
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
from spmd_lab.ui import cards, choices, style
from spmd_lab.ui.charts import bandwidth as chart, glimpse
from spmd_lab.ui.collectives import moved
from spmd_lab.ui.collectives.moved import CEILINGS, NOT_CALIBRATED, plan_words
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.shell import draw_figures, draw_table, refusal
from spmd_lab.ui.tables import sortable

MOST_OTHERS = 20  # stored sweeps that are offered to be held beside
_NOTHING, _ALL, _TPUS = "nothing", "all", "tpus"


def draw(result: Result, when: str) -> None:
    """A finished run: its headline first."""
    is_own = lab().notebook.origin(result.run) is None  # a calibration is of one machine
    experiment = result.experiment
    known = calibration(experiment, lab().latest, lab().result) if is_own else None
    result = with_expected(result, known)
    sweep = measured(result)
    notes = tuple(dict.fromkeys((*sweep.notes, *result.notes)))
    if sweep.ceilings:
        _ceilings(headline_parts(result)[0], sweep, notes, result.environment.simulated)
    else:
        _answer(*headline_parts(result), *notes, points=sweep.points)
    for sentence in failures(result):
        refusal(sentence)
    if sweep.points and not sweep.ceilings:
        _sweep(experiment, sweep.points, result.run)
    if is_own and experiment.what.has_formula and not (known or experiment.place.is_absent):
        _offer_calibration(experiment)
    labels.draw(result.run)
    if sweep.fits:
        with st.expander("Latency and bandwidth, fitted"):
            st.dataframe(sortable(FITS.table(sweep.fits, "screen")), hide_index=True)
    st.caption(
        plain(f"{environment_words(result.environment)} · finished {when} · run {result.run}")
    )


def _answer(answer: str, more: str, *notes: str, points: Sequence[Point] = ()) -> None:
    """The card: the answer, what limits it, and the picture of the collective that is shown."""
    with st.container(key="answer"):
        left, right = st.columns([3, 2], vertical_alignment="center")
        left.subheader(plain(answer), anchor=False)
        if more:
            left.markdown(plain(more))
        if notes:
            left.caption(plain("; ".join(notes)))
        kinds = list(dict.fromkeys(point.kind for point in points))
        if kinds:
            chosen = choices.now(choices.KIND)
            with right:
                moved.show(
                    chosen if chosen in kinds else kinds[0],
                    max(point.devices for point in points),
                )


def _ceilings(answer: str, sweep: StrategyResult, notes: Sequence[str], is_simulated: bool) -> None:
    """The card: what a device reaches, in figures; what the links reach; then every ceiling."""
    with st.container(key="answer"):
        st.subheader(plain(answer), anchor=False)
        draw_figures(ceiling_figures(sweep.ceilings))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if is_simulated:
                style.evidence("Simulated")
            if notes:
                with st.popover("How sure?", key="how-sure", type="tertiary"):
                    st.markdown("\n".join(f"- :small[{plain(capital(note))}.]" for note in notes))
    first = max(sweep.points, key=lambda point: len(point.axes), default=None)
    if first is not None:
        points = [
            each for each in sweep.points if (each.kind, each.axes) == (first.kind, first.axes)
        ]
        st.vega_lite_chart(
            chart.sweep_chart(points, [], chart.BUS),
            key="ceilings-chart",
            alt=chart.sweep_alt(points, chart.BUS),
        )
    draw_table(CEILING_ROWS.table(sweep.ceilings, "screen"))


def before(experiment: Experiment) -> None:
    """Draws the answer on TPUs that are not here, and the last calibration."""
    cards.stored(experiment)
    if not experiment.what.has_formula:
        with st.container(key="answer"):
            st.html(glimpse.html(experiment, large=True))
            st.subheader(plain(CEILINGS), anchor=False)
        return
    if experiment.place.is_absent:
        points = on_topology(experiment)
        _answer(*sweep_words(points), points=points)
        _sweep(experiment, points, None)
        return
    target, points = _on_tpus(experiment)
    last, is_example = _last(experiment)
    pressed = plan_words(experiment, last, is_example)
    if points:
        peak = sweep_words(points)[0].removeprefix("Predicted: ")
        _answer(f"On {target}, predicted: {peak}", pressed, points=points)
        st.vega_lite_chart(
            chart.sweep_chart(points, [], chart.BUS),
            key="sweep-on-tpus",
            alt=chart.sweep_alt(points, chart.BUS),
        )
    else:
        st.subheader(plain(pressed), anchor=False)
    _calibrated(experiment)
    if last and is_example:
        st.page_link(
            cards.page_of(last.experiment),
            label="See an example: a sweep that came with the program",
            icon=":material/monitoring:",
            query_params=cards.query(last.experiment, last.run),
        )


def _calibrated(experiment: Experiment) -> None:
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


def _on_tpus(experiment: Experiment, over: str | None = None) -> tuple[str, list[Point]]:
    """As many TPU chips that are not here, and what is predicted of the same collectives there: over
    these axes, or over most of them.
    """
    target = nearest_of_chips("v5e", experiment.device_count).target
    name = target.removeprefix("tpu:")
    try:
        tpus, _ = link.nearest(experiment.to_json(), None, target)
        points = on_topology(tpus)
    except RequestError:
        return name, []
    most = max((point.axes for point in points), key=len, default=())
    group = "+".join(most) if over is None else over
    return name, [point for point in points if "+".join(point.axes) == group]


def _last(experiment: Experiment) -> tuple[RunStatus | None, bool]:
    """The newest sweep that is stored, and whether it came with the program."""
    stored = lab().history(
        workload=experiment.workload, state="succeeded", limit=1, source="examples"
    )
    if not stored:
        return None, False
    return lab().status(stored[0].run), stored[0].origin is not None


def _offer_calibration(experiment: Experiment) -> None:
    asked = calibration_of(experiment)
    st.page_link(
        cards.page_of(asked),
        label=NOT_CALIBRATED,
        icon=":material/speed:",
        query_params=cards.query(asked),
    )


def _sweep(experiment: Experiment, points: tuple[Point, ...], run: str | None) -> None:
    groups = list(dict.fromkeys("+".join(point.axes) for point in points))
    kinds = list(dict.fromkeys(point.kind for point in points))
    several = [*kinds, _ALL] if len(kinds) > 1 else kinds
    kind = choices.one_of("Collective", several, choices.KIND, kind_title)
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left.container(horizontal=True):
        quantity = choices.one_of("Show", chart.QUANTITIES, choices.VIEW)
        over = (
            choices.one_of(
                "Over",
                groups,
                choices.TAB,
                lambda group: f"over {axes_words(group.split('+') if group else ())}",
            )
            if groups[1:]
            else groups[0]
        )
    with right:
        other, others = _beside(experiment, run, over)
    wanted = (kind,) if kind != _ALL else tuple(kinds)
    shown = [each for each in points if "+".join(each.axes) == over and each.kind in wanted]
    st.vega_lite_chart(
        chart.sweep_chart(shown, [each for each in others if each.kind in wanted], quantity, other),
        key="sweep-chart",
        alt=chart.sweep_alt(shown, quantity),
        width="stretch",
    )
    with st.expander(
        f"All {len(points)} points as a table", key="points", on_change="rerun"
    ) as numbers:
        if numbers.open:
            st.dataframe(sortable(POINTS.table(points, "screen")), hide_index=True)


def _beside(experiment: Experiment, run: str | None, over: str) -> tuple[str, list[Point]]:
    """What is held beside a sweep: as many TPU chips, predicted, where it ran here; another stored
    sweep; or nothing. Its name and its points.
    """
    stored = {
        each.run: experiment_words(each.experiment)
        for each in lab().history(
            workload=experiment.workload, over=True, limit=MOST_OTHERS, source="examples"
        )
        if each.run != run
    }
    tpus, predicted = ("", []) if experiment.place.is_absent else _on_tpus(experiment, over)
    named = ({_TPUS: f"{tpus}, predicted"} if predicted else {}) | {_NOTHING: _NOTHING} | stored
    if len(named) == 1:
        return "", []
    chosen = st.selectbox("Beside", list(named), key="sweep-beside", format_func=named.__getitem__)
    if chosen == _TPUS:
        return tpus, predicted
    result = lab().result(chosen) if chosen in stored else None
    listed = measured(result).points if result else ()
    return "the other run", [point for point in listed if "+".join(point.axes) == over]

"""The result of a sweep of collectives or of a calibration: the answer, its chart, its tables."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from spmd_core.answers import CEILING_ROWS, ceiling_figures, sweep_points
from spmd_core.base import (
    RequestError,
    between,
    bytes_text,
    capital,
    mesh_text,
    seconds_text,
)
from spmd_core.experiment import Experiment, link
from spmd_core.machine import get_topology, nearest_of_chips
from spmd_core.results import Fit, Point, Result, StrategyResult
from spmd_core.roofline import calibration, expected_spans, measured, on_topology, with_expected
from spmd_core.sheets import Column, Sheet, seconds, text
from spmd_core.terms import (
    NO_LIMIT,
    ago,
    axes_words,
    bandwidths,
    environment_words,
    fitted_s,
    kind_title,
    off_line_words,
    ranges_of,
    rate_words,
)
from spmd_core.time import narrowed_by
from spmd_core.words import failures, headline_parts
from spmd_lab.ui import cards, choices, style
from spmd_lab.ui.charts import bandwidth as chart, glimpse
from spmd_lab.ui.collectives import card, compared, placed, typed
from spmd_lab.ui.collectives.card import Shown
from spmd_lab.ui.collectives.moved import CEILINGS, plan_words
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.shell import draw_figures, draw_table, refusal
from spmd_lab.ui.tables import sortable

FITS: Sheet[Fit] = Sheet(
    (
        text("Collective", lambda each: kind_title(each.kind)),
        text("Over", lambda each: axes_words(each.axes)),
        seconds("Latency", lambda each: each.latency_s),
        text("Its 95% interval", lambda each: between(*map(seconds_text, each.latency_ci95_s))),
        Column("Bus bandwidth", lambda each: each.bandwidth, rate_words),
        text("Its interval", lambda each: rate_interval_words(each.bandwidth_ci95)),
        Column("Knee", lambda each: each.knee_bytes, bytes_text),
    )
)

_MOST_SEGMENTS, _WIDE_PX = 4, 210  # groups of axes side by side; of more, the width of a list
# source of runs -> the link to its last sweep
_STORED = {
    "here": "Your last sweep, {}",
    "examples": "An example: a sweep that came with the program",
}


def draw(result: Result, when: str) -> None:
    """A finished run: its headline first."""
    is_own = lab().notebook.origin(result.run) is None  # a calibration is of one machine
    experiment = result.experiment
    known = calibration(experiment, lab().latest, lab().result) if is_own else None
    result = with_expected(result, known)
    sweep = measured(result)
    # of what is not attached nothing is compiled here: the card names what its times rest on
    of_place = () if experiment.place.is_absent else result.notes
    notes = tuple(dict.fromkeys((*sweep.notes, *of_place)))
    of_machine = experiment.what.has_formula and not experiment.place.is_absent
    to_calibrate = experiment if is_own and of_machine and not known else None
    points = _reaching(experiment, sweep.points)
    shown = None if sweep.ceilings else _choose(experiment, points, result.run)
    if sweep.ceilings:
        _ceilings(headline_parts(result)[0], sweep, notes, result.environment.simulated)
    elif shown:
        card.draw(
            points,
            shown,
            *notes,
            experiment=experiment,
            fits=sweep.fits,
            to_calibrate=None if experiment.place.is_simulated else to_calibrate,
        )
    else:
        st.subheader(plain(headline_parts(result)[0]), anchor=False)
    for sentence in failures(result):
        refusal(sentence)
    if shown:
        _sweep(experiment, points, shown, sweep.fits)
    labels.draw(result.run)
    if sweep.fits:
        st.expander("Latency and bandwidth, fitted").dataframe(
            sortable(FITS.table(sweep.fits, "screen")), hide_index=True
        )
    st.caption(
        plain(f"{environment_words(result.environment)} · finished {when} · run {result.run}")
    )


def _reaching(experiment: Experiment, points: Sequence[Point]) -> Sequence[Point]:
    """Returns stored points, and those of the size that is chosen where it is predicted."""
    size = typed.wanted(experiment) if experiment.place.is_absent else 0
    known = {(each.kind, each.axes, each.bytes) for each in points}
    more = on_topology(experiment, size) if size and points else ()
    return [*points, *(each for each in more if (each.kind, each.axes, each.bytes) not in known)]


def _groups(points: Sequence[Point]) -> list[str]:
    """The axes of the points, joined by +; all of them first."""
    every = dict.fromkeys(point.axes for point in points)
    return ["+".join(axes) for axes in sorted(every, key=len, reverse=True)]


def _kinds(points: Sequence[Point]) -> list[str]:
    # those of which nothing is known, as where each point failed, are last
    known = {point.kind for point in points if bandwidths(point)[1]}
    return sorted(dict.fromkeys(point.kind for point in points), key=lambda kind: kind not in known)


def _ceilings(answer: str, sweep: StrategyResult, notes: Sequence[str], is_simulated: bool) -> None:
    with st.container(key="answer"):
        st.subheader(plain(answer), anchor=False)
        draw_figures(ceiling_figures(sweep.ceilings))
        badges = st.container(horizontal=True, gap="small")
        with badges:
            if is_simulated:
                style.evidence("Simulated")
            if notes:
                cards.how_sure(badges).markdown(
                    "\n".join(f"- :small[{plain(capital(note))}.]" for note in notes)
                )
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
    if not experiment.what.has_formula:
        with st.container(key="answer"):
            st.html(glimpse.html(experiment, large=True))
            st.subheader(plain(CEILINGS), anchor=False)
        return
    if experiment.place.is_absent:
        points = on_topology(experiment, typed.wanted(experiment))
        if shown := _choose(experiment, points, None):
            card.draw(points, shown, experiment=experiment)
            _sweep(experiment, points, shown)
        return
    target, points = _on_tpus(experiment)
    known = calibration(experiment, lab().latest, lab().result)
    if experiment.place.is_simulated:
        card.draw_plan(experiment)
    elif points:
        shown = Shown(_kinds(points)[0], _groups(points)[0])
        card.draw(
            points,
            shown,
            plan_words(experiment),
            experiment=experiment,
            on=target,
            to_calibrate=None if known else experiment,
        )
        _charts(experiment, points, shown)
    else:
        st.subheader(plain(plan_words(experiment)), anchor=False)
    _offer_stored(experiment)


def _offer_stored(experiment: Experiment) -> None:
    for source, label in _STORED.items():
        for last in lab().history(
            workload=experiment.workload, state="succeeded", limit=1, source=source
        ):
            st.page_link(
                cards.page_of(last.experiment),
                label=plain(label.format(ago(last.submitted_at))),
                icon=":material/monitoring:",
                query_params=cards.query(last.experiment, last.run),
            )


def _on_tpus(experiment: Experiment, over: str | None = None) -> tuple[str, list[Point]]:
    """As many TPU chips that are not here, and what is predicted of the same collectives there: over
    these axes, or over most of them.
    """
    target = nearest_of_chips(card.CHIPS[0], experiment.device_count).target
    name = target.removeprefix("tpu:")
    try:
        tpus, _ = link.nearest(experiment.to_json(), None, target)
        points = on_topology(tpus)
    except RequestError:
        return name, []
    most = max((point.axes for point in points), key=len, default=())
    group = "+".join(most) if over is None else over
    return name, [point for point in points if "+".join(point.axes) == group]


def _choose(experiment: Experiment, points: Sequence[Point], run: str | None) -> Shown | None:
    """Draws what is shown of a sweep: a collective, its axes, and what it is compared with; None
    without points.
    """
    if not points:
        return None
    groups = _groups(points)
    # before they named how many devices
    choices.rename_tab({f"over {axes_words(each.split('+'))}": each for each in groups if each})
    with st.container(horizontal=True, vertical_alignment="bottom", key="sweep-choices"):
        kind = choices.one_of(
            "Collective", _kinds(points), choices.KIND, kind_title, 190, is_named=True
        )
        over = (
            choices.one_of(
                "Over",
                groups,
                choices.TAB,
                partial(_over_words, experiment),
                _WIDE_PX if len(groups) > _MOST_SEGMENTS else 0,
                is_named=True,
            )
            if groups[1:]
            else groups[0]
        )
        # of these axes: those of others may differ by a few bytes, and be written alike
        size = typed.choose(experiment, Shown(kind, over).of(points))
        shown, why = compared.choose(experiment, run, Shown(kind, over, size))
    if why:
        st.info(plain(why), icon=":material/compare_arrows:")
    return shown


def _over_words(experiment: Experiment, group: str) -> str:
    """Returns the axes of a group with their sizes: `over x=2 y=4`."""
    axes = [axis for axis in experiment.mesh if axis[0] in group.split("+")]
    return f"over {mesh_text(axes, ' ')}" if axes else axes_words(())


def _sweep(
    experiment: Experiment, points: Sequence[Point], shown: Shown, fits: Sequence[Fit] = ()
) -> None:
    quantity = choices.one_of("Show", chart.QUANTITIES, choices.VIEW)
    of_axes = [each for each in points if "+".join(each.axes) == shown.over]
    fitted = _fitted(shown.of(points), fits)
    _charts(experiment, of_axes, shown, quantity, len(_kinds(points)) > 1, fitted)
    with st.expander(
        f"All {len(points)} points as a table", key="points", on_change="rerun"
    ) as numbers:
        if numbers.open:
            st.dataframe(sortable(sweep_points(points, experiment.place)), hide_index=True)


def _fitted(own: Sequence[Point], fits: Sequence[Fit]) -> list[Point]:
    """Returns the points of the fitted line, where the card names one that is off it."""
    if not off_line_words(own, fits) or any(each.predicted_s for each in own):
        return []
    fit = next(fit for fit in fits if (fit.kind, fit.axes) == (own[0].kind, own[0].axes))
    times = ({"time_s": None, "predicted_s": fitted_s(each, fit)} for each in own)
    return [each.model_copy(update=time) for each, time in zip(own, times, strict=True)]


def _charts(
    experiment: Experiment,
    points: Sequence[Point],
    shown: Shown,
    quantity: str = chart.TIME,
    is_ranked: bool = False,
    fitted: Sequence[Point] = (),
) -> None:
    """Draws a chart of the kind that is shown by size, and all kinds ranked at the size shown."""
    own, beside = shown.of(points), shown.of(shown.others)
    ranges = ranges_of(points, expected_spans(experiment.place))
    other_ranges = ranges_of(beside, shown.other_spans)
    axes = tuple(shown.over.split("+"))
    span, other_span = (each.get((shown.kind, axes)) for each in (ranges, other_ranges))
    others = (beside, quantity, shown.other, shown.size)
    curve = chart.sweep_chart(own, *others, span, other_span, fitted=fitted)
    alt = chart.sweep_alt(own, quantity)
    st.vega_lite_chart(curve, key="sweep-chart", alt=alt, width="stretch")
    if is_ranked:
        why, kind = _narrow(experiment, points), shown.kind
        there = [each for each in shown.others if each.axes == axes]
        also = there, quantity, kind, shown.other, why, shown.size, ranges
        ranked = chart.rank_chart(points, *also)
        alt = chart.rank_alt(ranked)
        with placed.beside(experiment, axes):
            st.vega_lite_chart(ranked, key="sweep-ranking", alt=alt, width="stretch")


def _narrow(experiment: Experiment, points: Sequence[Point]) -> dict[str, str]:
    """Returns which links hold a collective back on a target that is not here, by its title."""
    if not experiment.place.is_absent:
        return {}
    topology, order = get_topology(experiment.place), str(experiment.option("device_order"))
    return {
        kind_title(kind): narrowed_by(topology, order, kind, experiment.mesh, axes)
        for kind, axes in {(point.kind, point.axes) for point in points}
    }


def rate_interval_words(interval: tuple[float, float]) -> str:
    """An interval of bytes per second; one without an upper bound is marked so."""
    low, high = interval
    if high >= NO_LIMIT:
        return f"{rate_words(low)} or more"
    return between(rate_words(low), rate_words(high))

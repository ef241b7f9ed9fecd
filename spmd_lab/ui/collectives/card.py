"""The card of a collective: how long it takes on a target, its rate, and how sure that is."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import Figure
from spmd_core.base import (
    RequestError,
    between,
    bytes_text,
    capital,
    mesh_text,
    seconds_text,
    span_text,
)
from spmd_core.experiment import Experiment, link
from spmd_core.machine import Topology, get_topology, nearest_of_chips
from spmd_core.results import Fit, Point
from spmd_core.roofline import (
    PUBLISHED,
    PublishedRate,
    Spans,
    calibration_of,
    is_published,
    published_spans,
    spans_of,
)
from spmd_core.terms import (
    Ranges,
    bandwidths,
    counted,
    kind_title,
    listed,
    off_line_words,
    ranges_of,
    rate_words,
    share_text,
    span_at,
    sweep_words,
)
from spmd_core.time import mesh_collective_s, nominal_links
from spmd_core.workloads import COLLECTIVES, chosen_axes, chosen_kinds
from spmd_lab.ui import cards, choices, state
from spmd_lab.ui.collectives import moved
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.shell import draw_figures

CHIPS = ("v5e", "v5p", "v6e", "tpu7x")  # what is predicted on, first
RESTS_ON = (
    "Nothing was measured. The time rests on the links' rate in the data sheet, of which 90% are "
    "expected; 1 µs a hop and 2 µs to start."
)
ON_GPUS = (
    "Nothing was measured. The time rests on the links' rates in the data sheet, as NCCL uses them."
)


_NONE_PUBLISHED = "no published run of this kind"
_LATENCY_BOUND = "latency-bound, and published runs are of more bytes"


@dataclass(frozen=True, slots=True)
class Shown:
    """The collective of a sweep that is shown, over axes that are joined by +; its bytes per device,
    0 for the most; beside what, or beside what it is offered.
    """

    kind: str
    over: str
    size: int = 0
    other: str = ""
    others: Sequence[Point] = ()
    other_spans: Spans = field(default_factory=dict)  # their ranges, in times as long
    rival: str = ""  # what is offered to be held beside it

    def of(self, points: Iterable[Point]) -> list[Point]:
        """Returns its points."""
        return [
            each for each in points if (each.kind, "+".join(each.axes)) == (self.kind, self.over)
        ]

    def at_size(self, points: Iterable[Point]) -> Point | None:
        """Returns its point of that size, else of the largest; None where none has a time."""
        return max(
            counted(self.of(points)),
            key=lambda each: (each.bytes == self.size, each.bytes),
            default=None,
        )


def draw(
    points: Sequence[Point],
    shown: Shown,
    *notes: str,
    experiment: Experiment,
    fits: Sequence[Fit] = (),
    on: str = "",
    to_calibrate: Experiment | None = None,
) -> None:
    """The card of the collective that is shown, on its target or `on` another: its time and bandwidth
    at the size that is shown; its picture; links to the `experiment` on other
    chips, and one that measures the ceilings `to_calibrate`.
    """
    own, place, point = shown.of(points), experiment.place, shown.at_size(points)
    is_predicted = all(each.time_s is None for each in own)
    evidence = "Predicted" if is_predicted else "Simulated" * place.is_simulated
    where = on or place.text.removeprefix("tpu:").removeprefix("gpu:")
    topology = get_topology(f"tpu:{on}" if on else place) if on or place.is_absent else None
    with st.container(key="answer"):
        left, right = st.columns([3, 2], vertical_alignment="center")
        with left:
            there = "this machine" if where == "local" else where
            title = _asked(point, there, experiment) if point else sweep_words(own)[0]
            badges = cards.headline(plain(title), evidence)
            if point:
                ranges = ranges_of(points, spans_of(topology)) if topology else {}
                figures = _figures(point, topology, None if on else experiment, ranges)
                draw_figures(figures, _beside(point, shown, ranges))
            if topology and point and is_predicted:
                _sure(badges, topology, point.kind)
            _caption(*notes, off_line_words(own, fits))
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                offers(experiment, on, to_calibrate)
                if shown.rival:
                    _compare(shown.rival)
        if own:
            with right:
                devices = max(each.devices for each in own)
                moved.show(shown.kind, devices, max(1, experiment.device_count // devices))


def draw_plan(experiment: Experiment) -> None:
    """Draws what would be measured on simulated devices, beside the picture of its first collective,
    with links to chips that are not here.
    """
    with st.container(key="answer"):
        left, right = st.columns([3, 2], vertical_alignment="center")
        with left:
            cards.headline(plain(moved.plan_words(experiment)), "Simulated")
            if seconds := cards.usually_takes_s(experiment, moved.points_of):
                st.caption(plain(f"{capital(cards.roughly(seconds))}, as the last such run took."))
            with st.container(horizontal=True, gap="small"):
                offers(experiment, "", None, is_next=False)
        with right:
            options, sizes = dict(experiment.options), dict(experiment.mesh)
            groups = chosen_axes(options, experiment.mesh)
            devices = max((prod(map(sizes.__getitem__, axes)) for axes in groups), default=1)
            moved.show(chosen_kinds(options)[0], devices, experiment.device_count // devices)


def offer_one(experiment: Experiment) -> None:
    """Draws a button that leaves the first of several collectives to measure on simulated devices."""
    options = dict(experiment.options)
    kind, *others = chosen_kinds(options) if experiment.what.has_formula else ("",)
    if others and experiment.place.is_simulated:
        alone = experiment.vary(options=options | {"kinds": kind})
        st.button(
            plain(f"Only {kind}, 1 of {1 + len(others)}"),
            key="only-kind",
            on_click=state.replace_draft,
            args=("collectives", state.draft("collectives") | {"options": dict(alone.options)}),
        )


def _caption(*sentences: str) -> None:
    if words := " ".join(map(as_sentence, filter(None, sentences))):
        st.caption(plain(words))


def _figures(
    point: Point, topology: Topology | None, experiment: Experiment | None, ranges: Ranges
) -> Iterator[Figure]:
    """Yields how long a point takes, and its bus bandwidth, with its share of what the links of an
    absent target have by their data sheet.
    """
    span = span_at(point, ranges)
    known = seconds_text(_seconds(point))
    of = "median" * bool(point.time_s)
    if span:
        more = f"up to {span[1]:.2f}× in" if span[1] >= 1.005 else "as in"
        of = f"{known} predicted, {more} {_published_on(point.kind)}"
    elif topology and not point.time_s and is_published(topology):
        is_small = point.kind in published_spans()
        of = f"no range: {_LATENCY_BOUND if is_small else _NONE_PUBLISHED}"
    elif topology and not point.time_s:
        of = "no range: none of the published times here is of such links"
    yield Figure("Time", _span(point, span) or known, of)
    slowest, rate, of = span[1] if span else 1.0, bandwidths(point)[1], "over all links of a device"
    if topology and experiment and point.predicted_s and point.kind in COLLECTIVES:
        asked = str(experiment.option("device_order")), point.kind, experiment.mesh, point.axes
        share = mesh_collective_s(topology, *asked, point.bytes, nominal=True) / point.predicted_s
        most = rate / share if rate and share else None
        of = f"{between(_percent(share / slowest), _percent(share))} of {rate_words(most)} by the data sheet"
        if most and (links := nominal_links(topology, *asked)):
            name, link_rate = links
            of += f", {_percent(link_rate / most)} of it over {name} at {rate_words(link_rate)}"
    rates = (rate_words(rate and rate / each) for each in (slowest, 1.0))
    yield Figure("Bus bandwidth", between(*rates), of)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else share_text(share)


def _seconds(point: Point) -> float:
    return point.time_s or point.predicted_s or 0.0


def _span(point: Point, span: tuple[float, float] | None) -> str:
    return span_text(*(each * _seconds(point) for each in span)) if span else ""


def _beside(point: Point, shown: Shown, ranges: Ranges) -> Iterator[Figure]:
    """Yields how long the same size takes elsewhere, where that is known: the low end of its range
    against the low end here, and the high end against the high end.
    """
    own = span_at(point, ranges) or (1.0, 1.0)
    there_ranges = ranges_of(shown.others, shown.other_spans)
    for each in shown.of(shown.others):
        if each.bytes == point.bytes and (seconds := _seconds(each)):
            span = span_at(each, there_ranges)
            ends = zip(span or (1.0, 1.0), own, strict=True)
            ratios = sorted(seconds * there / (_seconds(point) * here) for there, here in ends)
            known = _span(each, span) or seconds_text(seconds)
            yield Figure(f"On {shown.other}", known, _times_words(ratios[0], ratios[-1]))


def _times_words(low: float, high: float) -> str:
    """Returns how much faster or slower it is elsewhere, by the ratios of times there to those here.

    >>> _times_words(0.35, 0.35), _times_words(1.5, 2.0), _times_words(0.8, 1.25)
    ('2.86× faster', '1.50 to 2.00× slower', '0.80 to 1.25× as long')
    """
    ends, words = (low, high), "as long"
    if high < 1:
        ends, words = (1 / high, 1 / low), "faster"
    elif low > 1:
        words = "slower"
    times = between(*(f"{each:.2f} ×" if each < 10 else f"{each:.0f} ×" for each in ends))
    return f"{times.replace(' ×', '×')} {words}"


def _published_on(kind: str) -> str:
    """Returns which published runs a range of a kind is of, and the size of a single one."""
    runs = [each for each in PUBLISHED if each.kind == kind]
    chips = dict.fromkeys(get_topology(each.target).chip.generation for each in runs)
    sizes = sorted(size for each in runs for size, _ in each.rates)
    run = f"a published run on {listed([*chips])}"
    return f"{run} of {bytes_text(sizes[0])}" if sizes[0] == sizes[-1] else f"{run}, at such sizes"


def _sure(badges: DeltaGenerator, topology: Topology, kind: str) -> None:
    lines = [ON_GPUS if topology.chip.is_gpu else RESTS_ON]
    if is_published(topology):
        if kind not in published_spans():
            lines.append(f"There is {_NONE_PUBLISHED}, and no range.")
        lines.append("How many times as long as predicted published collectives took:")
        lines += map(_published_words, PUBLISHED)
    with cards.how_sure(badges):
        st.markdown("\n".join(f"- :small[{plain(line)}]" for line in lines))


def _published_words(each: PublishedRate) -> str:
    where = f"{kind_title(each.kind)} among {each.devices} on {each.target.removeprefix('tpu:')}"
    ratios = ", ".join(f"{ratio:.2f} at {bytes_text(size)}" for size, ratio in each.ratios())
    return f"{where}: {ratios}."


def _asked(point: Point, where: str, experiment: Experiment) -> str:
    """Returns what a point is of, as the head of its figures: its axes where the mesh has others."""
    axes = [(name, size) for name, size in experiment.mesh if name in point.axes]
    is_of_all = point.devices == experiment.device_count
    over = "" if is_of_all or not axes else f" over {mesh_text(axes, ' ')}"
    return f"{kind_title(point.kind)} of {bytes_text(point.bytes)}{over} on {where}"


def elsewhere(experiment: Experiment) -> Iterator[tuple[str, Experiment]]:
    """Yields TPUs that are not here, of as many chips of another generation, and the same there."""
    place = experiment.place
    own = get_topology(place).chip.generation if place.is_absent else ""
    for kind in CHIPS:
        topology = nearest_of_chips(kind, experiment.device_count)
        with suppress(RequestError):
            if kind != own:
                yield topology.name, link.nearest(experiment.to_json(), None, topology.target)[0]


def offers(
    experiment: Experiment, on: str, to_calibrate: Experiment | None, is_next: bool = True
) -> None:
    """Links to a calibration, and, where the answer is not of this machine, to the same collectives
    on chips that are not here, of which the first may be the next step.
    """
    is_elsewhere = experiment.place.is_simulated or bool(on)
    for at, (name, there) in enumerate(elsewhere(experiment) if is_elsewhere else ()):
        st.container(
            key=f"{'main' if is_next and not at else 'side'}-link-on-{at}", width="content"
        ).page_link(
            cards.page_of(there),
            label=plain(f"Predict on {name}"),
            query_params=cards.query(there),
        )
    if to_calibrate:
        _offer_calibration(to_calibrate)


def _compare(rival: str) -> None:
    st.button(
        f"Compare with {plain(rival)}",
        icon=":material/compare_arrows:",
        key="compare-rival",
        on_click=st.session_state.update,
        args=({state.key("collectives", choices.BESIDE): rival},),
    )


def _offer_calibration(experiment: Experiment) -> None:
    asked = calibration_of(experiment)
    st.container(key="side-link-calibrate", width="content").page_link(
        cards.page_of(asked),
        label="Measure this machine's ceilings",
        icon=":material/speed:",
        query_params=cards.query(asked),
        help="To predict each point beside what is measured.",
    )

"""The card of a collective: how long it takes on a target, its rate, and how sure that is."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import streamlit as st

from spmd_core.answers import Figure
from spmd_core.base import RequestError, about_bytes, bytes_text, seconds_text, span_text
from spmd_core.experiment import Experiment, link
from spmd_core.machine import Topology, get_topology, nearest_of_chips
from spmd_core.results import Fit, Point
from spmd_core.roofline import PUBLISHED, PublishedRate, calibration_of, published_span
from spmd_core.terms import (
    axes_words,
    bandwidths,
    counted,
    half_points,
    kind_title,
    off_line_words,
    rate_words,
    sweep_words,
)
from spmd_core.time import mesh_collective_s
from spmd_core.workloads import COLLECTIVES
from spmd_lab.ui import cards
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


@dataclass(frozen=True, slots=True)
class Shown:
    """The collective of a sweep that is shown, over axes that are joined by +; beside what."""

    kind: str
    over: str
    other: str = ""
    others: Sequence[Point] = ()

    def of(self, points: Iterable[Point]) -> list[Point]:
        """Returns its points."""
        return [
            each for each in points if (each.kind, "+".join(each.axes)) == (self.kind, self.over)
        ]


def draw(
    points: Sequence[Point],
    shown: Shown,
    *notes: str,
    experiment: Experiment,
    fits: Sequence[Fit] = (),
    on: str = "",
    to_calibrate: Experiment | None = None,
) -> None:
    """The card of the collective that is shown, on its target or `on` another: its time at the largest
    size and its highest bandwidth; its picture; links to the `experiment` on other
    chips, and one that measures the ceilings `to_calibrate`.
    """
    own, place = shown.of(points), experiment.place
    is_predicted = all(each.time_s is None for each in own)
    evidence = "Predicted" if is_predicted else "Simulated" * place.is_simulated
    where = on or place.text.removeprefix("tpu:").removeprefix("gpu:")
    topology = get_topology(f"tpu:{on}" if on else place) if on or place.is_absent else None
    with st.container(key="answer"):
        left, right = st.columns([3, 2], vertical_alignment="center")
        with left:
            there = "this machine" if where == "local" else where
            figures = tuple(_figures(own, topology, None if on else experiment))
            title = _taken(own, there, topology) if figures else sweep_words(own)[0]
            cards.headline(plain(title), evidence)
            draw_figures((*figures, *_beside(own, shown)) if figures else ())
            sentences = filter(None, (*notes, off_line_words(own, fits)))
            if words := " ".join(map(as_sentence, sentences)):
                st.caption(plain(words))
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                offers(experiment, on, to_calibrate)
                if topology and figures and is_predicted:
                    _sure(topology)
        if own:
            with right:
                moved.show(shown.kind, max(point.devices for point in points))


def _figures(
    points: Sequence[Point], topology: Topology | None, experiment: Experiment | None
) -> Iterator[Figure]:
    """Yields how long the largest size takes, the highest bus bandwidth, with its share of what the
    links of an absent target have by their data sheet, and below which size latency takes most;
    nothing where no point has a time.
    """
    timed = counted(points)
    if not timed:
        return
    largest = max(timed, key=lambda each: each.bytes)
    top = max(timed, key=lambda each: bandwidths(each)[1] or 0.0)
    seconds = largest.time_s or largest.predicted_s or 0.0
    over = f"over {axes_words(largest.axes)}"
    if span := _span(largest, topology):
        over = f"{span} {over}"
    yield Figure(f"{bytes_text(largest.bytes)} per device", seconds_text(seconds), over)
    at = "" if top is largest else f", at {bytes_text(top.bytes)}"
    of = "over all links of a device"
    if topology and experiment and top.predicted_s and top.kind in COLLECTIVES:
        asked = str(experiment.option("device_order")), top.kind, experiment.mesh, top.axes
        bound_s = mesh_collective_s(topology, *asked, top.bytes, nominal=True)
        of = f"{bound_s / top.predicted_s:.0%} of the links' peak"
    yield Figure("Bus bandwidth", rate_words(bandwidths(top)[1]), f"{of}{at}")
    if half := half_points(timed):
        yield Figure("Latency-bound below", about_bytes(half[0].bytes), "half the bandwidth there")


def _is_published(topology: Topology) -> bool:
    """Returns True if rates of such links were published: those of a TPU slice."""
    return not topology.chip.is_gpu and topology.slices == 1


def _span(largest: Point, topology: Topology | None) -> str:
    """Returns the range of a predicted time, by what was published of such links; "" for none."""
    if largest.time_s or not topology or not _is_published(topology):
        return ""
    low, high = (each * (largest.predicted_s or 0.0) for each in published_span())
    return span_text(min(largest.predicted_s or low, low), high)


def _beside(points: Sequence[Point], shown: Shown) -> Iterator[Figure]:
    """Yields how long the largest size takes elsewhere, where that is known."""
    largest = max(counted(points), key=lambda each: each.bytes)
    same = [
        seconds
        for each in shown.of(shown.others)
        if each.bytes == largest.bytes and (seconds := each.time_s or each.predicted_s)
    ]
    own = largest.time_s or largest.predicted_s
    if same and own:
        times = f"{same[0] / own:.2f} × as long"
        yield Figure(f"On {shown.other}", seconds_text(same[0]), times)


def _sure(topology: Topology) -> None:
    lines = [ON_GPUS if topology.chip.is_gpu else RESTS_ON]
    if _is_published(topology):
        low, high = published_span()
        lines.append(
            f"Published collectives took {low:.2f} to {high:.2f} times as long as predicted:"
        )
        lines += map(_published_words, PUBLISHED)
    with st.popover("How sure?", type="tertiary", key="how-sure"):
        st.markdown("\n".join(f"- :small[{plain(line)}]" for line in lines))


def _published_words(each: PublishedRate) -> str:
    where = f"{kind_title(each.kind)} among {each.devices} on {each.target.removeprefix('tpu:')}"
    ratios = ", ".join(f"{ratio:.2f} at {bytes_text(size)}" for size, ratio in each.ratios())
    return f"{where}: {ratios}."


def _taken(points: Sequence[Point], where: str, topology: Topology | None) -> str:
    """Returns how long the largest size takes on a target, as a sentence."""
    largest = max(counted(points), key=lambda each: each.bytes)
    kind, size = largest.kind, bytes_text(largest.bytes)
    name = f"{'An' if kind[0] == 'a' else 'A'} {kind} of {size}"
    time = _span(largest, topology) or seconds_text(largest.time_s or largest.predicted_s)
    taken = f"takes {time} on {where}"
    if kind not in COLLECTIVES:
        name, taken = size, f"{taken}, {kind_title(kind).lower()}"
    return f"{name} {taken}."


def elsewhere(experiment: Experiment) -> Iterator[tuple[str, Experiment]]:
    """Yields TPUs that are not here, of as many chips of another generation, and the same there."""
    place = experiment.place
    own = get_topology(place).chip.generation if place.is_absent else ""
    for kind in CHIPS:
        topology = nearest_of_chips(kind, experiment.device_count)
        with suppress(RequestError):
            if kind != own:
                yield topology.name, link.nearest(experiment.to_json(), None, topology.target)[0]


def offers(experiment: Experiment, on: str, to_calibrate: Experiment | None) -> None:
    """Links to a calibration, and, where the answer is not of this machine, to the same collectives
    on chips that are not here: the first is the next step.
    """
    is_elsewhere = experiment.place.is_simulated or bool(on)
    for at, (name, there) in enumerate(elsewhere(experiment) if is_elsewhere else ()):
        st.container(key=f"{'side' if at else 'main'}-link-on-{at}", width="content").page_link(
            cards.page_of(there),
            label=plain(f"Predict on {name}"),
            query_params=cards.query(there),
        )
    if to_calibrate:
        _offer_calibration(to_calibrate)


def _offer_calibration(experiment: Experiment) -> None:
    asked = calibration_of(experiment)
    st.container(key="side-link-calibrate", width="content").page_link(
        cards.page_of(asked),
        label="Measure this machine's ceilings",
        icon=":material/speed:",
        query_params=cards.query(asked),
        help="To predict each point beside what is measured.",
    )

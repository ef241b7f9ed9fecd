"""The numbers of a layout, and the result of placing a real array: whether the devices hold what
the picture shows, and how long it took.
"""

from contextlib import suppress

import streamlit as st

from spmd_core.base import (
    RequestError,
    bytes_text,
    capital,
    change_text,
    numbered,
    seconds_text,
    span_text,
)
from spmd_core.experiment import (
    Experiment,
    Layout,
    layout_of,
    parse_experiment,
    shape_text,
    sharded_further,
    spec_code,
)
from spmd_core.fields import Spec, axes_json
from spmd_core.results import ArrayReport, StrategyResult
from spmd_core.runs import RunStatus
from spmd_core.terms import ago, environment_words, layout_headline
from spmd_lab.ui import cards, style
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_figure, failure, refusal

_ON_A_LINE = 3  # dims of a shape that a narrow column has room for


def headline(placed: Layout, dtype: str, kind: str) -> None:
    """What each device holds in memory of a kind, without the bytes, which the figure below has. A
    shape of few dims stays on a line.
    """
    held, total = bytes_text(placed.shard_bytes(dtype)), bytes_text(placed.array_bytes(dtype))
    words = layout_headline(placed, dtype).replace(f": {held} of {total}", "")
    if kind != "device":
        words = words.replace("each hold", f"each hold in {kind}")
    if len(placed.shape) <= _ON_A_LINE:
        words = words.replace(" × ", "\u00a0×\u00a0").replace(" of ", " of\u00a0")
    st.subheader(plain(words), anchor=False)


def numbers(
    placed: Layout, experiment: Experiment, is_placed: bool, is_current: bool = True
) -> None:
    """Bytes of the array on each device, and on all; the spec that shards what is replicated, as
    the main thing to press once the array `is_placed`. Nothing to press unless it `is_current`: the
    fields have another array.
    """
    dtype, on_host = experiment.dtype, experiment.memory_kind("array") != "device"
    if on_host:
        st.html(glimpse.html(experiment, large=True))
    where = "on the host for each device" if on_host else "on each device"
    held = f"{where}, {bytes_text(placed.held_bytes(dtype))} on all"
    if placed.held_bytes(dtype) > placed.array_bytes(dtype):
        held += f" for an array of {bytes_text(placed.array_bytes(dtype))}"
    draw_figure(bytes_text(placed.shard_bytes(dtype)), held)
    st.code(spec_code(placed.spec), language="python", wrap_lines=True)
    if not is_current:
        return
    rank = "main" if is_placed else "side"
    copy = streamed(experiment, placed) if on_host else None
    if copy:
        st.container(key=f"{rank}-link-stream", width="content").page_link(
            cards.page_of(copy),
            label="**Stream it: time the copy from host to device**",
            icon=":material/arrow_forward:",
            query_params=cards.query(copy),
        )
    if spec := sharded_further(placed):
        _offer(experiment, placed, spec, "side" if copy else rank)


def _offer(experiment: Experiment, placed: Layout, spec: Spec, rank: str) -> None:
    sharding = {f"d{dim}": axes_json(axes) for dim, axes in enumerate(spec) if axes}
    tried = parse_experiment(experiment.to_json() | {"sharding": sharding, "overrides": {}})
    dtype = experiment.dtype
    held = change_text(*(bytes_text(of.shard_bytes(dtype)) for of in (placed, layout_of(tried))))
    changed = [dim for dim, axes in enumerate(spec) if axes != placed.spec[dim]]
    over = " and ".join(f"{placed.dim_name(dim)} over {', '.join(spec[dim])}" for dim in changed)
    st.container(key=f"{rank}-link-further", width="content").page_link(
        cards.page_of(tried),
        label=f"**{plain(f'Shard {over}: {held}')}**",
        icon=":material/arrow_forward:",
        query_params=cards.query(tried),
    )


def streamed(experiment: Experiment, placed: Layout) -> Experiment | None:
    """Returns the copy of an array from host to device memory, sharded over the same axes; None
    where its bytes do not divide.
    """
    with suppress(RequestError):
        return parse_experiment(
            {
                "workload": "transfer",
                "target": experiment.target,
                "mesh": dict(experiment.mesh),
                "dims": {"bytes": placed.array_bytes(experiment.dtype)},
                "sharding": {"bytes": [axis for axes in experiment.spec("array") for axis in axes]},
            }
        )
    return None


def outcome(expected: Layout, status: RunStatus) -> None:
    """Draw what a finished run placed, against the layout of the picture."""
    result = lab().result(status.run)
    placed = result.strategies.get("place") if result else None
    if result is None or placed is None:
        return
    if placed.error is not None:
        failure("Placing failed.", placed.error.message)
        return
    badges = st.container(horizontal=True, gap="small")
    with badges:
        if "array" in placed.outputs:
            _comparison(expected, placed, is_timed=not result.environment.simulated)
        if result.environment.simulated:
            style.evidence("Simulated")
        with cards.how_sure(badges):
            if placed.ci95_s:
                count = numbered(len(placed.samples_s), "sample")
                between = span_text(*placed.ci95_s)
                st.markdown(plain(f"Median of {count}, 95% interval {between}."))
            when = ago(status.finished_at or status.submitted_at)
            st.markdown(plain(f"{environment_words(result.environment)} · finished {when}"))
            for note in dict.fromkeys((*placed.notes, *result.notes, *result.environment.notes)):
                st.markdown(plain(capital(note)))
            st.caption(plain(f"run {result.run}"))


def _comparison(expected: Layout, placed: StrategyResult, *, is_timed: bool) -> None:
    report = placed.outputs["array"]
    wrong = difference(expected, report)
    if wrong:
        refusal(f"The real array is placed differently: {wrong}. Please report this.")
        return
    took = f" in {seconds_text(placed.median_s)}" if is_timed and placed.median_s else ""
    where = f"each of {expected.device_count} devices holds its shard as drawn"
    how = "" if report.shards is not None else ", by the array's spec"
    memory = "" if report.memory == "device" else f" in {report.memory} memory"
    done = plain(f"Placed{memory}{took}:")
    st.markdown(f":green[:material/check: **{done}**] {plain(where + how)}.")


def difference(layout: Layout, report: ArrayReport) -> str | None:
    """How the placement that JAX reports for an array differs from the layout, in a sentence; None
    if they agree.

    Compared shard by shard where the report lists them (up to 64 devices), else by shape and spec,
    which decide the shards.
    """
    if report.shape != layout.shape:
        return (
            f"the array has shape {shape_text(report.shape)}, the layout {shape_text(layout.shape)}"
        )
    if report.shards is None:
        actual, expected = list(report.spec or ()), [axes_json(axes) for axes in layout.spec]
        return (
            None
            if [list(axes) if isinstance(axes, tuple) else axes for axes in actual] == expected
            else (f"the array is sharded by {actual}, the layout by {expected}")
        )
    reported = {shard.at: [list(bounds) for bounds in shard.index] for shard in report.shards}
    numbers = layout.numbers
    for position, ranges in enumerate(layout.ranges()):
        if reported.get(position) != ranges:
            return (
                f"device {numbers[position]} holds {reported.get(position, 'nothing')}, the "
                f"layout says {ranges}"
            )
    return (
        None
        if len(reported) == layout.device_count
        else f"{len(reported)} devices hold shards, the layout has {layout.device_count}"
    )

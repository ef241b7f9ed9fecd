"""The numbers of a layout, and the result of placing a real array: whether the devices hold what
the picture shows, and how long it took.
"""

from contextlib import suppress

import streamlit as st

from spmd_core.base import RequestError, bytes_text, capital, count_text, seconds_text
from spmd_core.experiment import Experiment, Layout, parse_experiment
from spmd_core.results import StrategyResult, difference
from spmd_core.runs import RunStatus
from spmd_core.words import ago, environment_words
from spmd_lab.ui import cards, style
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import code, plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.shell import failure, refusal
from spmd_lab.ui.tables import sheet


def numbers(placed: Layout, experiment: Experiment) -> None:
    """Bytes of the array on each device and on all, and how often each shard is held."""
    dtype, on_host = experiment.dtype, experiment.memory_kind("array") != "device"
    if on_host:
        st.html(glimpse.html(experiment, large=True))
    with st.container(horizontal=True):
        of_each = "On the host, for each device" if on_host else "On each device"
        st.metric(of_each, bytes_text(placed.shard_bytes(dtype)))
        st.metric(
            "For all devices" if on_host else "On all devices", bytes_text(placed.held_bytes(dtype))
        )
        st.metric(
            "Replication",
            f"{count_text(placed.replication)}×",
            help="How many devices hold each shard.",
        )
    st.caption(
        f"{plain(dtype)} in {code(experiment.memory_kind('array'))} memory. The array, counted "
        f"once, is {bytes_text(placed.array_bytes(dtype))}."
    )

    if on_host and (copy := streamed(experiment, placed)):
        st.page_link(
            cards.page_of(copy),
            label="Stream it: time the copy from host to device",
            icon=":material/arrow_forward:",
            query_params=cards.query(copy),
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
    if "array" in placed.outputs:
        _comparison(expected, placed)
    if result.environment.simulated:
        style.evidence("Simulated")
    with st.popover("How sure?", type="tertiary", key="how-sure"):
        when = ago(status.finished_at or status.submitted_at)
        st.markdown(plain(f"{environment_words(result.environment)} · finished {when}"))
        for note in dict.fromkeys((*placed.notes, *result.notes, *result.environment.notes)):
            st.markdown(plain(capital(note)))
        st.caption(plain(f"run {result.run}"))
    _held(placed)
    labels.draw(status.run)


def _comparison(expected: Layout, placed: StrategyResult) -> None:
    report = placed.outputs["array"]
    wrong = difference(expected, report)
    if wrong:
        refusal(f"The real array is placed differently: {wrong}. Please report this.")
        return
    where = f"all {expected.device_count} shards are where the picture says"
    how = "" if report.shards is not None else ", by the array's spec"
    sentence = f"Placed in {report.memory} memory: {where}{how}."
    st.success(plain(sentence), icon=":material/check_circle:")
    if placed.median_s is not None:
        interval = (
            f", 95 % interval {seconds_text(placed.ci95_s[0])} to {seconds_text(placed.ci95_s[1])}"
            if placed.ci95_s
            else ""
        )
        st.markdown(
            plain(
                f"Placing takes {seconds_text(placed.median_s)} (median of "
                f"{len(placed.samples_s)} samples{interval})."
            )
        )


def _held(placed: StrategyResult) -> None:
    report = placed.outputs.get("array")
    if report is not None and report.shards is not None:
        with st.expander("What the devices hold", key="held", on_change="rerun") as held:
            if held.open:
                st.dataframe(
                    sheet(
                        {
                            "device": [shard.device for shard in report.shards],
                            "holds": [
                                ", ".join(f"{start}:{stop}" for start, stop in shard.index)
                                for shard in report.shards
                            ],
                        }
                    ),
                    hide_index=True,
                )

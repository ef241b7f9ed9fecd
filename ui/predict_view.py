"""What the Predict screen shows of a plan and of its prediction."""

import streamlit as st

from spmd_core.plan import Plan
from spmd_core.predicting import before_compiling
from spmd_core.prediction import Prediction
from spmd_core.settings import default_data_folder
from spmd_core.units import bytes_text, count_text, seconds_text
from spmd_core.worker.predictions import Job, Predictions, predictions
from ui import predict_charts, state
from ui.shell import refusal
from ui.words import plain

INTERVAL_S = 1.0


def queue() -> Predictions:
    """The queue of this data folder."""
    return predictions(default_data_folder())


def topology_card(plan: Plan) -> None:
    """The topology as the torus that it is, what its chips can do, and what the sizes alone say of the memory."""
    topology, chip = plan.topology, plan.topology.chip
    left, right = st.columns([3, 2])
    with left:
        closed = [name for name, wraps in zip("xyz", topology.wraps, strict=False) if wraps]
        alt = f"{topology.name}: {count_text(topology.chips)} chips, rings along {', '.join(closed) or 'no axis'}"
        st.vega_lite_chart(predict_charts.torus_chart(topology), alt=alt, key="torus")
        st.caption(plain(alt + (f"; {topology.shape[2]} layers, up to 4 of them drawn" if len(topology.shape) > 2 else "")))
    with right:
        said = before_compiling(plan)
        verdict = "Fits" if said["fits"] else "Does not fit"
        sizes = f"{bytes_text(said['peak'])} of {bytes_text(chip.device_hbm_bytes)} per device"
        st.metric("By its sizes, before compiling", verdict, sizes, delta_color="off", delta_arrow="off")
        st.caption(plain("; ".join(f"{name} {bytes_text(size)}" for name, size in said["parts"].items())))
        st.caption(plain(f"{chip.title}: {chip.peak_flops / 1e12:.0f} TFLOP/s in bfloat16, HBM {chip.hbm_bandwidth / 1e12:.2f} TB/s, "
                         f"links {chip.link_bandwidth / 1e9:.0f} GB/s each way"))


@st.fragment(run_every=INTERVAL_S)
def watch(plan: Plan) -> None:
    """The compile under way, and a way to cancel it."""
    job = queue().find(plan)
    if job is None or job.is_over:
        st.rerun()
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="live"):
        st.markdown(f"**{'Compiling' if job.started_at else 'Waiting for another compile'}** · {job.elapsed_s:.0f} s", width="stretch")
        if st.button("Cancel", key="predict:cancel", icon=":material/stop_circle:"):
            queue().cancel(plan)


def outcome(job: Job) -> None:
    """The prediction, or why there is none."""
    if job.error is not None:
        refusal(job.error)
    elif job.prediction is not None:
        show(job.plan, job.prediction)


def show(plan: Plan, found: Prediction) -> None:
    """Fits, how long, what binds, where the time goes, collectives, notes."""
    memory, time = found.memory_bytes, found.predicted_s
    columns = st.columns(4)
    over = f"{bytes_text(memory.missing)} too much" if memory.missing else f"of {bytes_text(memory.capacity)}"
    columns[0].metric("Memory per device", bytes_text(memory.peak), over, delta_color="inverse" if memory.missing else "off", delta_arrow="off")
    if time is None:
        refusal("It does not fit: use more chips, a smaller batch, another remat policy, or offload.")
    else:
        span = f"{seconds_text(time.low)} to {seconds_text(time.high)}"
        columns[1].metric("Step", seconds_text(time.estimate), span, delta_color="off", delta_arrow="off")
        columns[2].metric("MFU", f"{found.mfu:.1%}" if found.mfu else "–", f"{found.binds} binds", delta_color="off", delta_arrow="off")
        rate = f"{found.tokens_per_s_per_chip:,.0f}" if found.tokens_per_s_per_chip else "–"
        columns[3].metric("Tokens per second and chip", rate,
                          f"{found.chip_seconds:,.3g} chip-seconds a step", delta_color="off", delta_arrow="off")
        _time(found)
        _measured(time.estimate)
    for note in found.notes:
        st.info(plain(note), icon=":material/info:")
    if found.collectives:
        st.subheader("Collectives", anchor=False)
        rows = [{"collective": each.kind if each.asked is None else f"{each.asked} / {each.kind}", "axes": ", ".join(each.axes),
                 "bytes": bytes_text(each.bytes), "count": each.count, "total": seconds_text(each.seconds),
                 "exposed": seconds_text(each.exposed_s), "over": each.route, "from": each.op} for each in found.collectives]
        st.dataframe(rows, hide_index=True, key="collectives")
    if found.buffers:
        with st.expander("Buffers that matter"):
            rows = [{"array": each.shape, "bytes": bytes_text(each.bytes), "from": each.op or each.name} for each in found.buffers]
            st.dataframe(rows, hide_index=True)
    text = found.model_dump_json(indent=1)
    st.download_button("Download as JSON", text, f"prediction-{plan.id}.json", "application/json", icon=":material/download:")


def _time(found: Prediction) -> None:
    words = "; ".join(f"{name} {seconds_text(share)}" for name, share in found.shares_s.items())
    st.vega_lite_chart(predict_charts.shares_chart(found), alt=f"Where the estimate goes: {words}", key="shares")
    places = predict_charts.places(found)
    if places:
        place = st.selectbox("Timeline of", places, key="timeline-of", help="The program itself, or one iteration of a loop's body")
        st.vega_lite_chart(predict_charts.timeline_chart(found, place), alt=f"Timeline of {place}, by chip and links", key="timeline")


def _measured(estimate_s: float) -> None:
    measured = st.number_input("Your measured step time (s)", min_value=0.0, value=state.measured_s(), placeholder="not measured", format="%.6f")
    state.set_measured(measured)
    if measured:
        st.markdown(plain(f"The estimate is off by {estimate_s / measured - 1:+.1%} of what you measured."))

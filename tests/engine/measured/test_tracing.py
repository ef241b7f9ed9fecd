"""Traces of real programs, and profiles as each platform writes them."""

import jax
import pytest

from spmd_core.engine.measured import tracing
from spmd_core.facts import NoShardings, Shardings
from spmd_core.pictures import TRACED, Event, ProgramFacts, from_text, of_recorded
from spmd_core.program import NAME
from spmd_core.words.traces import unattributed_words

LAYER = {
    "workload": "layer",
    "mesh": {"x": 8},
    "sharding": {"in": "x"},
    "strategies": ["auto"],
    "dims": {"batch": 16, "in": 32, "out": 4},
    "options": {"trace": True},
}


def plane(name: str, line: str, events: list[tuple[str, int, int, dict[str, str]]]) -> str:
    """A plane of one line as a protocol buffer's text: events of (name, start and length in ns,
    stats).
    """
    stats = sorted({stat for *_, found in events for stat in found})
    names = "".join(
        f'event_metadata {{ key: {at} value {{ id: {at} name: "{event[0]}" }} }}\n'
        for at, event in enumerate(events, start=1)
    )
    names += "".join(
        f'stat_metadata {{ key: {at} value {{ id: {at} name: "{stat}" }} }}\n'
        for at, stat in enumerate(stats, start=1)
    )
    listed = "".join(
        f"events {{ metadata_id: {at} offset_ps: {start * 1000} duration_ps: {length * 1000} "
        + " ".join(
            f'stats {{ metadata_id: {stats.index(stat) + 1} str_value: "{value}" }}'
            for stat, value in found.items()
        )
        + "}\n"
        for at, (_, start, length, found) in enumerate(events, start=1)
    )
    return f'planes {{ name: "{name}" lines {{ name: "{line}" {listed} }}\n{names} }}\n'


def test_a_trace_follows_the_timing_and_says_what_each_device_did(run):
    finished = run(**LAYER)
    found = finished.result.strategies["auto"]
    assert found.status == "ok" and found.trace.reason is None
    assert [each.device for each in found.trace.devices] == list(range(8))
    assert len(found.trace.calls_s) == 3
    trace = found.trace
    assert trace.sentence.startswith("step ") and trace.notes[0].startswith("3 calls traced")
    assert {"all-reduce", "matmul"} <= {each.kind for each in found.trace.operations}
    product = next(each for each in found.trace.operations if each.kind == "matmul")
    assert product.source.startswith("layer_auto.py:") and product.op.endswith("dot_general")
    phases = [event.phase for event in run.events if event.event == "phase"]
    assert phases.index("profile") > max(at for at, each in enumerate(phases) if each == "sample")
    stored = next(
        event.texts[TRACED]
        for event in run.events
        if event.event == "texts" and TRACED in event.texts
    )
    rows = from_text(stored).scenes[0].rows
    assert [row for row in rows if "beside" not in row] == [f"device {n}" for n in range(8)]


def test_a_profiler_that_runs_already_costs_the_trace_alone(run, tmp_path):
    jax.profiler.start_trace(str(tmp_path))
    try:
        found = run(**LAYER).result.strategies["auto"]
    finally:
        jax.profiler.stop_trace()
    assert found.status == "ok" and found.median_s > 0 and found.trace.step_s is None
    assert found.trace.sentence.startswith("not traced: another profiler is recording")


def test_a_profile_without_events_says_so_and_keeps_what_was_measured(run, monkeypatch):
    monkeypatch.setattr(tracing, "read", lambda data: tracing.Recorded((), ()))
    found = run(**LAYER).result.strategies["auto"]
    assert found.status == "ok" and found.trace.devices == ()
    assert "recorded nothing, neither of the devices nor of the host" in found.trace.sentence


@pytest.mark.parametrize(
    ("device", "line", "stats", "beside"),
    [
        ("/device:TPU:3", "XLA Ops", {}, False),
        ("/device:TPU:3", "Async XLA Ops", {}, True),
        ("/device:GPU:3", "Stream #14(Compute)", {"hlo_op": "fusion.1"}, False),
    ],
)
def test_the_planes_of_a_tpu_and_of_a_gpu_are_read(device, line, stats, beside):
    text = plane(device, line, [("%fusion.1 = f32[8]{0} fusion(x)", 2000, 500, stats)])
    text += plane(
        "/host:CPU", "python", [("spmd_lab_call", 1000, 9000, {}), ("Execute", 1500, 2500, {})]
    )
    text += plane(device, "XLA Modules", [("jit_f", 2000, 600, {})])
    found = tracing.read(jax.profiler.ProfileData.from_text_proto(text))
    (event,) = found.events
    assert (event.device, event.name, event.beside) == (3, "fusion.1", beside)
    assert event.start_s == pytest.approx(2e-6) and event.length_s == pytest.approx(5e-7)
    assert found.calls[0] == pytest.approx((1e-6, 1e-5))
    assert [type(each) for each in found.host] == [Event] and found.host[0].name == "Execute"


def test_kernels_that_name_no_instruction_count_under_their_own_names():
    """As CUPTI records a command buffer: no `hlo_op`. Copies and collectives tell their kind."""
    events = [
        ("fusion.1", 2000, 500, {"hlo_op": "fusion.1"}),
        ("sm90_xmma_gemm_bf16bf16", 2500, 500, {}),
        ("MemcpyD2D", 3000, 250, {}),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3250, 750, {}),
    ]
    text = plane("/device:GPU:0", "Stream #14(Compute)", events)
    text += plane("/host:CPU", "python", [("spmd_lab_call", 1000, 9000, {})])
    found = tracing.read(jax.profiler.ProfileData.from_text_proto(text))
    assert [each.unattributed for each in found.events] == [False, True, True, True]
    _, trace = of_recorded(found, ProgramFacts(None))
    assert trace.unattributed == pytest.approx(0.75)
    kinds = {each.name.partition("_")[0]: each.kind for each in trace.operations}
    assert kinds == {
        "fusion.1": "compute",
        "sm90": "matmul",
        "MemcpyD2D": "copy",
        "ncclDevKernel": "all-gather",
    }
    assert "75% of the busy time" in unattributed_words(trace.unattributed)


def test_shardings_of_the_steps_are_read_after_the_timing_and_change_nothing(run):
    plain, found = (
        run(**LAYER | {"strategies": ["single", "auto"], "options": options})
        for options in ({}, {"shardings": True})
    )
    assert [each.collectives for each in found.result.strategies.values()] == [
        each.collectives for each in plain.result.strategies.values()
    ]
    read = {
        event.strategy: Shardings.model_validate_json(event.texts[NAME])
        for event in run.events
        if event.event == "texts" and NAME in event.texts
    }
    assert read["single"].reason == NoShardings.ONE_DEVICE
    steps = {step.name or step.operation: step for step in read["auto"].steps}
    assert steps["x"].spec == ((), ("x",)) and steps["weights"].spec == (("x",), ())
    product = steps["dot_general"]
    assert product.sums == ("x",) and product.collectives == ("all-reduce over x",)
    assert product.source.startswith("layer_auto.py:") and "jnp.matmul" in product.code
    assert steps["layer()"].spec == ((), ()) and steps["layer()"].bytes == 16 * 4 * 4

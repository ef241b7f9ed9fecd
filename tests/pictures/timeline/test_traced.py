"""What a profiler recorded, as a timeline and an account: waits, loops, overlaps, which call."""

import pytest

from spmd_core.facts import Collective
from spmd_core.pictures import (
    HOST,
    Event,
    Execution,
    ProgramFacts,
    Recorded,
    from_text,
    of_host,
    of_recorded,
    to_text,
)
from spmd_core.pictures.timeline import traced
from spmd_core.program import parse_module
from spmd_core.words import names_of, row_words
from spmd_core.words.traces import asynchronous_words, operation_words, trace_words

PROGRAM = """HloModule jit_f, num_partitions=2

%inner (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  ROOT %dot.9 = f32[8,8]{1,0} dot(%p, %p), lhs_contracting_dims={1}, metadata={DOT}
}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,8]) -> f32[8,8] {
  %x = f32[8,8]{1,0} parameter(0)
  %fusion = f32[8,8]{1,0} fusion(%x), kind=kOutput, calls=%inner
  %tanh.1 = f32[8,8]{1,0} tanh(%fusion), metadata={op_name="jit(f)/up/tanh"}
  ROOT %all-reduce = f32[8,8]{1,0} all-reduce(%tanh.1), channel_id=1, replica_groups={{0,1}}, to_apply=%add, metadata={NAME}
}
""".replace("NAME", 'op_name="jit(f)/down/dot_general"').replace(
    "DOT", 'op_name="jit(f)/up/dot_general"'
)
SUM = Collective(
    kind="all-reduce",
    axes=("x",),
    groups=((0, 1),),
    bytes=256,
    count=1,
    op="jit(f)/down/dot_general",
    source="f.py:9",
    name="all-reduce",
)
FACTS = ProgramFacts(parse_module(PROGRAM), (SUM,))


def call(begin: float = 0.0, slow: float = 1.0) -> tuple[Event, ...]:
    """Device 0 multiplies for 2 s, device 1 for 4 s; the sum takes 1 s after the later of them."""
    late = begin + 4 * slow
    return (
        Event(0, "fusion", begin, 2.0),
        Event(0, "all-reduce", begin + 2, late + 1 - begin - 2),
        Event(1, "fusion", begin, 4 * slow),
        Event(1, "all-reduce", late, 1.0),
    )


def test_a_collective_begins_when_its_last_device_comes_and_the_others_wait():
    timeline, trace = of_recorded(Recorded(call(), ((-1.0, 9.0),)), FACTS)
    first, second = trace.devices
    assert (first.compute_s, first.waits_s, first.collectives_s, first.exposed_s) == (2, 2, 1, 1)
    assert (second.compute_s, second.waits_s, second.exposed_s, second.idle_s) == (4, 0, 1, 0)
    assert (trace.step_s, trace.skew, trace.waits_s) == (5, 0.5, 1)
    assert trace_words(trace) == (
        "step 5 s: 3 s compute, 1 s collectives (1 s exposed), "
        "1 s waiting for other devices, compute differs by 50% over devices"
    )
    scene = timeline.scenes[0]
    assert scene.rows == ("device 0", "device 1") and not timeline.predicted
    wait = next(span for span in scene.spans if span.kind == "wait")
    assert (wait.row, wait.start_s, wait.length_s) == (0, 2, 2)
    assert scene.spans[wait.needs[0]].row == 1  # what the late device did until then
    names = dict(zip(names_of(scene), scene.spans, strict=True))
    assert list(names) == ["up matmul", "waits for device 1", "down all-reduce"]
    assert names["down all-reduce"].source == "f.py:9" and names["up matmul"].kind == "matmul"
    assert names["down all-reduce"].exposed == ((4.0, 5.0),)
    assert "all-reduce(tanh.1)" in names["down all-reduce"].line
    assert from_text(to_text(timeline)) == timeline


def test_of_several_calls_the_one_of_median_length_is_shown_and_all_are_counted():
    recorded = Recorded(
        call() + call(100, 3.0) + call(200, 2.0), ((0.0, 50.0), (100.0, 150.0), (200.0, 250.0))
    )
    _, trace = of_recorded(recorded, FACTS)
    assert (trace.step_s, trace.calls_s) == (9, (5, 13, 9))
    slowest = trace.operations[0]
    assert (operation_words(slowest), slowest.most_s, slowest.slowest) == ("up matmul", 8, 1)
    assert slowest.device_s == (2, 8)


def test_a_loop_counts_by_its_operations_and_what_runs_beside_has_a_row_of_its_own():
    events = (
        Event(3, "while.1", 0.0, 10.0),
        Event(3, "tanh.1", 1.0, 2.0),
        Event(3, "tanh.1", 4.0, 2.0),
        Event(3, "copy.2", 5.0, 3.0, beside=True),
        Event(3, "all-gather.7", 5.0, 4.0),
    )
    timeline, trace = of_recorded(Recorded(events, ()), FACTS)
    assert [row_words(row) for row in timeline.scenes[0].rows] == [
        "device 3",
        "device 3, beside",
        "device 3, beside 2",
    ]
    (device,) = trace.devices
    assert (device.compute_s, device.collectives_s, device.exposed_s) == (4, 4, 3)
    assert (device.copies_s, trace.skew) == (0, None)
    assert {each.name: each.count for each in trace.operations} == {
        "tanh.1": 2,
        "copy.2": 1,
        "all-gather.7": 1,
    }


def test_who_sends_late_in_a_permute_is_waited_for():
    ring = SUM.model_copy(
        update={
            "kind": "collective-permute",
            "groups": ((0, 1), (1, 2)),
            "name": "collective-permute",
        }
    )
    permute = "collective-permute(%tanh.1), source_target_pairs={{0,1},{1,2}}"
    text = PROGRAM.replace(
        PROGRAM[PROGRAM.index("all-reduce(%tanh") :].split(", metadata")[0], permute
    ).replace("%all-reduce", "%collective-permute")
    facts = ProgramFacts(parse_module(text), (ring,))
    events = tuple(
        Event(device, "collective-permute", float(start), 9.0 - start)
        for device, start in ((0, 3), (1, 1), (2, 0))
    )
    _, trace = of_recorded(Recorded(events, ()), facts)
    assert [each.waits_s for each in trace.devices] == [0, 2, 1]
    assert trace_words(trace).endswith(
        "1 s waiting for other devices, 1.33 s idle (before, between or after operations)"
    )


def test_of_many_devices_and_operations_a_bounded_part_is_kept_and_the_rest_counted(monkeypatch):
    monkeypatch.setattr(traced, "MOST_ROWS", 4)
    monkeypatch.setattr(traced, "MOST_SPANS", 6)
    monkeypatch.setattr(traced, "MOST_OPERATIONS", 1)
    events = tuple(
        event
        for device in range(9)
        for event in (
            Event(device, "tanh.1", 0.0, 1.0 + device),
            Event(device, "fusion", 20.0, 0.5),
        )
    )
    timeline, trace = of_recorded(Recorded(events, ()), FACTS)
    assert timeline.scenes[0].rows == ("device 0", "device 1", "device 7", "device 8")
    assert (len(timeline.scenes[0].spans), timeline.scenes[0].left_out) == (6, 2)
    assert (len(trace.devices), len(trace.operations), trace.other_operations) == (9, 1, 1)


def test_without_device_events_there_is_what_the_host_did():
    host = (Event(HOST, "Execute", 1.0, 5.0), Event(HOST, "Prepare", 2.0, 1.0))
    recorded = Recorded((), ((0.0, 10.0),), host)
    assert of_recorded(recorded, FACTS) is None
    shown = of_host(recorded)
    assert shown.scenes[0].rows == ("host", "host, beside") and shown.scenes[0].length_s == 5
    assert of_host(Recorded((), ())) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dot.3", "matmul"),
        ("all-gather-start.1", "all-gather"),
        ("copy.1", "copy"),
        ("loop_fusion.2.1", "compute"),
        ("collective-permute-done", "collective-permute"),
    ],
)
def test_an_instruction_of_another_program_is_told_by_its_name(name, kind):
    assert FACTS.of(name).kind == kind


def test_a_device_clock_ahead_of_the_host_loses_no_operation():
    """As on a TPU: the devices' executions tell the calls apart, not the host's clock."""
    begins = (0.0, 20.0, 40.0)
    events = tuple(event for begin in begins for event in call(begin))
    executions = tuple(
        Execution(device, "jit_f", begin, begin + 5.0) for device in (0, 1) for begin in begins
    )
    late = 7.0  # of the host's clock
    calls = tuple((begin + late, begin + late + 5.5) for begin in begins)
    _, trace = of_recorded(Recorded(events, calls, executions=executions), FACTS)
    assert trace.calls_s == (5.0, 5.0, 5.0)
    assert trace.step_s == 5.0
    assert [each.device for each in trace.devices] == [0, 1]
    by_host = of_recorded(Recorded(events, calls), FACTS)
    assert by_host is None or by_host[1].step_s != 5.0


def test_executions_of_several_programs_are_shared_among_the_calls():
    events = tuple(Event(0, "fusion", at, 0.5) for at in (0.0, 1.0, 10.0, 11.0))
    executions = tuple(
        Execution(0, name, at, at + 0.5)
        for name, at in (("jit_a", 0.0), ("jit_b", 1.0), ("jit_a", 10.0), ("jit_b", 11.0))
    )
    two = Recorded(events, ((0.0, 2.0), (10.0, 12.0)), executions=executions).split()
    assert [len(each.events) for each in two] == [2, 2]
    three = Recorded(events, ((0.0, 1.0),) * 3, executions=executions).split()
    assert [len(each.events) for each in three] == [1, 1]  # executions of one program


def test_an_asynchronous_operation_counts_once_and_over_the_devices_that_recorded_it():
    """One chip has the track beside for all four, and the start is on both of its tracks."""
    events = [Event(0, "copy-start.1", 0.5, 6.0, beside=True)]
    for device in range(4):
        events += [Event(device, "copy-start.1", 0.5, 6e-9), Event(device, "fusion", 0.0, 2.0)]
    _, trace = of_recorded(Recorded(tuple(events), ()), FACTS)
    (copy,) = [each for each in trace.operations if each.name == "copy-start.1"]
    assert (copy.count, copy.mean_s, copy.device_s) == (1, 6.0, (6.0, None, None, None))
    assert trace.asynchronous_on == 1
    assert "1 of 4 devices recorded asynchronous operations" in asynchronous_words(1, 4)


def test_on_streams_of_gpus_a_start_is_all_of_its_collective():
    """A kernel of NCCL runs from its own start until the last device has come and all is sent; on
    a TPU a start only issues what runs beside.
    """
    text = PROGRAM.replace("ROOT %all-reduce = ", "%all-reduce-start = ").replace(
        " all-reduce(", " all-reduce-start("
    )
    text = text.replace(
        "\n}\n", "\n  ROOT %done = f32[8,8]{1,0} all-reduce-done(%all-reduce-start)\n}\n"
    )
    started = SUM.model_copy(update={"name": "all-reduce-start"})
    facts = ProgramFacts(parse_module(_last_only(text)), (started,))
    for stream, waits in ((True, (2, 0)), (False, (0, 0))):
        events = (
            Event(0, "fusion", 0.0, 2.0, stream=stream),
            Event(0, "all-reduce-start", 2.0, 3.0, stream=stream),
            Event(1, "fusion", 0.0, 4.0, stream=stream),
            Event(1, "all-reduce-start", 4.0, 1.0, stream=stream),
        )
        _, trace = of_recorded(Recorded(events, ()), facts)
        assert tuple(each.waits_s for each in trace.devices) == waits
        assert {each.kind for each in trace.operations} >= {"matmul", "all-reduce"}


def _last_only(text: str) -> str:
    """The done in the entry alone."""
    done = "\n  ROOT %done = f32[8,8]{1,0} all-reduce-done(%all-reduce-start)"
    return text.replace(done, "", text.count(done) - 1)

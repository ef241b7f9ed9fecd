"""Traces a few calls of each strategy after the timing, and reads what JAX's profiler recorded."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from spmd_core.engine.hlo import read_module
from spmd_core.engine.members import alike
from spmd_core.engine.timing import block
from spmd_core.engine.trial import Trial
from spmd_core.facts import NoTrace, Trace
from spmd_core.machine import dump_folder
from spmd_core.pictures import (
    HOST,
    TRACED,
    Event,
    Execution,
    ProgramFacts,
    Recorded,
    Timeline,
    of_host,
    of_recorded,
    to_text,
)
from spmd_core.program import HloError, Module
from spmd_core.runs import Event as RunEvent, Phase, Texts

CALLS, LONG_S = 3, 2.0  # of calls that take longer, one is traced
MOST_EVENTS = 300_000  # read of one trace, about 3 s
_CALL = "spmd_lab_call"
_DEVICE = re.compile(r"/device:(?:TPU|GPU|[A-Z]+):(\d+)$")
_LINES = ("XLA Ops", "Async XLA Ops")  # of a TPU; of a GPU the streams
_STREAM, _KERNEL_NAME = "Stream", 80  # most characters of a kernel's own name
_MODULES = "XLA Modules"  # a line of a TPU, with an event for each execution
_NS = 1e-9
# Of host threads: events of the thread pools themselves, and the ends of what has begun
_NOISE = ("ThreadpoolListener", "end: ")


def trace(
    trials: Sequence[Trial],
    emit: Callable[[RunEvent], None],
    cancelled: Callable[[], bool],
    before: Callable[[], None],
) -> None:
    """Trace every strategy that was timed; `before` is called ahead of each. A trace that fails is
    its own reason: what was measured stays.
    """
    for trial in trials:
        if cancelled():
            return
        if trial.program is None or trial.failure is not None:
            continue
        before()
        emit(Phase(phase="profile", strategy=trial.key))
        try:
            trial.trace, recorded = _traced(trial)
        except Exception as error:  # whatever the profiler or the program raises under it
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            trial.trace, recorded = (
                Trace(reason=NoTrace.RUNNING if "already" in reason else reason),
                None,
            )
        if recorded is not None:
            emit(Texts(strategy=trial.key, texts={TRACED: to_text(recorded)}))


def _traced(trial: Trial) -> tuple[Trace, Timeline | None]:
    with alike():
        recorded = record(trial)
    read = of_recorded(recorded, ProgramFacts(_module(trial), trial.collectives or ()))
    if read is None:
        host = of_host(recorded)
        return Trace(reason=NoTrace.ONLY_HOST if host else NoTrace.NOTHING), host
    timeline, account = read
    return account.model_copy(update={"left_out": recorded.left_out}), timeline


def _module(trial: Trial) -> Module | None:
    if trial.compiled is None:
        return None
    try:
        return read_module(trial.compiled)
    except HloError:
        return None


def record(trial: Trial) -> Recorded:
    """A few calls of a trial's program under the profiler. RuntimeError where one runs already."""
    program = trial.program
    assert program is not None
    count = CALLS if program.fastest_s < LONG_S else 1
    with dump_folder() as folder:
        jax.profiler.start_trace(str(folder), profiler_options=_options())
        try:
            for number in range(count):
                with jax.profiler.StepTraceAnnotation(_CALL, step_num=number):
                    block(program.call(*program.arguments))
        finally:
            jax.profiler.stop_trace()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        if not files:
            return Recorded((), ())
        return read(jax.profiler.ProfileData.from_file(str(files[-1])))


def _options() -> Any:
    """Without Python's own calls, which slow the host down, and without the program itself."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with suppress(AttributeError):
        options.enable_hlo_proto = False
    return options


def read(data: Any) -> Recorded:
    """A profile as values: device events by their instruction, on all the platforms that JAX has.

    A TPU or GPU has a plane of its own; simulated devices are identified by `device_ordinal`, a
    stat of the events of the host's threads.
    """
    with warnings.catch_warnings():  # one of jaxlib's types, on Python 3.12: as an error it aborts
        warnings.simplefilter("ignore", DeprecationWarning)
        return _read(data)


def _read(data: Any) -> Recorded:
    events, calls, host, seen = list[Event](), list[tuple[float, float]](), list[Event](), 0
    executions = list[Execution]()
    for plane in data.planes:
        device = _DEVICE.match(plane.name)
        lines = list(plane.lines)
        # beside a GPU's streams, other lines repeat their events
        streams = [line for line in lines if line.name.startswith(_STREAM)]
        for line in streams if device is not None and streams else lines:
            if device is not None:
                of_line = list(_of_device(line, int(device[1])))
                seen += len(of_line)
                events += of_line
                executions += _executions(line, int(device[1]))
                continue
            own, marked, others = _of_host(line)
            seen += len(own)
            events, calls = events + own, calls + marked
            if marked:
                host = others
    kept = (
        events
        if seen <= MOST_EVENTS
        else sorted(events, key=lambda event: event.start_s)[:MOST_EVENTS]
    )
    return Recorded(
        tuple(kept), tuple(sorted(calls)), tuple(host), seen - len(kept), tuple(executions)
    )


def _executions(line: Any, device: int) -> Iterator[Execution]:
    """Executions of compiled programs, as a TPU records them; a program's name without its hash."""
    if line.name != _MODULES:
        return
    for event in line.events:
        start_s = event.start_ns * _NS
        yield Execution(
            device, event.name.partition("(")[0], start_s, start_s + event.duration_ns * _NS
        )


def _of_device(line: Any, device: int) -> Iterator[Event]:
    """Events of a TPU's lines of operations, and of a GPU's streams: there a kernel that names no
    instruction, such as those of command buffers, keeps its own name.
    """
    if line.name.startswith(_STREAM):
        for event in line.events:
            name = dict(event.stats).get("hlo_op")
            own = str(name or event.name[:_KERNEL_NAME])
            yield replace(
                _event(event, device, _instruction(own)), stream=True, unattributed=name is None
            )
    elif line.name in _LINES:
        for event in line.events:
            yield _event(event, device, _instruction(event.name), line.name.startswith("Async"))


def _of_host(line: Any) -> tuple[list[Event], list[tuple[float, float]], list[Event]]:
    """Of a host's thread: operations of simulated devices, calls that were marked, and the rest."""
    events, calls, others = list[Event](), list[tuple[float, float]](), list[Event]()
    for event in line.events:
        if event.name.startswith(_NOISE):
            continue
        if event.name == _CALL:
            calls.append((event.start_ns * _NS, (event.start_ns + event.duration_ns) * _NS))
            continue
        stats_ = dict(event.stats)
        if "hlo_op" in stats_ and "device_ordinal" in stats_:
            events.append(_event(event, int(stats_["device_ordinal"]), str(stats_["hlo_op"])))
        elif event.duration_ns > 0:
            others.append(_event(event, HOST, event.name))
    return events, calls, others


def _event(event: Any, device: int, name: str, beside: bool = False) -> Event:
    return Event(device, name, event.start_ns * _NS, event.duration_ns * _NS, beside)


def _instruction(name: str) -> str:
    """The instruction that an event names: `%fusion.1 = f32[8]{0} fusion(…)` is `fusion.1`."""
    return name.split(" = ", 1)[0].lstrip("%").strip()

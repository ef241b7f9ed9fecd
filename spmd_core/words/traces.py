"""Sentences about a traced step."""

from collections.abc import Iterator

from spmd_core.base import numbered, seconds_text
from spmd_core.facts import NoTrace, Trace, TracedOperation
from spmd_core.results import Environment, Result, StrategyResult
from spmd_core.words.timeline import operation_kind, path_words

ABOUT = (
    "One call, traced after the timing, so that the profiler slows no sample. A collective "
    "begins when the last of its devices has come to it: until then the others wait for that "
    "device. Click an operation for its instruction and its source line."
)
LABEL = "Trace a step"
SHOWS_WHEN = "Shows what each device did when. This result keeps its times."
WITHOUT_TIMES = (
    "Compile the programs again and record a few calls with JAX's profiler: what each device did "
    "when, operation by operation"
)
PREDICTED_ABOVE = "Predicted, by the cost model:"
TRACED_BELOW = "Traced on the devices:"
_KINDS = {
    "matmul": "matrix product",
    "compute": "computation",
    "copy": "copy",
    "wait": "waiting for devices",
}


def in_words(result: Result, name: str) -> Trace | None:
    """The trace of a strategy with its reason, its sentence and its notes; notes that an older
    version stored stay, since it stored nothing that they can be made of.
    """
    outcome, environment = result.strategies[name], result.environment_of(name)
    if outcome.trace is None:
        return None
    stored = outcome.trace.reason
    reason = _REASONS[stored].format(environment.platform) if stored in _REASONS else stored
    trace = outcome.trace.model_copy(update={"reason": reason})
    notes = trace.notes or tuple(_notes(trace, outcome, environment))
    return trace.model_copy(update={"sentence": trace_words(trace), "notes": notes})


def _notes(trace: Trace, outcome: StrategyResult, environment: Environment) -> Iterator[str]:
    if trace.step_s is None:
        return
    calls, median_s = len(trace.calls_s), outcome.median_s
    beside = f", where the median without it is {seconds_text(median_s)}" if median_s else ""
    yield (
        f"{numbered(calls, 'call')} traced, this one the median; with the profiler on "
        f"it takes {seconds_text(trace.step_s)}{beside}"
    )
    if len(outcome.hosts) > 1:
        own, hosts = numbered(len(trace.devices), "device"), len(outcome.hosts)
        yield f"traced on {own} of process 0, the first of {hosts} hosts; the others are not shown"
    if environment.simulated and environment.cores and len(trace.devices) > environment.cores:
        shared = numbered(environment.cores, "core")
        yield (
            f"{len(trace.devices)} simulated devices share {shared}: an operation's time includes "
            "what it waits for a core"
        )
    if trace.asynchronous_on is not None:
        yield asynchronous_words(trace.asynchronous_on, len(trace.devices))
    if trace.left_out:
        yield f"{trace.left_out:,} events were left out: trace a smaller program for all of them"
    if environment.platform == "gpu":
        yield WITHOUT_COMMAND_BUFFERS
    if trace.unattributed > LITTLE:
        yield unattributed_words(trace.unattributed)


def trace_words(trace: Trace) -> str:
    """Where a step's time went: means over the devices.

    >>> trace_words(Trace(step_s=1.2e-3, compute_s=7e-4, collectives_s=4e-4, exposed_s=3e-4,
    ...                   waits_s=0.0, skew=0.12))
    'step 1.2 ms: 700 µs compute, 400 µs collectives (300 µs exposed), compute differs by 12% over devices'
    """
    if trace.step_s is None:
        return f"not traced: {trace.reason}"
    parts = [
        f"{seconds_text(trace.compute_s)} compute",
        f"{seconds_text(trace.collectives_s)} collectives ({seconds_text(trace.exposed_s)} exposed)"
        if trace.collectives_s
        else "no collectives",
    ]
    if trace.waits_s and trace.waits_s > 0.01 * trace.step_s:
        parts.append(f"{seconds_text(trace.waits_s)} waiting for other devices")
    idle_s = sum(each.idle_s for each in trace.devices) / max(1, len(trace.devices))
    if idle_s > 0.1 * trace.step_s:
        parts.append(f"{seconds_text(idle_s)} idle (before, between or after operations)")
    if trace.skew is not None:
        parts.append(f"compute differs by {100 * trace.skew:.0f}% over devices")
    return f"step {seconds_text(trace.step_s)}: {', '.join(parts)}"


_REASONS: dict[str | None, str] = {
    NoTrace.NOTHING: "JAX's profiler recorded nothing, neither of the devices nor of the host",
    NoTrace.ONLY_HOST: "JAX's profiler recorded no operation of a device on {}; below is what the host "
    "did",
    NoTrace.RUNNING: "another profiler is recording in the worker process: end it "
    "(jax.profiler.stop_trace) or restart SPMD Lab, and run again",
    NoTrace.ENDED: "JAX's profiler ended the worker process while it recorded (on GPUs stop_trace can, "
    "jax issue 40260): what was measured before is complete",
}
LITTLE = 0.005  # of the busy time: not worth a sentence
WITHOUT_COMMAND_BUFFERS = (
    "this run was compiled without command buffers, in which a profiler loses the instructions of "
    "kernels: its times are those of a program without them"
)


def unattributed_words(share: float) -> str:
    """That kernels named no instruction.

    >>> unattributed_words(0.25)[:59]
    '25% of the busy time is in kernels that name no instruction'
    """
    return (
        f"{100 * share:.0f}% of the busy time is in kernels that name no instruction of the "
        "program: each counts as what its own name tells, under that name"
    )


def asynchronous_words(recorded: int, devices: int) -> str:
    """That only some devices recorded what runs beside their operations."""
    return (
        f"{recorded} of {devices} devices recorded asynchronous operations: their seconds, and those "
        "of communication, are means over these"
    )


def operation_words(each: TracedOperation) -> str:
    """The name of an operation: its path in the program, else the instruction's name."""
    kind = kind_words(each.kind)
    if each.kind == "wait":
        return f"waits for devices at {each.name}"
    if "/" not in each.op:
        return f"{kind} {each.name}"
    return path_words(each.op, operation_kind(each.kind, each.op), each.source)


def others_words(count: int) -> str:
    """That shorter operations are not listed."""
    return f"{numbered(count, 'shorter operation')} are not listed."


def kind_words(kind: str) -> str:
    """A kind of time in a traced step.

    >>> kind_words("matmul"), kind_words("all-gather")
    ('matrix product', 'all-gather')
    """
    return _KINDS.get(kind, kind)

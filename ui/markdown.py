"""Values to words for the screen; no Streamlit here."""

import re
import time

from spmd_core.experiment.experiment import Experiment
from spmd_core.results.environment import Environment
from spmd_core.results.result import Result
from spmd_core.results.stats import too_few
from spmd_core.runs.states import RunStatus
from spmd_core.units import bytes_text, seconds_text
from spmd_core.workloads.catalog import WORKLOADS
from spmd_core.workloads.strategies import STRATEGIES

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])")
_PHASES = {
    "trace": "tracing", "lower": "lowering", "compile": "compiling", "first_run": "running once", "warm_up": "warming up",
    "sample": "measuring", "train": "training", "check": "checking values", "write": "writing the result",
}
_STATES = {
    "queued": "Queued", "starting": "Starting", "running": "Running", "succeeded": "Succeeded", "failed": "Failed", "cancelled": "Cancelled",
    "timed_out": "Timed out", "crashed": "Crashed", "interrupted": "Interrupted",
}


def plain(text: str) -> str:
    """Text as Markdown that shows exactly it: no markup, links, maths or icons out of names that others chose.

    >>> plain("<b>x_y</b>")
    '\\\\<b\\\\>x\\\\_y\\\\</b\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def as_sentence(message: str) -> str:
    """A message that follows a sentence: with a capital where it begins with a word, and a full stop.

    >>> as_sentence("the worker died"), as_sentence("batch=30 is odd.")
    ('The worker died.', 'batch=30 is odd.')
    """
    text = message.strip()
    first = text.split(" ", 1)[0]
    text = text[0].upper() + text[1:] if first.isalpha() and first.islower() else text
    return text if not text or text[-1] in ".!?:" else f"{text}."


def title(strategy: str) -> str:
    """A strategy's name on screen."""
    return STRATEGIES[strategy].title if strategy in STRATEGIES else strategy


def workload_title(name: str) -> str:
    """A workload's name on screen; one of the user's own has the name that they gave it."""
    return WORKLOADS[name].title if name in WORKLOADS else name


def state_words(state: str) -> str:
    """A run state on screen."""
    return _STATES.get(state, state)


def phase_words(status: RunStatus) -> str:
    """What a run is doing, in a few words: `compiling Automatic`, `2nd in the queue`."""
    if status.state == "queued":
        position = f"number {status.queue_position} in the queue" if status.queue_position else "in the queue"
        return f"{position}, waiting for {status.waiting_for}" if status.waiting_for else position
    if status.waiting_for:
        return f"waiting for {status.waiting_for}"
    if status.state == "starting" and not status.phase:
        return f"starting a worker on {status.experiment.target}"
    if status.experiment.workload == "program" and status.phase == "first_run":
        return "running the program"
    doing = _PHASES.get(status.phase or "", status.phase or "running")
    return f"{doing} {title(status.strategy)}" if status.strategy else doing


def ago(moment: float, now: float | None = None) -> str:
    """How long ago, coarsely: `just now`, `5 min ago`, `3 h ago`, else the day and time."""
    passed = (time.time() if now is None else now) - moment
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{passed // 60:.0f} min ago"
    if passed < 86400:
        return f"{passed // 3600:.0f} h ago"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def experiment_words(experiment: Experiment) -> str:
    """An experiment in one line, for a list: workload, sizes, dtype, sharding, mesh, target."""
    mesh = " ".join(f"{name}={size}" for name, size in experiment.mesh)
    if experiment.workload == "program":
        return f"Program {experiment.option('program')}, mesh {mesh} on {experiment.target}"
    sizes = " ".join(f"{dim}={size}" for dim, size in experiment.dims)
    cuts = ", ".join(f"{dim} over {' '.join(axes)}" for dim, axes in experiment.sharding) or "unsharded"
    return f"{workload_title(experiment.workload)}, {sizes}, {experiment.dtype}, {cuts}, mesh {mesh} on {experiment.target}"


def environment_words(environment: Environment) -> str:
    """The devices of a target in one line."""
    kind = f"{environment.device_count} simulated CPU devices" if environment.simulated else f"{environment.device_count} × {environment.device_kind}"
    cores = f" sharing {environment.cores} cores" if environment.simulated and environment.cores else ""
    host = f", host {environment.process_index} of {environment.process_count}" if environment.process_count > 1 else ""
    return f"{kind}{cores}{host}, JAX {environment.jax}"


def headline_words(result: Result) -> str:
    """The answer in a sentence: which strategy is fastest and by how much, or that they do not differ, or what there is instead."""
    if result.experiment.workload == "program":
        failed = any(found.status != "ok" for found in result.strategies.values())
        return "The program did not run to its end." if failed else "The program ran as written. What it gave is below."
    timed = {name: found for name, found in result.strategies.items() if found.median_s is not None and found.correct is not False}
    if not timed:
        return "No strategy was measured to the end."
    answer = result.comparison
    if answer is None and len(timed) > 1:
        return "; ".join(f"{title(name)} {seconds_text(found.median_s)}" for name, found in timed.items()) + ". Too little was measured to rank them."
    fastest = answer.fastest if answer else next(iter(timed))
    takes = seconds_text(result.strategies[fastest].median_s)
    if answer is None or not answer.ratios:
        interval = result.strategies[fastest].ci95_s
        between = f" (95 % interval {seconds_text(interval[0])} to {seconds_text(interval[1])})" if interval else ""
        return f"{title(fastest)} takes {takes} per call{between}."
    slower = next((ratio for ratio in answer.ratios if ratio.differs), None)
    after = ""
    if slower:
        low, high = slower.interval
        after = f"{title(slower.strategy)} takes {slower.ratio:.3g}× as long (95 % interval {low:.3g} to {high:.3g})"
    if not answer.tied:
        return f"{title(fastest)} is fastest, {takes} per call. The next, {after}."
    *first, last = [f"{title(name)} ({seconds_text(result.strategies[name].median_s)})" for name in (fastest, *answer.tied)]
    few = " They are too few to be sure of any difference: take more." if any(map(too_few, answer.ratios)) else ""
    return f"{', '.join(first)} and {last} cannot be told apart by these samples.{few}" + (f" {after}." if after else "")


def floor_words(result: Result) -> str | None:
    """The least time that any call on this mesh takes, in a sentence; None where it was not measured."""
    floor = result.environment.dispatch_floor_s
    if floor is None:
        return None
    return f"Dispatch floor: calling a program that does nothing on this mesh takes {seconds_text(floor)}"


def size_words(experiment: Experiment) -> str:
    """Bytes of operands and results, and the floating-point operations of one execution."""
    what = experiment.what
    flops = what.flops(experiment.sizes)
    operands, results = what.operand_bytes(experiment.sizes, experiment.dtype), what.result_bytes(experiment.sizes, experiment.dtype)
    counted = f", {flops:,} floating-point operations" if flops else ""  # of the user's own functions none are known
    return f"operands {bytes_text(operands)}, results {bytes_text(results)}{counted}"

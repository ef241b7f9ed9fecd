"""Sentences about a run: its progress, its results, its failures."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from spmd_core.base import (
    by_key,
    capital,
    count_text,
    numbered,
    seconds_text,
    span_text,
    value_text,
)
from spmd_core.facts import Collective, executed
from spmd_core.program import kind_words
from spmd_core.results import ArrayReport, Result, StrategyResult
from spmd_core.runs import COMPILING, RunStatus
from spmd_core.terms import bandwidth, spoken
from spmd_core.words import bottleneck, facts, predictions, strategies
from spmd_core.workloads import STRATEGIES

_PHASES = {
    "trace": "tracing",
    "lower": "tracing",
    "compile": "compiling",
    "partition": "partitioning",
    "optimize": "choosing layouts of",
    "schedule": "scheduling",
    "code": "making the code of",
    "price": "estimating the time of",
    "first_run": "running once",
    "warm_up": "warming up",
    "sample": "measuring",
    "repeat": "measuring the best again, in another process",
    "train": "training",
    "profile": "tracing a step of",
    "shardings": "reading the shardings of",
    "check": "checking values",
    "write": "writing the result",
}
# what a run waits for -> its words; what follows it and a colon is `detail`
_WAITS = {
    "compiler": "{compiler} to load",
    "devices": "the devices of {target}",
    "end of compiler": "the compiler to be ended",
    "end of round": "the worker to stop at the next round",
    "room to write": "room to write the result: {detail}",
    "cluster": "the cluster: {detail}",
    "Dask worker": "a worker of the Dask cluster",
    "Dask scheduler": "the Dask scheduler to answer again",
    "stopped queue": "the queue to go on: {detail}",
    "earlier runs": "{detail} queued before it",
    "current run": "the current run",
    "timed run": "the run that is timed ({detail})",
    "process": "a process that works the queue: open the dashboard",
    "next process": "the next process that works the queue",
}
# seconds after which a start is slow, and how many characters of what its process wrote are shown
SLOW_START_S, MOST_WRITTEN = 10.0, 160
_LOG_LINE = re.compile(r"\w\.(cc|h|py):\d+")  # of a library for its own authors
MOST_DIFFERING = 16  # elements of two strategies' results that are listed
_PERCENT = re.compile(r"(\d+)%")


def run_headline(result: Result, differences: Sequence[str] | None = None) -> str:
    """The answer of a run: the first sentence of the screens and the command line.

    `differences` are those of a small program from its example's expected numbers; None if it has
    no example.
    """
    if result.experiment.what.is_small_program:
        failed = any(outcome.status != "ok" for outcome in result.strategies.values())
        return program_words(failed, differences)
    if result.experiment.what.is_of_machine:
        return bandwidth.headline(result)
    if is_predicted(result):
        first = next((each.prediction for each in result.strategies.values()), None)
        is_program = result.experiment.program is not None
        return predictions.answer(
            result, bottleneck.limit_words(first) if is_program and first else ""
        )
    return strategies.mixed(result) if result.experiment.is_mixed else strategies.measured(result)


def headline_parts(
    result: Result, differences: Sequence[str] | None = None, is_figured: bool = False
) -> tuple[str, str]:
    """The answer for a headline above its table, without the evidence that the table has; and what
    else it is, "" where that is all. `is_figured`: below the name and the time of the fastest row.
    """
    what = result.experiment.what
    if what.is_of_machine and what.has_formula:
        outcome = next(iter(result.strategies.values()))
        return bandwidth.sweep_words(outcome.points, outcome.fits, result.experiment.place)
    if what.is_small_program or what.is_of_machine or is_predicted(result):
        return run_headline(result, differences), ""
    answer, more = strategies.answer_parts(result, is_figured=is_figured)
    predicted = strategies.predicted(result) if result.experiment.is_mixed else ""
    return answer, " ".join(part for part in (more, predicted) if part)


def program_words(failed: bool, differences: Sequence[str] | None) -> str:
    """Whether a small program ran, and whether its numbers are the expected ones of its example, if
    any.
    """
    if failed:
        return "The program did not run to its end."
    if differences is None:
        return "The program ran, with changes of your own."
    if differences:
        return "The program ran, but not every number is as the example says."
    return "Every number is as the example says."


def is_predicted(result: Result) -> bool:
    """Whether it was only compiled, for a compile-only topology."""
    return result.experiment.place.is_absent


def phase_words(status: RunStatus) -> str:
    """What a run is doing: `compiling Automatic`, `number 2 in the queue`."""
    if status.state == "queued":
        queue = "the compiler's queue" if status.lane == COMPILING else "the queue"
        number = f"number {status.queue_position} in {queue}"
        position = number if status.queue_position else f"in {queue}"
        return f"{position}, waiting for {status.waiting_for}" if status.waiting_for else position
    doing = _doing(status)
    return f"{doing}; {paused}" if (paused := paused_words(status)) else doing


def waiting_words(status: RunStatus, called: Callable[[str], str]) -> str | None:
    """What a run waits for; `called` names the run of an id. What a process of another version
    stored stays as it is.
    """
    kind, _, detail = (status.waiting_for or "").partition(": ")
    if kind not in _WAITS:
        return status.waiting_for
    experiment = status.experiment
    return _WAITS[kind].format(
        detail=called(detail) if kind == "timed run" else detail,
        target=experiment.target,
        compiler="the TPU compiler" if experiment.place.is_absent else "the compiler",
    )


def paused_words(status: RunStatus) -> str | None:
    """That a compile is paused, and for which run; None if it is not."""
    return f"paused while a run is timed ({status.paused_for})" if status.paused_for else None


def _doing(status: RunStatus) -> str:
    if status.waiting_for:
        return f"waiting for {status.waiting_for}{_starting_words(status)}"
    if status.state == "starting" and not status.phase:
        return f"starting a worker on {status.experiment.target}"
    if status.experiment.what.is_small_program and status.phase == "first_run":
        return "running the program"
    if status.experiment.what.is_of_machine and status.phase == "sample":
        return "measuring"
    begun = "reading the program" if status.experiment.program else "just begun"
    phase = (status.phase or begun).replace("_", " ")
    doing = _PHASES.get(status.phase or "", phase)
    if status.experiment.program:  # whose one strategy is none that its author chose
        return doing.removesuffix(" of")
    return f"{doing} {spoken(status.strategy)}" if status.strategy else doing


def _starting_words(status: RunStatus) -> str:
    """What a worker that takes long to start wrote last; empty where it wrote nothing."""
    written = (status.stderr_tail or "").strip().splitlines()
    lines = [line for line in written if not _LOG_LINE.search(line)]
    is_slow = (status.elapsed_s or 0.0) > SLOW_START_S
    if status.state != "starting" or not lines or not is_slow:
        return ""
    return f"; its process writes: {lines[-1].strip()[:MOST_WRITTEN]}"


def kept_words(result: Result | None) -> str:
    """The partial results of an interrupted run: `3 of 3 strategies timed, 6 of 1,000 samples
    each`; None if it left no result.
    """
    outcomes = list(result.strategies.values()) if result else []
    timed = [each for each in outcomes if each.median_s is not None]
    compiled = sum(each.phases_s.compile is not None for each in outcomes)
    points = sum(len(each.points) for each in outcomes)
    if result is None or not (timed or compiled or points):
        return "nothing measured or compiled"
    if points:
        return f"{count_text(points)} points measured"
    of = len(result.experiment.rows_once)
    what = f"of {of} strategies" if of > 1 else "strategy"
    if not timed:
        none = "" if is_predicted(result) else ", none timed"
        return f"{compiled} {what} compiled{none}"
    counts = sorted({len(each.samples_s) for each in timed})
    if not counts[0]:
        return f"{len(timed)} {what} timed provisionally"
    taken = " to ".join(count_text(count) for count in dict.fromkeys((counts[0], counts[-1])))
    samples = f"{taken} of {count_text(result.experiment.timing.samples)} samples each"
    further = [
        each
        for each in (result.comparison.ratios if result.comparison else ())
        if (each.rounds or 0) > counts[-1]
    ]
    most = max(further, key=lambda each: (each.processes, each.rounds or 0), default=None)
    ratios = f", ratios of {strategies.rounds_words(most)}" if most else ""
    return f"{len(timed)} {what} timed, {samples}{ratios}"


def floor_words(result: Result) -> str | None:
    """The dispatch floors: the median time of a call that only adds 1, on one device, and on a mesh;
    None if not measured.
    """
    floors: dict[str, set[float]] = {"one device": set(), "the mesh": set()}
    for name, outcome in result.strategies.items():
        if outcome.floor_s is not None:
            is_one = STRATEGIES[result.row(name).strategy].is_single_device
            floors["one device" if is_one else "the mesh"].add(outcome.floor_s)
    known = [
        f"{' to '.join(map(seconds_text, sorted({min(seconds), max(seconds)})))} on {where}"
        for where, seconds in floors.items()
        if seconds
    ]
    if len(known) > 1:
        return f"dispatch floor, a call that only adds 1: {', '.join(known)}"
    floor = result.environment.dispatch_floor_s
    return (
        None if floor is None else f"dispatch floor, a call that only adds 1: {seconds_text(floor)}"
    )


def failures(result: Result) -> dict[str, list[str]]:
    """Error message -> the strategies that failed with it; of messages that differ only by the name
    of the strategy that they begin with, the first.
    """
    alike = by_key(
        (message.removeprefix(name.rpartition("/")[2]), (message, name))
        for name, outcome in result.strategies.items()
        if outcome.status == "error" and outcome.error and (message := outcome.error.message)
    )
    return {group[0][0]: [name for _, name in group] for group in alike.values()}


def wrong_words(name: str, outcome: StrategyResult) -> str:
    """That a strategy computed wrong values."""
    return f"{spoken(name)} computed wrong values and is not ranked: {facts.wrong_words(outcome)}."


def verdict_words(outcome: StrategyResult) -> str:
    """Whether the values were right, or as imprecise as their sums, or why there are none."""
    if outcome.status != "ok":
        return "failed" if outcome.status == "error" else outcome.status
    return "imprecise" if outcome.imprecise else match_words(outcome.correct)


def match_words(correct: bool | None, unknown: str = "not checked") -> str:
    """Whether values match the reference; `unknown` where they were not compared."""
    return {True: "match", False: "✗ wrong", None: unknown}[correct]


def time_words(outcome: StrategyResult) -> str | None:
    """The time of a strategy, measured, else predicted; None if neither is known."""
    if outcome.median_s is not None:
        return seconds_text(outcome.median_s)
    if outcome.predicted_s is not None:
        time = outcome.predicted_s
        return f"{seconds_text(time.estimate)}, predicted ({span_text(time.low, time.high)})"
    return None


def collectives_words(outcome: StrategyResult) -> str:
    """The collectives of a program: `all-reduce over x`; an en dash if unknown."""
    if outcome.collectives is None:
        return "–"
    return ", ".join(dict.fromkeys(map(collective_words, outcome.collectives))) or "none"


def counted_words(counts: Sequence[int | None]) -> str:
    """Returns how many collectives a program has, and how often a step runs them: the two differ in
    loops, and where a loop's count is unknown the second is.
    """
    runs = executed(counts)
    often = "" if runs is None or runs == len(counts) else f" ({numbered(runs, 'run')} a step)"
    return f"{numbered(len(counts), 'collective')}{often}"


def collective_words(one: Collective) -> str:
    """The kind of a collective and its axes: `all-reduce over x and y`."""
    return f"{kind_words(one)} over {' and '.join(one.axes)}" if one.axes else kind_words(one)


def merged_notes(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Note -> the strategies that it is of, from (strategy, note); notes that differ in
    percentages alone are one, with their range."""
    alike: dict[str, dict[str, str]] = {}
    for name, note in named:
        alike.setdefault(_PERCENT.sub("%", note), {})[name] = note
    return {_with_ranges(list(notes.values())): list(notes) for notes in alike.values()}


def _with_ranges(notes: list[str]) -> str:
    """The first of notes that differ in percentages alone, with the range of each."""
    shares = [[int(share) for share in _PERCENT.findall(note)] for note in notes]
    ranges = iter(
        [
            f"{min(column)}%" if len(set(column)) == 1 else f"{min(column)}% to {max(column)}%"
            for column in zip(*shares, strict=True)
        ]
    )
    return _PERCENT.sub(lambda _: next(ranges), notes[0])


def outputs(result: Result) -> dict[str, dict[str, list[str]]]:
    """The outputs: name of an array or printed text -> each different outcome -> the strategies
    that produced it.
    """
    reported: dict[str, dict[str, list[str]]] = {}
    for name, strategy in result.strategies.items():
        arrays = {array: values_text(report) for array, report in strategy.outputs.items()}
        for what, text in (arrays | strategy.printed).items():
            reported.setdefault(what, {}).setdefault(text, []).append(name)
    return reported


def samples_words(result: Result) -> str:
    """What the table of samples has: the rounds of every strategy, then those of the best alone."""
    text = (
        "Every sample, in microseconds per call. A row is a round, in which every strategy was timed "
        "once, in shuffled order."
    )
    outcomes = result.strategies.values()
    if any(each.remeasured_s for each in outcomes):
        planned = max(len(each.samples_s) for each in outcomes)
        text += (
            f" After round {planned} only the best were timed, for their paired ratio; medians are "
            f"of the first {planned}."
        )
    if (count := max(each.processes for each in outcomes)) > 1:
        text += f" These rounds are of the first of {numbered(count, 'process')}."
    return text


def output_texts(
    result: Result, what: str, of: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """The strategies that produced an output, and its values; after the first ones those elements
    alone that differ from them. `of`: what `outputs` has of it.
    """
    base = next(iter(of.values()))[0]
    first = result.strategies[base].outputs.get(what)
    for text, names in of.items():
        report = result.strategies[names[0]].outputs.get(what)
        apart = (
            names[0] != base and report and first and differing_text(report, first, spoken(base))
        )
        yield _whose(result, what, names, len(of)), apart or text  # pyrefly: ignore[invalid-yield]


def _whose(result: Result, what: str, names: Sequence[str], count: int) -> str:
    """That all strategies produced an output alike, or their names. Values that were not kept were
    not compared with one another: each was with the reference.
    """
    if count > 1 or len(names) == 1:
        return ", ".join(spoken(name) for name in names)
    outcomes = [result.strategies[name] for name in names]
    reports = [each.outputs[what] for each in outcomes if what in each.outputs]
    if all(each.values is not None for each in reports):
        return "the same under every strategy"
    right = all(each.correct and not each.imprecise for each in outcomes)
    return "within tolerance under every strategy" if right else "under every strategy"


def differing_text(report: ArrayReport, first: ArrayReport, named: str) -> str | None:
    """The elements in which an array differs from another's, whose values are `named`; None where
    not all of both were kept, or their shapes differ.
    """
    if report.values is None or first.values is None or report.shape != first.shape:
        return None
    pairs = list(zip(report.values, first.values, strict=True))
    texts = [[value_text(each, report.dtype) for each in pair] for pair in pairs]
    apart = [at for at, (one, other) in enumerate(texts) if one != other]
    lines = [f"{len(apart):,} of {len(pairs):,} elements differ from {named}'s"]
    for at in apart[:MOST_DIFFERING]:
        place = ", ".join(map(str, np.unravel_index(at, report.shape)))
        lines.append(f"[{place}] {texts[at][0]}, {named} {texts[at][1]}")
    left = len(apart) - MOST_DIFFERING
    return "\n".join([*lines, *([f"and {left:,} more"] if left > 0 else [])])


def values_text(report: ArrayReport, most: int | None = None) -> str:
    """The values of an array as NumPy would print them (a limited number), or why they are missing."""
    if report.values is None:
        shape = " × ".join(map(str, report.shape))
        return f"{shape} {report.dtype}: its error is stored, values only of small arrays"
    shown = [value_text(value, report.dtype) for value in report.values[:most]]
    return " ".join(shown) + (" …" if len(shown) < len(report.values) else "")


_LEAST_COMPILE_S = 0.5  # a run that took less compiled nothing: its result was stored before


def compile_words(status: RunStatus, last_s: float | None) -> tuple[float, str]:
    """The progress of a compile from 0 to 1, and its label: its stage, and how long the last
    compile of its kind took (`last_s`), if any.
    """
    known_stages = (*status.experiment.what.stages, "write")
    place = known_stages.index(status.phase) if status.phase in known_stages else -1
    share = (place + 1) / (len(known_stages) + 1)
    doing = _PHASES.get(status.phase or "", "loading the compiler").removesuffix(" of")
    words = (
        f"Stage {place + 1} of {len(known_stages)}: {doing}."
        if place >= 0
        else "Loading the compiler."
    )
    if last_s is None or last_s < _LEAST_COMPILE_S:
        return share, words
    elapsed = status.elapsed_s or 0.0
    known = min(0.95, elapsed / last_s)
    took = f"the last one of this kind took {seconds_text(last_s)}"
    left = f"about {max(1.0, last_s - elapsed):.0f} s left: {took}"
    longer = f"longer than the last one of this kind, {seconds_text(last_s)}"
    return max(share, known), f"{words} {capital(left if elapsed < last_s else longer)}."

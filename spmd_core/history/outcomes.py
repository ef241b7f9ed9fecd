"""What came out of a stored run: its verdict, its figure, and how its time is known."""

from collections.abc import Mapping
from dataclasses import dataclass

from spmd_core.advice import program_of, run_findings
from spmd_core.base import bytes_text, numbered, seconds_text, span_text
from spmd_core.experiment import Experiment, layout_of
from spmd_core.history.cells import fastest_words
from spmd_core.results import Result
from spmd_core.runs import RunSummary
from spmd_core.terms import (
    layout_headline,
    listed,
    outcome_words,
    row_title,
    sweep_words,
    title,
)
from spmd_core.words import (
    RANGE,
    SHARDING,
    bound_by,
    limit_words,
    noise_words,
    sharded_and_alone_s,
    sharding_verdict,
    short_predicted,
    short_verdict,
    sides_words,
)

WRONG = "wrong values"  # the kind of a verdict
PLACED, FITS = "Placed", "Fits"  # verdicts of which a card has the figure
Judged = tuple[str, str, str]  # its kind, it in a few words, by how much


@dataclass(frozen=True, slots=True)
class Came:
    """What a row of History shows of a result.

    Attributes:
      judged: its verdict; None where nothing is judged.
      sides_s: seconds of the best sharded row and of one device, where these were compared.
      spans_s: of each row whose time is predicted, the interval in seconds.
    """

    judged: Judged | None
    sides_s: tuple[float, float] | None
    spans_s: Mapping[str, tuple[float, float]]


def came_out(facts: Result) -> Came:
    """Returns what a row of History shows of a result."""
    predicted = {
        name: each.predicted_s
        for name, each in facts.strategies.items()
        if each.predicted_s and each.median_s is None
    }
    spans = {name: (time.low, time.high) for name, time in predicted.items()}
    return Came(verdict(facts), sharded_and_alone_s(facts), spans)


def verdict(facts: Result) -> Judged | None:
    """Returns the verdict of a result: which rows have wrong values, else whether sharding helped, or
    how its rows compare or are predicted to; of one prediction whether it fits and what binds it, of
    an exported program how many findings it has, of an array what each device holds, of a sweep of
    collectives the rate that it reaches. None where nothing is judged.
    """
    wrong = [name for name, each in facts.strategies.items() if each.correct is False]
    if wrong:
        return WRONG, "✗ Wrong values", listed([row_title(facts, name) for name in wrong])
    if judged := sharding_verdict(facts):
        kind, words = judged
        if kind == "cannot tell" or not noise_words(facts):
            return kind, SHARDING[kind], words
        # less is claimed of times that scatter
        return "known", SHARDING[kind], f"{words}, noisy"
    if facts.comparison is not None and facts.comparison.ratios:
        words = short_verdict(facts)
        is_open = words == "Cannot tell"
        sides = sides_words(facts) if is_open else ""
        return ("cannot tell", words, sides) if is_open else ("known", "", words)
    if facts.experiment.what.is_bare_array and all(
        each.correct for each in facts.strategies.values()
    ):
        head = layout_headline(layout_of(facts.experiment, "array"), facts.experiment.dtype)
        held, _, rest = head.partition(": ")
        copies = rest.partition("; ")[2].removeprefix("nothing is replicated")
        held, _, _ = held.partition(" of ")  # the array's name has its shape
        return "fits", PLACED, ", ".join(filter(None, (held, copies)))
    if reached := _reached(facts):
        return "known", "", reached
    return _predicted_verdict(facts)


def _predicted_verdict(facts: Result) -> Judged | None:
    (first, *others) = [each.prediction for each in facts.strategies.values()] or [None]
    if first is not None and not first.fits:
        return None
    program = program_of(facts.experiment)
    if count := sum(not each.is_note for each in run_findings(facts)):
        return "wrong", numbered(count, "finding"), "fits" if first else ""
    is_timed = any(facts.medians_s.values())
    if others and not is_timed and (predicted := short_predicted(facts)):
        return "cannot tell" if predicted[0] == "Cannot tell" else "known", *predicted
    if first is None or others:
        return None
    if program and first.binds:
        return "fits", FITS, limit_words(first)
    return "fits", FITS, bound_by(first) if first.binds else ""


def _reached(facts: Result) -> str:
    """The highest rate of a sweep of collectives over most axes; "" of other runs."""
    points = [each for one in facts.strategies.values() for each in one.points]
    if not facts.experiment.what.has_formula or not points:
        return ""
    most = max((each.axes for each in points), key=len)
    of_most = [each for each in points if each.axes == most]
    words, _ = sweep_words(of_most, target=facts.experiment.place)
    return words.removeprefix("Predicted: ").rstrip(".")


def outcome(summary: RunSummary, came: Came | None) -> Judged:
    """Returns the kind of what came out of a stored run, it in a few words, and what there is to it:
    its verdict, else how it ended.
    """
    is_known = summary.state == "succeeded" or any(summary.medians_s.values())
    if came and came.judged and is_known:
        return came.judged
    ended = evidence_of(summary)[1]
    is_good = ended in ("", "Measured", "Predicted", "Succeeded") or summary.state != "succeeded"
    timed = {name: each for name, each in summary.medians_s.items() if each}
    of_times = ""
    if timed and summary.fastest is None and summary.state == "succeeded":
        least = min(timed, key=lambda name: timed[name])
        whose = f" ({title(least)})" * (len(timed) > 1)
        of_times = f"{seconds_text(timed[least])}{whose}, values wrong or not checked"
    return summary.state if is_good else "cannot tell", ended, of_times


def evidence_of(summary: RunSummary) -> tuple[str, str]:
    """Returns whether a run's time is simulated or predicted, "" where it is neither, and how the run
    ended, "" where the first implies it.
    """
    answer, words = summary.answer, outcome_words(summary)
    is_predicted = answer is not None and answer[2]
    is_simulated = answer and summary.experiment.members[0].experiment.place.is_simulated
    kind = "Compiled" if is_predicted else "Simulated" * bool(is_simulated)
    return kind, "" if kind and words in ("Measured", "Predicted") else words


def shard_words(experiment: Experiment) -> str:
    """Returns the bytes of an array on a device."""
    return bytes_text(layout_of(experiment, "array").shard_bytes(experiment.dtype))


def figure(summary: RunSummary, came: Came | None) -> tuple[str, str]:
    """Returns the time of a stored run with what it is of, of an array the bytes of a device; and one
    device's where sharding was compared with it, else whose the first is. "" where nothing came out.
    """
    if summary.answer is None or not summary.answer[1]:
        return "", ""
    if summary.experiment.what.is_bare_array:
        return f"{shard_words(summary.experiment)} per device", ""
    if came and came.sides_s:
        sharded, alone = map(seconds_text, came.sides_s)
        return f"{sharded} sharded", f"{alone} on one device"
    first = summary.experiment.members[0].experiment
    per = "step" if first.plan or first.program else "call"
    span = came.spans_s.get(summary.answer[0]) if came else None
    words = (fastest_words(summary), f"{RANGE} {span_text(*span)}" if span else "")
    return f"{seconds_text(summary.answer[1])} per {per}", ", ".join(filter(None, words))

"""Sentences about one candidate of a search, its time and cost, and about why one is ahead of
another.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spmd_core.base import (
    between,
    bytes_text,
    capital,
    number_text,
    numbered,
    seconds_text,
    span_text,
    sums_by_key,
    three_digits,
)
from spmd_core.facts import Estimate, Ratio, Verdict
from spmd_core.results import predicted_verdict
from spmd_core.search import (
    PIPELINE,
    Answer,
    Candidate,
    Goal,
    Proof,
    Rule,
    StandardSharding,
    is_alone_beside,
    score,
)
from spmd_core.time import estimate_step
from spmd_core.words import (
    ABOUT_EVEN,
    CANNOT_TELL,
    apart_words,
    days_span,
    days_text,
    even_words,
    fact_words,
    mark_of,
    near_words,
    paired_words,
    predictions,
    share_words,
)
from spmd_core.workloads import STRATEGIES

_TELLING = 0.005  # of the faster one's time: smaller differences are not worth a word


@dataclass(frozen=True, slots=True)
class Difference:
    """The other minus the first, for the tokens of the first: `ratio` of their times, seconds by
    kind as a prediction's shares name them, the largest first, and bytes per device; `gap_s` is how
    far their times are apart, which the kinds may not explain. The kinds are those of the estimates
    where one of them is known better than the other.
    """

    ratio: float
    gap_s: float
    seconds: tuple[tuple[str, float], ...]
    memory_bytes: int


def compared(one: Candidate, other: Candidate) -> Difference:
    """How `other` differs from `one`; ValueError where one of them has no time."""
    if one.seconds is None or other.seconds is None:
        raise ValueError(f"{(one if one.seconds is None else other).name} has no time")
    scale = one.tokens / other.tokens
    is_compiled = _are_compiled(one, other)
    mine, theirs = (
        dict(each.compiled_parts) if is_compiled else _estimated_parts(each)
        for each in (one, other)
    )
    first, second = one.seconds, other.seconds
    deltas = {
        name: scale * theirs.get(name, 0.0) - mine.get(name, 0.0)
        for name in dict.fromkeys((*mine, *theirs))
    }
    judged = sorted(
        ((name, seconds) for name, seconds in deltas.items() if abs(seconds) > _TELLING * first),
        key=lambda pair: -abs(pair[1]),
    )
    return Difference(
        scale * second / first,
        scale * second - first,
        tuple(judged),
        (other.memory_bytes or 0) - (one.memory_bytes or 0),
    )


def _are_compiled(*listed: Candidate) -> bool:
    return all(each.compiled_parts for each in listed)


def _estimated_parts(each: Candidate) -> Mapping[str, float]:
    return dict(each.parts) if each.step is None else estimate_step(each.step.plan).shares_s


def time_parts(each: Candidate) -> dict[str, float]:
    """Returns the share of its time by what a reader calls each part: as compiled, else by the estimate
    of a training step; empty of others, whose formula orders candidates and splits no time.
    """
    known = dict(each.compiled_parts)
    parts = predictions.by_words(known or (_estimated_parts(each) if each.step else {}))
    total = sum(parts.values())
    return {name: seconds / total for name, seconds in parts.items() if seconds > 0}


def ahead_of(answer: Answer) -> str:
    """Returns how much less time the first takes than the best of another mesh that is known in the same
    way, and by what most; "" where there is none.
    """
    winner = answer.winner
    if winner is None or not winner.step or answer.question.minimize != "time":
        return ""
    others = (group[0].candidate for group in answer.shardings)
    mesh = winner.step.of_mesh.mesh
    alike = (
        each
        for each in others
        if each.stage == winner.stage
        and each.fits == "yes"
        and each.step
        and each.step.of_mesh.mesh != mesh
    )
    if (other := next(alike, None)) is None:
        return ""
    difference = compared(winner, other)
    parts = sums_by_key((_part_words(name), seconds) for name, seconds in difference.seconds)
    most = max(parts, key=lambda name: parts[name], default="")
    if not most or parts[most] <= 0 or difference.ratio - 1 < _TELLING:
        return ""
    mesh = other.name.partition(" · ")[0].replace(",", " ")
    but = ", but their ranges overlap" * bool(_open_mark(winner, other, difference))
    next_one = f"the next {winner.stage} mesh, {mesh}"
    return (
        f"The first takes {_less(difference)} less time than {next_one}{but}: mostly less {most}."
    )


def _part_words(name: str) -> str:
    """Returns what the bars of candidates call a part: exposed collectives are one part of them."""
    words = share_words(name)
    return share_words("exposed") if words.startswith("exposed ") else words


SECONDS_PER_HOUR = 3600.0
STAGES = {
    "measured": "measured",
    "compiled": "compiled",
    "estimated": "estimate",
    "failed": "failed",
    "pruned": "ruled out",
}
_ALONE = (
    "but alone and not beside the first: the difference may be luck, and searching on "
    "measures both side by side"
)
_MOST = 3  # kinds of time that a sentence names
# verb for a winner that is not faster; of time: its estimate wins, but better data contradict it
_LESS: dict[Goal, str] = {
    "memory": "Uses less memory than",
    "price": "Costs less than",
    "chip-seconds": "Takes fewer chip-seconds than",
    "time": "Is behind",
}


def rule_words(rule: Rule) -> str:
    """Why a candidate was ruled out, or failed."""
    return rule if isinstance(rule, str) else fact_words(rule)


_DIM = re.compile(r"\w+:[\w+]+")  # and the axes that shard it


def called_words(candidate: Candidate) -> str:
    """A candidate in words: `x=2 y=4, batch over x, in over y, Automatic`; a step by its name."""
    return candidate.name if candidate.step else named_words(candidate.name)


def named_words(name: str) -> str:
    """Returns the name of a candidate of a computation in words."""
    mesh, *rest = name.split(" · ")
    named = [STRATEGIES[each].title if each in STRATEGIES else each for each in rest[1:]]
    # specs of programs have colons of their own: `make.py:74 P(None, 'x')`
    is_sharded = bool(rest) and all(map(_DIM.fullmatch, rest[0].split(" ")))
    dims = [
        each.replace(" ", ", ").replace(":", " over ") if is_sharded else each for each in rest[:1]
    ]
    return ", ".join([mesh.replace(",", " "), *dims, *named])


def lead_name(candidate: Candidate) -> str:
    """A candidate as a headline names it: `fsdp=8, 64 sequences a step`, without its policy."""
    if candidate.step is None and candidate.experiment.exported:  # as its row is called
        mesh, _, specs = candidate.name.partition(" · ")
        return f"{mesh.replace(',', ' ')}, {specs}"
    if candidate.plan is None:
        return called_words(candidate)
    mesh = candidate.name.replace(",", " ").partition(" · ")[0]
    return f"{mesh}, {numbered(candidate.plan.batch, 'sequence')} a step"


def time_words(candidate: Candidate) -> str:
    """The best known time of a candidate, number first."""
    text = seconds_text(candidate.seconds)
    if candidate.measured_s is not None:
        return f"{text} measured"
    known = "estimated" if candidate.stage == "estimated" else "predicted"
    what = "a step" + ", estimated" * (known == "estimated") if candidate.step else known
    low, high = candidate.span or (0.0, 0.0)
    return f"{text} {what} ({span_text(low, high)})"


def memory_words(candidate: Candidate) -> str:
    """Bytes per device, with the interval of an estimate."""
    text = bytes_text(candidate.memory_bytes)
    if candidate.memory_span is None:
        return text
    low, high = candidate.memory_span
    return f"{text} ({between(bytes_text(low), bytes_text(high))})"


def time_of_tokens(candidate: Candidate) -> str:
    """The time of a billion tokens, which compares steps of different batches; of a computation
    that of a call.
    """
    if candidate.step is None:
        return seconds_text(candidate.seconds)
    return hours_text(hours_of_tokens(candidate))


def hours_text(hours: float) -> str:
    """Returns hours with three digits, zeros too: a column of them, and a figure beside it.

    >>> hours_text(5.2), hours_text(27.0), hours_text(2500.0)
    ('5.20 h', '27.0 h', '2,500 h')
    """
    return f"{three_digits(hours)} h"


def hours_of_tokens(candidate: Candidate) -> float:
    """Hours for a billion tokens."""
    return score(candidate) * 1e9 / SECONDS_PER_HOUR


def days_of_tokens(candidate: Candidate, tokens: float) -> str:
    """Returns the days of a training run at a plan's time, as Predict has them."""
    return days_text(hours_of_tokens(candidate) / 24 * tokens / 1e9)


def days_span_of_tokens(candidate: Candidate, tokens: float) -> str:
    """Returns the interval of `days_of_tokens`; "" where there is none."""
    if candidate.span is None:
        return ""
    days = hours_of_tokens(candidate) / 24 * tokens / 1e9
    low, high = (days / (candidate.seconds or 1.0) * end for end in candidate.span)
    return days_span(Estimate(low=low, estimate=days, high=high))


def span_of_tokens(candidate: Candidate) -> str:
    """Returns the interval of `time_of_tokens`; "" where there is none."""
    hours = hours_of_tokens(candidate) / (candidate.seconds or 1.0)
    ends = [hours_text(hours * end) for end in candidate.span or ()]
    return between(*ends) if ends else ""


def policy_words(candidate: Candidate) -> str:
    """A plan among those of one mesh and batch: its policy, time and memory."""
    policy = candidate.step.policy.words if candidate.step else ""
    fits = f", {FIT_WORDS[candidate.fits]}" * (candidate.fits in ("likely", "unlikely"))
    known = f"{seconds_text(candidate.seconds)}, {bytes_text(candidate.memory_bytes)}{fits}"
    return f"{policy}: {known}, {STAGES[candidate.stage]}"


# by all of the interval of its memory; by the estimate, but not by all of that; by its low end alone
FIT_WORDS = {
    "yes": "fits",
    "likely": "may not fit",
    "unlikely": "unlikely to fit",
    "no": "does not fit",
}
FITS = (
    "Fits: by the whole interval of its memory; may not fit: by the estimate but not by the whole "
    "interval; unlikely to fit: by the low end alone."
)
KNOWN_FIRST = "What was measured or compiled comes before estimates, unless the first is proven faster than it."
BEST_OF_EACH = "Best of each target that is sure to fit, for a billion tokens"


def batches_words(best: Sequence[Candidate]) -> str:
    """Causal MFU against the batch, of the best plan of each; "" for one batch."""
    parts = [
        f"{each.plan.batch_per_device:g} per device {each.mfu_causal:.1%}"
        for each in best
        if each.plan is not None and each.mfu_causal is not None
    ]
    return f"Causal MFU of the best plan by batch: {', '.join(parts)}." if len(parts) > 1 else ""


def beats(
    winner: Candidate,
    other: Candidate,
    title: str | None = None,
    proven: Ratio | None = None,
    goal: Goal = "time",
) -> str:
    """Why the winner is ahead of another: `beats fsdp by 1.8×. 0.9 ms less exposed all-reduce, 12
    MiB more memory`. `proven`: by how much, where both were measured side by side; `goal`: what is
    minimized.
    """
    difference = compared(winner, other)
    name = title or other.name
    if proven is not None:
        verb = f"Beats {name}, {paired_words(proven)}"
    elif difference.ratio < 1:
        takes = f"which takes {_times(difference.ratio)} its time"
        less = _LESS[goal]
        if goal == "time" and (mark := _open_mark(winner, other, difference)) == ABOUT_EVEN:
            less = f"Is {mark} with"
        verb = f"{less} {name}, {takes}"
    else:
        verb = _ahead(winner, other, name, difference)
    by = "" if winner.step or _are_compiled(winner, other) else " by the formula"
    times = _times_apart(difference, by)
    held = _memory_apart(difference)
    if times and winner.plan and winner.tokens != other.tokens:
        times[0] = f"for {numbered(winner.plan.batch, 'sequence')} {times[0]}"
    sentences = [*held, *times] if goal == "memory" else [*times, *held]
    return f"{verb}. {capital(', '.join(sentences))}." if sentences else f"{verb}."


def _ahead(winner: Candidate, other: Candidate, name: str, difference: Difference) -> str:
    """How far a winner is ahead in time of what it was not measured beside."""
    judged = _verdict(winner, other, difference)
    if judged == "faster":
        return f"Beats {name} by {_times(difference.ratio)}"
    if judged == "the same" or difference.ratio == 1:
        return f"Takes the same time as {name}"
    if mark := _open_mark(winner, other, difference):
        verb = f"Is {mark} with" if mark == ABOUT_EVEN else "May beat"
        return f"{verb} {name}, {_less(difference)} apart"
    return f"Takes {_less(difference)} less time than {name}"


def _less(difference: Difference) -> str:
    """The share of the time of the other by which the first is faster."""
    return apart_words(1.0, difference.ratio).removesuffix(" apart")


def _verdict(winner: Candidate, other: Candidate, difference: Difference) -> Verdict | None:
    """The verdict on two candidates by the intervals of their times, for as many tokens; None where
    they are not known in one way.
    """
    spans = winner.span, other.span
    if winner.stage != other.stage or not all(spans):
        return None
    first, second = (
        Estimate(
            low=low / each.tokens,
            estimate=(each.seconds or 0.0) / each.tokens,
            high=high / each.tokens,
        )
        for each in (winner, other)
        for low, high in [each.span or (0.0, 0.0)]
    )
    return predicted_verdict(second, first)


def _open_mark(winner: Candidate, other: Candidate, difference: Difference) -> str:
    """Returns the verdict on candidates whose ranges overlap; "" of others."""
    is_open = _verdict(winner, other, difference) == CANNOT_TELL
    return mark_of(1.0, difference.ratio) if is_open else ""


def _times_apart(difference: Difference, by: str) -> list[str]:
    less = [each for each in difference.seconds if each[1] > 0]
    kinds = [*less, *(each for each in difference.seconds if each[1] <= 0)] if less else []
    parts = [
        f"{seconds_text(abs(seconds))} {'less' if seconds > 0 else 'more'} {share_words(name)}"
        for name, seconds in kinds[:_MOST]
    ]
    explained = sum(seconds for _, seconds in kinds[:_MOST])
    if explained <= 0 or explained < difference.gap_s / 2:  # the reason is another
        return []
    if parts:
        parts[-1] += by
    return parts


def _memory_apart(difference: Difference) -> list[str]:
    if abs(difference.memory_bytes) < 2**20:
        return []
    more = "less" if difference.memory_bytes > 0 else "more"
    return [f"{bytes_text(abs(difference.memory_bytes))} {more} memory"]


def known_by(candidate: Candidate, proof: Proof | None) -> str:
    """The source of its time; `proof` is that of the winner."""
    return (
        "side by side" if proof and candidate.number in proof.numbers else STAGES[candidate.stage]
    )


def why_not(answer: Answer, other: Candidate) -> str:
    """The cost of a candidate, and where it first loses against the winner."""
    winner, proof = answer.winner, answer.proof_of_winner
    if other.stage in ("pruned", "failed"):
        rule = capital(rule_words(other.detail))
        return f"{other.name}: {other.reason or 'failed'}. {rule}.".replace("..", ".")
    if winner is None or other.seconds is None:
        return f"{other.name}: not estimated yet."
    if other.number == winner.number:
        place = "comes first of those that tie" if answer.ties else "is the winner"
        return f"{other.name} {place}: {time_words(other)}."
    difference = compared(winner, other)
    if is_alone_beside(winner, other, proof):
        return f"{other.name}: {time_words(other)}{_memory(other)}; {_ALONE}."
    loses = [(name, seconds) for name, seconds in difference.seconds if seconds > 0]
    first = ""
    if loses:
        per = ""
        if winner.plan and winner.tokens != other.tokens:
            per = f" for {numbered(winner.plan.batch, 'sequence')}"
        first = f"first loses by {seconds_text(loses[0][1])} more {share_words(loses[0][0])}{per}."
    if winner.stage != other.stage:
        first = first and f" By the formula it {first}"
        return f"{other.name}: {_not_compared(other)}.{first}"
    first = first and f" It {first}"
    if _verdict(winner, other, difference) == "the same" or difference.ratio == 1:
        slower = f"the same time as {lead_words(answer)}"
    else:
        times = _times(difference.ratio)
        times = "about" if times == _times(1.0) else times
        slower = f"{times} the time of {lead_words(answer)}"
        if mark := _open_mark(winner, other, difference):
            slower = f"{even_words(mark, lead_words(answer))}, {times} its time"
    if proof and (ratio := proof.ratio_of(other.name)):
        slower = paired_words(ratio) if ratio.differs else near_words(ratio)
        first = first if ratio.differs else ""
    return f"{other.name}: {time_words(other)}{_memory(other)}; {slower}.{first}"


def _memory(candidate: Candidate) -> str:
    held = candidate.memory_bytes
    return f", {bytes_text(held)} per device" if held else ""


def standard_words(answer: Answer, standard: StandardSharding) -> str:
    """A baseline compared with the winner, in a sentence: by the proof if it was measured there.
    ValueError if the answer has no winner.
    """
    winner, proof, each = answer.winner, answer.proof_of_winner, standard.candidate
    title = standard.title.replace(" x ", " × ")
    if winner is None:
        raise ValueError("there is no winner to compare a standard sharding with")
    if each is None and not standard.why and answer.counts["not looked at"]:
        return f"{title}: not among the candidates that were looked at."
    if each is None:
        why = rule_words(standard.why) or "no mesh of these devices is one"
        is_known = standard.is_tried
        what = ("cannot win" if standard.is_slow else "cannot run") if is_known else "not compared"
        return f"{title}: {what}. {capital(why)}.".replace("..", ".")
    if each.number == winner.number:
        return f"{title}: {lead_words(answer)} of the ranking is one of these."
    if standard.title == PIPELINE:
        return f"{title}: {_worth(winner, each)}. {each.name}: {time_words(each)}."
    if winner.stage != each.stage:
        return f"{title}: {each.name}. {_not_compared(each)}."
    if is_alone_beside(winner, each, proof):
        return f"{title}: {each.name}. {time_words(each)}, {_ALONE}."
    ratio = proof.ratio_of(each.name) if proof else None
    if ratio is not None and not ratio.differs:
        return f"{title}: {each.name}. {capital(near_words(ratio))}."
    text = beats(winner, each, "it", ratio, answer.question.minimize)
    return f"{title}: {each.name}. {capital(lead_words(answer))} {text[:1].lower()}{text[1:]}"


def _worth(winner: Candidate, pipeline: Candidate) -> str:
    """Returns whether a pipeline, always an estimate, pays beside the winner for as many tokens."""
    (low, _), (_, high) = pipeline.span or (0.0, 0.0), winner.span or (0.0, 0.0)
    ratio = score(pipeline) / score(winner)
    times = f"{_times(ratio)} the time of the first"
    if low / pipeline.tokens > high / winner.tokens:
        return f"not worth it here, {times}"
    mark = even_words(mark_of(1.0, ratio), "the first")
    return f"{mark}, {_times(ratio)} its time by the estimates"


def _times(ratio: float) -> str:
    return f"{number_text(ratio)}×"


def lead_words(answer: Answer) -> str:
    """What stands first: no winner, where it ties with others."""
    return "the first" if answer.ties else "the winner"


def ties_words(ties: Sequence[Candidate], most: int = 3) -> str:
    """Who ties with the first; "" where nobody does."""
    if not ties:
        return ""
    names = "; ".join(each.name for each in ties[:most])
    more = f" and {len(ties) - most} more" if len(ties) > most else ""
    return f"Tied with the first: {names}{more}."


def _not_compared(other: Candidate) -> str:
    """A candidate that is not known in the way in which the winner is."""
    only = "it" if other.stage == "estimated" else "the first"
    return f"{time_words(other)}{_memory(other)}; not compared, since only {only} is an estimate"

"""The sentences of a search: the winner and how sure, why it wins, what was pruned, why not."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from spmd_core.machine.targets import parse_target
from spmd_core.search.answer import Answer
from spmd_core.search.candidate import Candidate
from spmd_core.search.classics import Classic
from spmd_core.search.compared import Difference, compared
from spmd_core.search.study import FEWEST
from spmd_core.units import bytes_text, count_text, number_text, seconds_text
from spmd_core.words.predictions import share_words

GOALS = {"time": "time per token", "memory": "memory per device",
         "chip-seconds": "chip-seconds per token", "price": "price per token"}
FATES = {"measured": "measured", "compiled": "compiled", "estimated": "estimate",
         "failed": "failed", "pruned": "pruned"}
MEANING = {  # of what is searched, by the kind of its question
    "model": "Every mesh, rematerialization and batch split that fits, estimated per token.",
    "array": "Every mesh and every assignment of its axes, best first."}
_MOST = 3  # kinds of time that a sentence names
_ALIKE = 1.005  # closer than this, two times are the same to a reader


def headline(answer: Answer) -> str:
    """The winner with its number and how sure it is; or that nothing can run, and which rule did
    that.
    """
    winner = answer.winner
    if winner is None:
        return nothing_left(answer)
    return f"{time_words(winner)}: {winner.name}. {sure_words(answer)}"


def time_words(candidate: Candidate) -> str:
    """The best that is known of a candidate's time, number first."""
    said = seconds_text(candidate.seconds)
    if candidate.measured_s is not None:
        return f"{said} measured"
    what = "a step" if candidate.plan else "predicted"
    low, high = candidate.span or (0.0, 0.0)
    return f"{said} {what} ({seconds_text(low)} to {seconds_text(high)})"


def rates_words(targets: Iterable[str], calibrated: Collection[str]) -> tuple[str, ...]:
    """What the estimates of attached targets are made of, each in a sentence."""
    here = [target for target in targets if not parse_target(target).is_absent]
    return tuple(f"Estimates by the calibration of {target}." if target in calibrated else
                 f"{target} is not calibrated: estimates are guesses until something is measured; "
                 f"`python -m spmd_core calibrate --target {target}`, or Collectives, measures its "
                 "rates." for target in here)


def disturbed_words(count: int) -> str:
    """That something else ran while a search measured."""
    what = "1 sharding was" if count == 1 else f"{count_text(count)} shardings were"
    return (f"{what} measured twice, since the times spread: something else ran on this machine; "
            "search again when it is idle.")


def doing(answer: Answer, what: str, spent_s: float) -> str:
    """What a search does now, and how far it is, in a line."""
    counts = Counter(each.fate for each in answer.found)
    known = " ".join(f"{count_text(counts[fate])} {FATES[fate]}," for fate in
                     ("measured", "compiled", "failed") if counts[fate])
    best = f" best {time_words(answer.winner)}" if answer.winner else ""
    return (f"{spent_s:.0f} s  {what}: {count_text(len(answer.found))} of "
            f"{count_text(answer.space)} looked at, {known}{best}").replace("  ", " ")


def sure_words(answer: Answer) -> str:
    """How far the winner can be told from the others."""
    winner, near, proof = answer.winner, answer.ties, answer.proof
    if winner is None:
        return ""
    if proof is not None:
        if proof.rounds < FEWEST:
            many = "1 shuffled round" if proof.rounds == 1 else f"{proof.rounds} shuffled rounds"
            return (f"Measured, and not proven: there was time for {many} against "
                    f"{proof.slower}, {FEWEST} are needed.")
        low, high = proof.interval
        said = (f"{number_text(proof.ratio)}× ({number_text(low)} to {number_text(high)}) in "
                f"{proof.rounds} shuffled rounds")
        if not proof.differs:
            return f"A tie with {proof.slower}: {said}."
        return f"Proven against {proof.slower}: {said}."
    how = {"measured": "Measured", "compiled": "Predicted from the compiled "
           "program"}.get(winner.fate, "Estimated, nothing was compiled")
    if not near:
        several = len(answer.ranking) > 1
        return f"{how}: {'no other is as good' if several else 'nothing else can run'}."
    most = "at least " if len(near) >= 9 else ""  # only the first are compared
    others = f"{len(near)} other{'s' if len(near) > 1 else ''}"
    return f"{how}: a tie with {most}{others} by the intervals."


def nothing_left(answer: Answer) -> str:
    """Which rule emptied the space, with an example of what it says."""
    if not answer.pruned:
        return "Nothing was looked at yet."
    reason, count = next(iter(answer.pruned.items()))
    example = next((each.detail for each in answer.found if each.reason == reason), "")
    fix = {"does not fit": "use more chips, or a smaller batch",
           "does not divide": "use a batch or sizes that divide over the devices",
           "excluded by what is fixed": "fix fewer axes"}.get(reason, "fix less")
    because = f"is {reason}" if reason.startswith("excluded") else reason
    return (f"None of {count_text(answer.space)} candidates can run: {count_text(count)} are "
            f"pruned because each {because} ({example}): {fix}.")


def state_words(answer: Answer) -> str:
    """Whether anything that could still win was left out, and how long it took."""
    took = f", in {seconds_text(answer.seconds)}" if answer.seconds else ""
    if answer.complete:
        return f"Complete: nothing that could win is left out{took}."
    left = answer.space - len(answer.found)
    if left:
        return f"Not complete: {count_text(left)} candidates were not looked at{took}."
    estimated = sum(1 for each in answer.found if each.fate == "estimated")
    return f"Not complete: {count_text(estimated)} candidates are only estimated{took}."


def ranked_words(answer: Answer) -> str:
    """How many candidates stand in how many rows of the ranking, where not all are shown."""
    count = sum(1 + len(entry.alike) for entry in answer.ranking)
    return (f"{count_text(count)} candidates in {count_text(len(answer.ranking))} rows, equal ones "
            "in one: *Every candidate* lists them all.")


def pruned_words(pruned: Mapping[str, int], space: int) -> str:
    """How many of the space were pruned, and why."""
    if not pruned:
        return f"{count_text(space)} candidates, none pruned."
    reasons = "; ".join(f"{count_text(count)} {_reason(reason)}"
                        for reason, count in pruned.items())
    return f"{count_text(space)} candidates, {count_text(sum(pruned.values()))} pruned: {reasons}."


def _reason(reason: str) -> str:
    return {"does not divide": "do not divide", "does not fit": "do not fit in memory",
            "equal to another by renaming": "equal another by renaming",
            "lower bound above the best": "have a lower bound above the best",
            "excluded by what is fixed": "are excluded by what is fixed"}.get(reason, reason)


def beats(winner: Candidate, other: Candidate, title: str | None = None) -> str:
    """Why the winner is ahead of another: `beats fsdp by 1.8×: 0.9 ms less exposed all-reduce, 12
    MiB more memory`.
    """
    found = compared(winner, other)
    name = title or other.name
    if found.ratio < 1 / _ALIKE:
        verb = f"Uses less than {name}, which is {_times(1 / found.ratio)} faster"
    elif found.ratio <= _ALIKE:
        verb = f"As fast as {name}"
    else:
        verb = f"Beats {name} by {_times(found.ratio)}"
    said = _differences(found)
    by = "" if winner.plan or not found.seconds else " by the formula"
    return f"{verb}: {', '.join(said)}{by}." if said else f"{verb}."


def _differences(found: Difference) -> list[str]:
    less = [each for each in found.seconds if each[1] > 0]
    told = [*less, *(each for each in found.seconds if each[1] <= 0)] if less else []
    said = [f"{seconds_text(abs(seconds))} {'less' if seconds > 0 else 'more'} {share_words(name)}"
            for name, seconds in told[:_MOST]]
    if abs(found.memory_bytes) >= 2**20:
        more = "less" if found.memory_bytes > 0 else "more"
        said.append(f"{bytes_text(abs(found.memory_bytes))} {more} memory")
    return said


def why_not(winner: Candidate | None, other: Candidate) -> str:
    """What a candidate costs and where it first loses."""
    if other.fate == "pruned":
        return f"{other.name}: {other.reason}. {_capital(other.detail)}.".replace("..", ".")
    if other.fate == "failed":
        return f"{other.name}: failed. {_capital(other.detail)}"
    if winner is None or other.seconds is None:
        return f"{other.name}: not estimated yet."
    if other.number == winner.number:
        return f"{other.name} is the winner: {time_words(other)}."
    found = compared(winner, other)
    loses = [(name, seconds) for name, seconds in found.seconds if seconds > 0]
    first = (f" It first loses by {seconds_text(loses[0][1])} more {share_words(loses[0][0])}."
             if loses else "")
    slower = f"{_times(found.ratio)} the winner's time" if found.ratio > _ALIKE else \
        "as fast as the winner" if found.ratio >= 1 / _ALIKE else \
        f"faster, {_times(found.ratio)} the winner's time"
    memory = f", {bytes_text(other.memory_bytes)} per device" if other.memory_bytes else ""
    return f"{other.name}: {time_words(other)}{memory}; {slower}.{first}"


def classic_words(winner: Candidate, classic: Classic) -> str:
    """A classic against the winner, in a sentence."""
    if classic.candidate is None:
        why = _capital(classic.why) if classic.why else "no mesh of these devices is one"
        return f"{classic.title}: cannot run. {_capital(why)}.".replace("..", ".")
    if classic.candidate.number == winner.number:
        return f"{classic.title}: the winner is one."
    said = beats(winner, classic.candidate, "it")
    return f"{classic.title}: {classic.candidate.name}. The winner {said[:1].lower()}{said[1:]}"


def ties_words(ties: Sequence[Candidate], most: int = 3) -> str:
    """Who ties with the winner; "" where nobody does."""
    if not ties:
        return ""
    names = "; ".join(each.name for each in ties[:most])
    more = f" and {len(ties) - most} more" if len(ties) > most else ""
    return f"Tied by the intervals: {names}{more}."


def _times(ratio: float) -> str:
    return f"{number_text(ratio)}×"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"

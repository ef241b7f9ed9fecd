"""The best of a program's search beside the program as it is, or as its file has it."""

from collections.abc import Iterator
from dataclasses import dataclass

from spmd_core.advice import program_of
from spmd_core.base import bytes_change, even_seconds, in_one_unit, numbered, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.facts import SAME_ESTIMATE
from spmd_core.search import AS_EXPORTED, Answer, Candidate
from spmd_core.surveys.search.candidates import lead_name
from spmd_core.terms import listed
from spmd_core.workloads import VALUE

_NAMED = 3  # specs that are named where the best drops them


@dataclass(frozen=True)
class Own:
    """What a program takes with the mesh and specs that a search's best would replace.

    Attributes:
      called: what it is: as exported, or as it is.
      experiment: the program with that mesh and those specs.
      seconds: of a step; None where that is not known.
      span: their range.
      memory_bytes: the peak of a device.
    """

    called: str
    experiment: Experiment
    seconds: float | None = None
    span: tuple[float, float] | None = None
    memory_bytes: int | None = None


def as_exported(answer: Answer) -> Own | None:
    """Returns what the mesh and specs of a program's file take, known as well as the winner."""
    winner = answer.winner
    if winner is None or not winner.experiment.exported:
        return None
    standards = (each.candidate for each in answer.standards if each.title == AS_EXPORTED)
    own = next((each for each in standards if each and each.stage == winner.stage), None)
    if own is None:
        return None
    return Own(AS_EXPORTED, own.experiment, own.seconds, own.span, own.memory_bytes)


def time_change(own: Own, winner: Candidate) -> str:
    """Returns the time of a step before and with the best; "" where one of them is not known."""
    if not own.seconds or not winner.seconds:
        return ""
    return in_one_unit(own.seconds, winner.seconds, seconds_text)


def memory_change(own: Own, winner: Candidate) -> str:
    """Returns the peak of a device before and with the best; "" where one of them is not known."""
    if not own.memory_bytes or not winner.memory_bytes:
        return ""
    return bytes_change(own.memory_bytes, winner.memory_bytes)


def is_ahead(own: Own, winner: Candidate) -> bool:
    """Returns True if the best takes less time, by the estimates, than what is the same."""
    if not own.seconds or not winner.seconds or own.experiment.is_alike(winner.experiment):
        return False
    return winner.seconds < (1 - SAME_ESTIMATE) * own.seconds


def is_sure(own: Own, winner: Candidate) -> bool:
    """Returns True if the ranges of both are apart."""
    return bool(own.span and winner.span and winner.span[1] < own.span[0])


def is_used(own: Own, winner: Candidate) -> bool:
    """Returns True if a program has the mesh and specs of the best."""
    return own.experiment.is_alike(winner.experiment)


def is_close(own: Own, winner: Candidate) -> bool:
    """Returns True if the best takes less time by estimates whose ranges overlap."""
    has_ranges = own.span is not None and winner.span is not None
    return has_ranges and is_ahead(own, winner) and not is_sure(own, winner)


def gain_words(answer: Answer, winner: Candidate, own: Own, is_offer: bool = False) -> str:
    """Returns what the best of a program's search gains, then its mesh and specs and how many others
    are about as good, in a sentence; "" where a time is not known. `is_offer`: beside a button that
    names mesh and specs, and with the memory that the best takes.
    """
    if not time_change(own, winner) or own.seconds is None:
        return ""
    change = changes_words(own, winner) if is_offer else time_change(own, winner)
    others = numbered(len(answer.rivals), "other")
    are = "is" if len(answer.rivals) == 1 else "are"
    also = f"; {others} {are} about as good" * bool(answer.rivals)
    so_far = "" if answer.complete else " so far"
    if is_used(own, winner) and own.called != AS_EXPORTED:
        return f"The fastest found{so_far} is in use: {even_seconds(own.seconds)}{also}."
    if not is_ahead(own, winner):
        return f"None is faster{so_far} than {own.called}, {even_seconds(own.seconds)}{also}."
    named = choice_words(own, winner)
    if is_close(own, winner):
        is_among = any(each.experiment.is_alike(own.experiment) for each in answer.rivals)
        number = 1 + len(answer.rivals) + (not is_among)
        close = f"Too close to tell{so_far}: {number} within their ranges, {own.called} among them."
        return f"{change}. {close}" if is_offer else f"{close} The first is {named}."
    may = change if is_sure(own, winner) else f"Perhaps {change}"
    return f"{may}{so_far}{'' if is_offer else f' with {named}'}{also}."


def choice_words(own: Own | None, winner: Candidate) -> str:
    """Returns the mesh and specs of the best; its specs alone where it keeps the mesh."""
    mesh, _, specs = lead_name(winner).partition(", ")
    is_kept = own is not None and dict(own.experiment.mesh) == dict(winner.experiment.mesh)
    parts = [*([] if is_kept else [mesh]), *specs.split(" · ")]
    return ", ".join([each for each in parts if each and each != AS_EXPORTED] or [AS_EXPORTED])


def changes_words(own: Own, winner: Candidate) -> str:
    """Returns the time and the peak of a device before and with the best."""
    held = memory_change(own, winner)
    return ", ".join(filter(None, (time_change(own, winner), held * ("→" in held))))


def dropped_words(own: Own, winner: Candidate) -> str:
    """Returns which changed specs of a program the best has not, in a sentence; "" for none."""
    dropped = list(_dropped(own, winner))
    more = len(dropped) - _NAMED
    named = [*dropped[:_NAMED], *([f"{more} more"] if more > 0 else [])]
    return f"Using it drops your changes of {listed(named)}." if dropped else ""


def _dropped(own: Own, winner: Candidate) -> Iterator[str]:
    mine, its = program_of(own.experiment), program_of(winner.experiment)
    for name, spec in mine.specs if mine and its else ():
        if its and (name, spec) not in its.specs:
            yield name.removeprefix(VALUE)

"""Answers on the collectives of a result, one for each change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.advice.remedies import remedy_words, removal_words, what_words
from spmd_core.base import by_key, firsts_by_key
from spmd_core.facts import Collective, Nothing, Remedy, Removal
from spmd_core.results import Result
from spmd_core.terms import listed


@dataclass(frozen=True, slots=True)
class Answered:
    """What would remove collectives of strategies, or why nothing does.

    Attributes:
      collectives: those that one change removes, or one that no change does.
      removal: the change, with the sentence of all of them.
      strategies: in the order of the result.
    """

    collectives: tuple[Collective, ...]
    removal: Removal
    strategies: tuple[str, ...]

    @property
    def what(self) -> str:
        """E.g. "all-gather over `x` and all-reduce over `y`"."""
        return listed(list(dict.fromkeys(map(what_words, self.collectives))))


def answers_of(result: Result, names: Sequence[str]) -> list[Answered]:
    """Returns the answers of strategies, those that save the most predicted time first; of a
    collective that nothing is proven to remove one answer, where there is one with a change that may.
    """
    groups = by_key(
        (_key(each, each.remove), (name, each))
        for name in names
        for each in result.strategies[name].collectives or ()
        if each.remove is not None
    )
    return sorted((_answered(result, group) for group in groups.values()), key=_by_gain)


def _key(each: Collective, removal: Removal) -> object:
    """Returns what answers have in common that are one: the change, or the collective and why."""
    if isinstance(removal, Remedy) and removal.changes:
        change = tuple(each.model_dump_json() for each in removal.changes)
        return change, removal.predicted_s, removal.measured_s
    is_open = isinstance(removal, Nothing) and not removal.is_small
    return what_words(each), "" if is_open else removal_words(removal)


def _answered(result: Result, group: Sequence[tuple[str, Collective]]) -> Answered:
    names = tuple(dict.fromkeys(name for name, _ in group))
    collectives = list(firsts_by_key((what_words(each), each) for _, each in group).values())
    removals = [each.remove for _, each in group]
    known = [each for each in removals if each and each.experiment is not None]
    removal = (known or removals)[0]
    assert removal is not None
    if isinstance(removal, Remedy) and removal.changes and len(collectives) > 1:
        base = result.row(names[0]).experiment
        sentence = remedy_words(list(_remedies(collectives)), base)
        removal = removal.model_copy(update={"sentence": sentence})
    return Answered(tuple(collectives), removal, names)


def _remedies(collectives: Sequence[Collective]) -> Iterator[tuple[Remedy, Collective]]:
    for each in collectives:
        if isinstance(each.remove, Remedy):
            yield each.remove, each


def _by_gain(each: Answered) -> tuple[int, float]:
    """Returns the place of an answer: changes by the share of the time that they leave, then those
    that may help, then what nothing removes.
    """
    removal = each.removal
    if isinstance(removal, Remedy):
        seconds = removal.measured_s or removal.predicted_s
        return 0, seconds.after / seconds.before if seconds.before else 1.0
    if removal.experiment is not None:
        return 1, 0.0
    return (3 if removal.is_small else 2), 0.0

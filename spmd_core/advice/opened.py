"""The findings that a change opens: advice that is called wrong once it is taken."""

from collections.abc import Collection, Iterable

from spmd_core.advice.ring_words import RING_KINDS
from spmd_core.results import StepFinding
from spmd_core.workloads import VALUE, matches


def opened(
    before: Iterable[StepFinding], after: Iterable[StepFinding], names: Collection[str]
) -> list[StepFinding]:
    """Returns the findings after a change that it opens: of a kind that the program did not have, or
    with a name that the change gives another spec. One of a kind that was there and moved to another
    line is not.

    Args:
      before: the findings of the program as it was.
      after: those with the change.
      names: the patterns of arguments, or @file:line of values, that it gives other specs.
    """
    known = {(each.kind, each.path) for each in before}
    kinds = {kind for kind, _ in known}
    new = [
        each
        for each in after
        if (each.kind, each.path) not in known and each.kind not in RING_KINDS
    ]
    return [
        each
        for each in new
        if each.kind not in kinds or any(_is_named(each, name) for name in names)
    ]


def _is_named(each: StepFinding, name: str) -> bool:
    paths = (each.path, *(of for of, _ in each.specs))
    line = name.removeprefix(VALUE)
    return name in paths or line in paths or any(matches(name, path) for path in paths)

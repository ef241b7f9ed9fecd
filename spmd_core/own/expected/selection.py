"""The collectives of a step that an expectation is of: by kind, mesh axis, and place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from spmd_core.base import mesh_text, refuse, shorten
from spmd_core.results import StepCollective, StepDescription

ANY = "*"
KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
    "send",
)
Axes = str | Sequence[str] | None


@dataclass(frozen=True)
class Selection:
    """Which collectives: of a kind, over all of these axes (`only`: and no others), in a scope,
    function or file.
    """

    kind: str = ANY
    over: Axes = None
    only: Axes = None
    within: str | None = None

    def of(self, step: StepDescription, is_request: bool) -> tuple[StepCollective, ...]:
        """Returns those of a step.

        Args:
            step: the description of the step.
            is_request: whether kinds are those that the program requests; else as compiled.

        Raises:
            RequestError: there is no such kind, or no such axis in the step's mesh.
        """
        if self.kind not in (ANY, *KINDS):
            fix = f"use one of {', '.join(KINDS)}, or *"
            raise refuse(f"kind {shorten(self.kind)}", "is no collective", fix)
        over, only = _axes(self.over, step), _axes(self.only, step)
        return tuple(
            each
            for each in step.collectives or ()
            if self.kind in (ANY, kind_of(each, is_request))
            and (over is None or over <= set(each.axes))
            and (only is None or only == set(each.axes))
            and (self.within is None or is_within(each, self.within))
        )

    def __str__(self) -> str:
        what = "collective" if self.kind == ANY else self.kind
        what += f" over {_words(self.over)}" if self.over else ""
        what += f" over {_words(self.only)} only" if self.only else ""
        return what + (f" within {self.within}" if self.within else "")


def kind_of(each: StepCollective, is_request: bool) -> str:
    """The kind that a program requests, or the one that is compiled."""
    return (each.asked or each.kind) if is_request else each.kind


def is_within(each: StepCollective, pattern: str) -> bool:
    """Whether a pattern matches the scope of a collective or a part of its path, its qualified
    function or the last part of that name, or the end of its file's path.
    """
    return any(fnmatchcase(name, pattern) for name in _places(each))


def _places(each: StepCollective) -> Iterator[str]:
    scopes = each.scope.split("/") if each.scope else []
    for start in range(len(scopes)):
        for end in range(start + 1, len(scopes) + 1):
            yield "/".join(scopes[start:end])
            if not start:
                yield "/" + "/".join(scopes[:end])  # so that `*/attention` matches `attention`
    yield each.function
    yield each.function.rpartition(".")[2]
    path = (each.source or "").rpartition(":")[0].split("/")
    yield from ("/".join(path[start:]) for start in range(len(path)))


def _axes(given: Axes, step: StepDescription) -> frozenset[str] | None:
    if given is None:
        return None
    axes = frozenset([given] if isinstance(given, str) else given)
    known = [name for name, _ in step.mesh]
    for axis in sorted(axes.difference(known)):
        fix = f"use one of {mesh_text(step.mesh)}" if known else "run the step on a mesh"
        raise refuse(f"axis {shorten(axis)}", "is not in the mesh of this step", fix)
    return axes


def _words(axes: Axes) -> str:
    return axes if isinstance(axes, str) else ", ".join(axes or ())

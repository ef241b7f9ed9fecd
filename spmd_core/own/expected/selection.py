"""What an expectation is of, as its author writes it: collectives by kind, mesh axis and place;
limits such as `3 GiB` and `30 ms`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from spmd_core.base import RequestError, mesh_text, refuse, shorten
from spmd_core.own.changed.golden import kind_of
from spmd_core.own.explanation import Explanation
from spmd_core.results import Place, StepCollective, StepDescription

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

    def of(self, step: Explanation, is_request: bool) -> tuple[StepCollective, ...]:
        """Returns those of a step.

        Args:
            step: the description of the step.
            is_request: whether kinds are those that the program requests; else as compiled.

        Raises:
            RequestError: there is no such kind, no such axis in the step's mesh, or nothing of the
                step is within the scope.
        """
        if self.kind not in (ANY, *KINDS):
            fix = f"use one of {', '.join(KINDS)}, or *"
            raise refuse(f"kind {shorten(self.kind)}", "is no collective", fix)
        over, only = _axes(self.over, step), _axes(self.only, step)
        there = step.collectives or ()
        if self.within is not None:
            within = [each for each in there if is_within(each.place, self.within)]
            if not within and not any(is_within(each, self.within) for each in step.places()):
                raise _nowhere(self.within, step.places())
            there = within
        return tuple(
            each
            for each in there
            if self.kind in (ANY, kind_of(each, is_request))
            and (over is None or over <= set(each.axes))
            and (only is None or only == set(each.axes))
        )

    def __str__(self) -> str:
        what = "collective" if self.kind == ANY else self.kind
        what += f" over {_words(self.over)}" if self.over else ""
        what += f" over {_words(self.only)} only" if self.only else ""
        return what + (f" within {self.within}" if self.within else "")


def is_within(each: Place, pattern: str) -> bool:
    """Whether a pattern matches the scope of an operation or a part of its path, its qualified
    function or the last part of that name, or the end of its file's path.
    """
    return any(fnmatchcase(name, pattern) for name in _places(each))


def _places(each: Place) -> Iterator[str]:
    scopes = each.scope.split("/") if each.scope else []
    for start in range(len(scopes)):
        for end in range(start + 1, len(scopes) + 1):
            yield "/".join(scopes[start:end])
            if not start:
                yield "/" + "/".join(scopes[:end])  # so that `*/attention` matches `attention`
    yield each.function
    yield each.function.rpartition(".")[2]
    path = each.source.rpartition(":")[0].split("/")
    yield from ("/".join(path[start:]) for start in range(len(path)))


def _nowhere(within: str, places: Collection[Place]) -> RequestError:
    known = sorted({each.scope for each in places if each.scope}) or sorted({each.function for each in places})  # fmt: skip
    fix = f"there are {', '.join(known[:6])}, …"
    return refuse(f"within={shorten(within)}", "is no scope, function or file of this step", fix)


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


_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-zµ]*)")
_BINARY = {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}
_DECIMAL = {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)}
_BYTES = {"": 1, "B": 1, "KB": 1000} | _BINARY | _DECIMAL
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def bytes_of(limit: str | float) -> int:
    """Returns the bytes of a number or a text such as `3 GiB` or `1.2 GB`."""
    return int(_value(limit, _BYTES, "a number of bytes", '"3 GiB"'))


def seconds_of(limit: str | float) -> float:
    """Returns the seconds of a number or a text such as `30 ms`."""
    return _value(limit, _SECONDS, "a time", '"30 ms"')


def _value(limit: str | float, units: Mapping[str, float], what: str, example: str) -> float:
    match = _NUMBER.fullmatch(str(limit).strip())
    if match is None or match[2] not in units:
        raise refuse(f"{shorten(limit)}", f"is not {what}", f"write it as {example}")
    return float(match[1]) * units[match[2]]

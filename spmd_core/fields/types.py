"""Types that every part of an experiment shares."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

DRAWS = ("normal", "arange", "ones")  # what operands may be filled with

MemoryKind = Literal["device", "pinned_host"]

Axes = tuple[str, ...]  # mesh axes that shard one dim, major first; () means not sharded

Spec = tuple[Axes, ...]  # one entry per dim

Mesh = tuple[tuple[str, int], ...]  # (axis, size), in order

Fields = Mapping[str, Any]  # fields of an experiment by name, as `reading` gives them


def axes_json(axes: Axes) -> str | list[str] | None:
    """Axes in JSON form: None, one axis, or a list of axes."""
    if not axes:
        return None
    return axes[0] if len(axes) == 1 else list(axes)


def axes_of(entry: str | Sequence[str] | None) -> Axes:
    """Axes from their JSON form.

    >>> axes_of(None), axes_of("x"), axes_of(["x", "y"])
    ((), ('x',), ('x', 'y'))
    """
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def padded(spec: Spec, rank: int) -> Spec:
    """A spec with an entry for every dim, as JAX takes a shorter one: the last ones may be left out."""
    return (*spec, *((),) * (rank - len(spec)))

"""The words that every part of an experiment shares."""

from typing import Literal

Axes = tuple[str, ...]  # mesh axes that cut one dim, major first; () means not sharded

Spec = tuple[Axes, ...]  # one entry per dim

MemoryKind = Literal["device", "pinned_host"]


def axes_json(axes: Axes) -> str | list[str] | None:
    """Axes as JSON writes them: None, one axis, or a list of axes."""
    if not axes:
        return None
    return axes[0] if len(axes) == 1 else list(axes)

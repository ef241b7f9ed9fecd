"""Collectives and arrays in the words of a review comment."""

from collections.abc import Sequence

from spmd_core.base import bytes_text
from spmd_core.results import StepArray, StepCollective
from spmd_core.words import own_words


def comment(
    group: Sequence[StepCollective], is_request: bool, since: str | None = None, was: str = ""
) -> str:
    """Returns kind, axes, bytes a step, place and reason of collectives of one line.

    >>> each = StepCollective(kind="all-gather", axes=("x",), count=1, bytes=2048, dtype="int8",
    ...     source="model.py:88", line="h = h @ w", function="loss")
    >>> comment([each], True, "w lost its axis")
    'all-gather over x, 2.0 KiB a step, int8, model.py:88  h = h @ w, in loss, since w lost its axis'
    """
    first = group[0]
    over = ", ".join(first.axes) or "no axis"
    unknown = " or more" if any(each.count is None for each in group) else ""
    size = bytes_text(sum(each.bytes_total or each.bytes for each in group))
    times = f" in {len(group)} collectives" if len(group) > 1 else ""
    words = [
        f"{kind_of(first, is_request)} over {over}",
        f"{size}{unknown} a step{times}{was}",
        first.dtype,
    ]
    if first.source:
        words.append(f"{first.source}  {first.line}".rstrip())
    if first.function:
        words.append(f"in {first.function}")
    origins = [origin for each in group for origin in each.origin]
    is_named, since = bool(since), since or next((each.reason for each in group if each.reason), "")
    is_named = is_named or any(each.name and each.name in since for each in origins)
    if not is_named and (put := own_words(origins)):
        words.append(f"set by {put.replace('`', '')}")
    if since:
        words.append(f"since {since.replace('`', '')}")
    return ", ".join(words)


def array_text(each: StepArray) -> str:
    """Element type and sizes.

    >>> array_text(StepArray(path="w", shape=(8, 4), dtype="int8", spec=None, bytes=32,
    ...     bytes_per_device=None, copies=None))
    'int8[8,4]'
    """
    return f"{each.dtype}[{','.join(map(str, each.shape))}]"


def kind_of(each: StepCollective, is_request: bool) -> str:
    """The kind that a program requests, or the one that is compiled."""
    return (each.asked or each.kind) if is_request else each.kind

"""What changed between two descriptions of a step, as review comments; renames are apart from
changes. Of the one before, its golden is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spmd_core.base import by_key, bytes_text, mesh_text, refuse, seconds_text
from spmd_core.facts import SAME_ESTIMATE, SAME_PEAK
from spmd_core.own.changed.changed_arrays import ArrayChange, array_changes
from spmd_core.own.changed.golden import (
    FIELDS,
    REQUEST,
    UPDATE,
    Golden,
    GoldenCollective,
    golden_collectives,
    golden_of,
    kind_of,
)
from spmd_core.results import StepCollective, StepDescription
from spmd_core.words import own_words


@dataclass(frozen=True)
class Changes:
    """What differs (`changed`), and what has another name or is on another line (`renamed`)."""

    changed: tuple[str, ...]
    renamed: tuple[str, ...]


def between(before: StepDescription, after: StepDescription) -> Changes:
    """Returns what changed from a description to another one, of any mesh, target and versions."""
    rows = _changed_rows(golden_of(before, "", before.target), after, FIELDS)
    figures = _figures(before, after)
    return Changes(
        (*_meshes(before, after), *rows.changed, *_findings(before, after), *figures), rows.renamed
    )


def _meshes(before: StepDescription, after: StepDescription) -> Iterator[str]:
    for name in ("target", "mesh", "fits"):
        was, now = (getattr(each, name) for each in (before, after))
        if was != now:
            words = [mesh_text(each) or "none" if name == "mesh" else each for each in (was, now)]
            yield f"changed: {name} was {words[0]}, now {words[1]}"


def _findings(before: StepDescription, after: StepDescription) -> Iterator[str]:
    first, second = ({each.sentence for each in step.findings} for step in (before, after))
    yield from (f"new: {sentence}" for sentence in sorted(second - first))
    yield from (f"gone: {sentence}" for sentence in sorted(first - second))


def _figures(before: StepDescription, after: StepDescription) -> Iterator[str]:
    held = [each.peak_bytes for each in (before, after)]
    if _differ(held[0], held[1], SAME_PEAK):
        yield f"changed: peak was {bytes_text(held[0])}, now {bytes_text(held[1])}"
    times = [each.predicted_s and each.predicted_s.estimate for each in (before, after)]
    if _differ(times[0], times[1], SAME_ESTIMATE):  # pyrefly: ignore[bad-argument-type]
        yield f"changed: predicted time was {seconds_text(times[0])}, now {seconds_text(times[1])}"


def _differ(was: float | None, now: float | None, tolerance: float) -> bool:
    return was is not now if was is None or now is None else abs(now - was) > tolerance * was


def changes(
    golden: Golden, step: StepDescription, path: str, compare: Sequence[str] = FIELDS
) -> Changes:
    """Returns what changed in a step since its golden.

    Args:
        golden: the step as it was.
        step: the description of the step now.
        path: the path of the golden, for messages.
        compare: the parts of collectives that are compared, of `kind`, `axes`, `dtype` and `bytes`; shapes of
            arrays are compared with bytes, and their element types with `dtype`.

    Raises:
        RequestError: the step has another mesh, or there is no such field to compare.
    """
    for each in compare:
        if each not in FIELDS:
            raise refuse(f"compare={each!r}", "is no field of a golden", f"use {', '.join(FIELDS)}")
    now = golden_of(step, golden.test, golden.of)
    if now.mesh != golden.mesh:
        rule = f"is of mesh {golden.mesh or 'none'}, and this step has {now.mesh or 'none'}"
        raise refuse(f"golden {path}", rule, f"use that mesh, or {UPDATE}")
    rows = _changed_rows(golden, step, compare)
    return Changes((*rows.changed, *_peak(golden, now)), rows.renamed)


def _peak(golden: Golden, now: Golden) -> list[str]:
    """Peaks are of a compiler: those of two versions are not compared."""
    packages = ("jaxlib", "libtpu")
    is_same = all(golden.versions.get(name) == now.versions.get(name) for name in packages)
    if golden.peak_bytes is None or not is_same or golden.peak_bytes == now.peak_bytes:
        return []
    was, peak = (bytes_text(each.peak_bytes) for each in (golden, now))
    return [f"changed: peak on {golden.of} was {was}, now {peak} a device"]


def _changed_rows(golden: Golden, step: StepDescription, compare: Sequence[str]) -> Changes:
    renamed: list[str] = []
    arguments = array_changes("argument", golden.arguments, step.arguments, compare, renamed)
    results = array_changes("result", golden.results, step.outputs, compare, renamed)
    listed = [each.sentence for each in (*arguments, *results)]
    listed += _collectives(golden, step, arguments, compare, renamed)
    types = ", ".join(step.axis_types)
    if types != golden.axis_types:
        listed.append(
            f"changed: axis types were {golden.axis_types or 'none'}, now {types or 'none'}"
        )
    return Changes(tuple(listed), tuple(dict.fromkeys(renamed)))


def _collectives(
    golden: Golden,
    step: StepDescription,
    arrays: Sequence[ArrayChange],
    compare: Sequence[str],
    renamed: list[str],
) -> list[str]:
    is_request = golden.of == REQUEST
    before, after = list(golden.collectives), list(golden_collectives(step.collectives or (), is_request))  # fmt: skip
    facts = lambda row: tuple(getattr(row, name) for name in compare)  # noqa: E731
    place = lambda row: (row.function, row.line)  # noqa: E731
    _paired(before, after, lambda row: (facts(row), place(row)))
    # another JAX may name the function of a line otherwise
    _paired(before, after, lambda row: (facts(row), row.line))
    for was, now in _paired(before, after, facts):
        renamed.append(f"moved: {now.kind} over {_over(now)}, {was.line} -> {now.line}".rstrip())
    _without_equal_sums(before, after, compare)
    listed = []
    for was, now in _paired(before, after, lambda row: (row.kind, row.axes, place(row))):
        before_it = f" (was {bytes_text(was.bytes)} of {was.dtype})"
        listed.append(f"changed: {_comment(now, step, is_request, arrays, before_it)}")
    listed += [f"new: {_comment(row, step, is_request, arrays)}" for row in after]
    return listed + [
        f"gone: {row.kind} over {_over(row)}, {bytes_text(row.bytes)} a step, {row.dtype}, "
        f"{row.at}  {row.line}"
        for row in before
    ]


def _over(row: GoldenCollective) -> str:
    return ", ".join(row.axes) or "no axis"


def _paired(
    before: list[GoldenCollective],
    after: list[GoldenCollective],
    key: Callable[[GoldenCollective], object],
) -> list[tuple[GoldenCollective, GoldenCollective]]:
    """Takes pairs of rows with equal keys out of both lists, and returns them."""
    pairs = []
    for row in list(before):
        other = next((each for each in after if key(each) == key(row)), None)
        if other is not None:
            before.remove(row)
            after.remove(other)
            pairs.append((row, other))
    return pairs


def _without_equal_sums(
    before: list[GoldenCollective], after: list[GoldenCollective], compare: Sequence[str]
) -> None:
    """Takes out rows that are of other lines and equal in sum: a line was divided, or two joined."""
    names = [name for name in compare if name != "bytes"]
    key = lambda row: tuple(getattr(row, name) for name in names)  # noqa: E731
    for group in {key(row) for row in before} & {key(row) for row in after}:
        first, second = ([row for row in rows if key(row) == group] for rows in (before, after))
        sums = [[row.bytes for row in rows] for rows in (first, second)]
        if "bytes" not in compare or (
            not any(None in each for each in sums)
            and sum(filter(None, sums[0])) == sum(filter(None, sums[1]))
        ):
            before[:] = [row for row in before if row not in first]
            after[:] = [row for row in after if row not in second]


def _comment(
    row: GoldenCollective,
    step: StepDescription,
    is_request: bool,
    arrays: Iterable[ArrayChange],
    was: str = "",
) -> str:
    groups = by_key(
        ((kind_of(each, is_request), each.axes, each.dtype, each.function, each.line), each)
        for each in step.collectives or ()
    )
    group: Sequence[StepCollective] = groups[row.kind, row.axes, row.dtype, row.function, row.line]
    changed = list(arrays)
    reasons = " ".join(each.reason or "" for each in group)
    origins = {origin.name for each in group for origin in each.origin}
    named = [each for each in changed if each.path in origins or f"`{each.path}`" in reasons]
    causes = named or (changed if len({each.path for each in changed}) == 1 else [])
    since = causes[0].sentence.partition(": ")[2] if causes else None
    return comment(group, is_request, since, was)


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

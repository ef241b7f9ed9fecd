"""What changed in a step since its golden, as review comments; renames are apart from changes."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from os.path import commonpath

from spmd_core.base import by_key, bytes_text, refuse
from spmd_core.experiment import matches
from spmd_core.own.expected.golden import (
    REQUEST,
    UPDATE,
    Golden,
    GoldenArray,
    GoldenCollective,
    golden_array,
    golden_arrays,
    golden_collectives,
    golden_of,
)
from spmd_core.own.expected.review import comment
from spmd_core.own.expected.selection import kind_of
from spmd_core.results import StepArray, StepCollective, StepDescription

FIELDS = ("kind", "axes", "dtype", "bytes")  # of a collective, that may be compared


@dataclass(frozen=True)
class Changes:
    """What differs (`changed`), and what has another name or is on another line (`renamed`)."""

    changed: tuple[str, ...]
    renamed: tuple[str, ...]


@dataclass(frozen=True)
class _ArrayChange:
    path: str
    sentence: str


def changes(
    golden: Golden, step: StepDescription, path: str, compare: Sequence[str] = FIELDS
) -> Changes:
    """Returns what changed in a step.

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
    renamed: list[str] = []
    arguments = _arrays("argument", golden.arguments, step.arguments, compare, renamed)
    results = _arrays("result", golden.results, step.outputs, compare, renamed)
    listed = [each.sentence for each in (*arguments, *results)]
    listed += _collectives(golden, step, arguments, compare, renamed)
    if now.axis_types != golden.axis_types:
        listed.append(f"changed: axis types were {golden.axis_types}, now {now.axis_types}")
    listed += _peak(golden, now)
    return Changes(tuple(listed), tuple(dict.fromkeys(renamed)))


def _peak(golden: Golden, now: Golden) -> list[str]:
    """Peaks are of a compiler: those of two versions are not compared."""
    packages = ("jaxlib", "libtpu")
    is_same = all(golden.versions.get(name) == now.versions.get(name) for name in packages)
    if golden.peak_bytes is None or not is_same or golden.peak_bytes == now.peak_bytes:
        return []
    was, peak = (bytes_text(each.peak_bytes) for each in (golden, now))
    return [f"changed: peak on {golden.of} was {was}, now {peak} a device"]


def _arrays(
    word: str,
    rows: Sequence[GoldenArray],
    arrays: Sequence[StepArray],
    compare: Sequence[str],
    renamed: list[str],
) -> list[_ArrayChange]:
    """Compares arrays with the rows of their paths; those without one are renamed or new."""
    by_path = {row.path: row for row in rows}
    starred = [row for row in rows if row.arrays > 1]
    counted: Counter[str] = Counter()
    changed: dict[str, list[str]] = {}
    extra = []
    for each in arrays:
        row = by_path.get(each.path) or next(
            (row for row in starred if matches(row.path, each.path)), None
        )
        if row is None:
            extra.append(each)
            continue
        counted[row.path] += 1
        for words in _differing(row, golden_array(each), compare):
            changed.setdefault(words, []).append(each.path)
    listed = [_ArrayChange(*_named(paths, words)) for words, paths in changed.items()]
    if "bytes" in compare:
        listed += [
            _ArrayChange(row.path, f"changed: {row.path} was {row.arrays} arrays, now {count}")
            for row in starred
            if (count := counted[row.path]) not in (0, row.arrays)
        ]
    gone = [row for row in rows if not counted[row.path]]
    return listed + _renamed(word, gone, golden_arrays(extra), compare, renamed)


def _named(paths: Sequence[str], words: str) -> tuple[str, str]:
    """The path of arrays that changed alike, and their sentence: several share what they begin with."""
    if len(paths) == 1:
        return paths[0], f"changed: {paths[0]} {words}"
    begin = commonpath(paths)
    name = f"{begin}/**" if begin else ", ".join(paths)
    return paths[0], f"changed: {name} ({len(paths)} arrays) {words}"


def _differing(row: GoldenArray, now: GoldenArray, compare: Sequence[str]) -> list[str]:
    words = []
    if row.spec != now.spec:
        words.append(_spec_words(row.spec, now.spec))
    if row.donated != now.donated:
        words.append("is donated, and was not" if now.donated else "is not donated any more")
    (dtype, _, shape), (now_dtype, _, now_shape) = (
        each.array.partition("[") for each in (row, now)
    )
    is_other = ("dtype" in compare and dtype != now_dtype) or (
        "bytes" in compare and shape != now_shape
    )
    return [*words, *([f"was {row.array}, now {now.array}"] if is_other else [])]


def _spec_words(was: str, now: str) -> str:
    """Two specs, and the mesh axes that one of them lacks.

    >>> _spec_words("P('fsdp', 'tensor')", "P('fsdp', None)")
    'lost its axis "tensor" (was P(\\'fsdp\\', \\'tensor\\'), now P(\\'fsdp\\', None))'
    """
    before, after = (set(spec.split("'")[1::2]) for spec in (was, now))
    lost, gained = (", ".join(f'"{each}"' for each in sorted(axes)) for axes in (before - after, after - before))  # fmt: skip
    parts = [f"lost its {_axes_word(lost)} {lost}"] if lost else []
    parts += [f"gained the {_axes_word(gained)} {gained}"] if gained else []
    return f"{' and '.join(parts) or 'has another spec'} (was {was}, now {now})"


def _axes_word(axes: str) -> str:
    return "axes" if "," in axes else "axis"


def _renamed(
    word: str,
    gone: Sequence[GoldenArray],
    extra: Sequence[GoldenArray],
    compare: Sequence[str],
    renamed: list[str],
) -> list[_ArrayChange]:
    """Pairs rows that are gone with new ones: those that are otherwise equal have another name."""
    left, changed = list(extra), list[_ArrayChange]()
    names: list[tuple[str, str]] = []
    waiting = list(gone)
    is_alike: Callable[[GoldenArray, GoldenArray], bool] = lambda a, b: a.arrays == b.arrays  # noqa: E731
    rounds = (
        lambda a, b: is_alike(a, b) and not _differing(a, b, FIELDS),
        lambda a, b: is_alike(a, b) and not _differing(a, b, compare),
        lambda a, b: is_alike(a, b) and a.array == b.array and _last(a) == _last(b),
    )
    for is_pair in rounds:
        for row in list(waiting):
            if pairs := [each for each in left if is_pair(row, each)]:
                other = max(pairs, key=lambda each: _likeness(row.path, each.path))
                waiting.remove(row)
                left.remove(other)
                names.append((row.path, other.path))
                changed += [
                    _ArrayChange(other.path, f"changed: {other.path} (was {row.path}) {words}")
                    for words in _differing(row, other, compare)
                ]
    renamed += [f"renamed: {was} -> {now}" for was, now in dict.fromkeys(map(_shortest, names))]
    changed += [_ArrayChange(row.path, f"gone: {word} {row.path} {row.array} {row.spec}") for row in waiting]  # fmt: skip
    return changed + [
        _ArrayChange(row.path, f"new: {word} {row.path} {row.array} {row.spec}") for row in left
    ]


def _last(row: GoldenArray) -> str:
    return row.path.rpartition("/")[2]


def _likeness(one: str, another: str) -> float:
    return SequenceMatcher(None, one, another).ratio()


def _shortest(names: tuple[str, str]) -> tuple[str, str]:
    """Two paths without what they end with alike: a renamed argument is one rename."""
    one, another = (path.split("/") for path in names)
    while len(one) > 1 and len(another) > 1 and one[-1] == another[-1]:
        one.pop()
        another.pop()
    return "/".join(one), "/".join(another)


def _collectives(
    golden: Golden,
    step: StepDescription,
    arrays: Sequence[_ArrayChange],
    compare: Sequence[str],
    renamed: list[str],
) -> list[str]:
    is_request = golden.of == REQUEST
    before, after = list(golden.collectives), list(golden_collectives(step.collectives or (), is_request))  # fmt: skip
    facts = lambda row: tuple(getattr(row, name) for name in compare)  # noqa: E731
    place = lambda row: (row.function, row.line)  # noqa: E731
    _paired(before, after, lambda row: (facts(row), place(row)))
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
    arrays: Iterable[_ArrayChange],
    was: str = "",
) -> str:
    """A row as a review comment, with the changed argument that its reason names, or the only one."""
    groups = by_key(
        ((kind_of(each, is_request), each.axes, each.dtype, each.function, each.line), each)
        for each in step.collectives or ()
    )
    group: Sequence[StepCollective] = groups[row.kind, row.axes, row.dtype, row.function, row.line]
    changed = list(arrays)
    reasons = " ".join(each.reason or "" for each in group)
    named = [each for each in changed if f"`{each.path}`" in reasons]
    causes = named or (changed if len({each.path for each in changed}) == 1 else [])
    since = causes[0].sentence.partition(": ")[2] if causes else None
    return comment(group, is_request, since, was)

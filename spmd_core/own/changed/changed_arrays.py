"""What changed in the arrays of a step: specs, donations, shapes; renames are apart from changes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from os.path import commonpath

from spmd_core.base import by_key, numbered
from spmd_core.own.changed.golden import FIELDS, GoldenArray, golden_array, golden_arrays
from spmd_core.results import StepArray
from spmd_core.workloads import matches

_MOST = 3  # kinds of arrays that a sentence names


@dataclass(frozen=True)
class ArrayChange:
    """A review comment, and the path of the array that it is of."""

    path: str
    sentence: str


def array_changes(
    word: str,
    rows: Sequence[GoldenArray],
    arrays: Sequence[StepArray],
    compare: Sequence[str],
    renamed: list[str],
) -> list[ArrayChange]:
    """Compares arrays with the rows of their paths; those without one are renamed or new."""
    by_path = {row.path: row for row in rows}
    starred = [row for row in rows if row.arrays > 1]
    counted: Counter[str] = Counter()
    changed: dict[str, dict[str, str]] = {}  # what changed -> paths, each with that of its row
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
            changed.setdefault(words, {})[each.path] = row.path
    listed = [ArrayChange(*_named(paths, words)) for words, paths in changed.items()]
    if "bytes" in compare:
        listed += [
            ArrayChange(row.path, f"changed: {row.path} was {row.arrays} arrays, now {count}")
            for row in starred
            if (count := counted[row.path]) not in (0, row.arrays)
        ]
    gone = [row for row in rows if not counted[row.path]]
    return listed + _renamed(word, gone, golden_arrays(extra), compare, renamed)


def _named(rows: Mapping[str, str], words: str) -> tuple[str, str]:
    """The first path of arrays that changed alike, and their sentence: it names the rows of a few
    kinds of arrays, and of many what they begin with.
    """
    paths, names = list(rows), list(dict.fromkeys(rows.values()))
    if len(paths) == 1:
        return paths[0], f"changed: {paths[0]} {words}"
    if len(names) > _MOST:
        begin = commonpath(paths)
        roots = by_key((begin or each.partition("/")[0], each) for each in paths)
        names = [f"{root}/**" if len(under) > 1 else under[0] for root, under in roots.items()]
    return paths[0], f"changed: {', '.join(names)} ({numbered(len(paths), 'array')}) {words}"


def _differing(row: GoldenArray, now: GoldenArray, compare: Sequence[str]) -> list[str]:
    words = []
    if row.spec != now.spec and "unknown" not in (row.spec, now.spec):
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
) -> list[ArrayChange]:
    """Pairs rows that are gone with new ones: those that are otherwise equal have another name."""
    left, changed = list(extra), list[ArrayChange]()
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
                other = max(
                    pairs, key=lambda each: SequenceMatcher(None, row.path, each.path).ratio()
                )
                waiting.remove(row)
                left.remove(other)
                names.append((row.path, other.path))
                changed += [
                    ArrayChange(other.path, f"changed: {other.path} (was {row.path}) {words}")
                    for words in _differing(row, other, compare)
                ]
    renamed += [f"renamed: {was} -> {now}" for was, now in dict.fromkeys(map(_shortest, names))]
    changed += [ArrayChange(row.path, f"gone: {word} {row.path} {row.array} {row.spec}") for row in waiting]  # fmt: skip
    return changed + [
        ArrayChange(row.path, f"new: {word} {row.path} {row.array} {row.spec}") for row in left
    ]


def _last(row: GoldenArray) -> str:
    return row.path.rpartition("/")[2]


def _shortest(names: tuple[str, str]) -> tuple[str, str]:
    """Two paths without what they end with alike: a renamed argument is one rename."""
    one, another = (path.split("/") for path in names)
    while len(one) > 1 and len(another) > 1 and one[-1] == another[-1]:
        one.pop()
        another.pop()
    return "/".join(one), "/".join(another)

"""Patterns of paths, with `*` for the number of a layer in any word."""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache

from spmd_core.base import by_key
from spmd_core.workloads.exported.state import Array

LAYERS, MATRICES = 3, 2  # the fewest that make a number inside a word that of a layer
_DIGITS = "0123456789"
_NUMBER, _PART = re.compile(f"[{_DIGITS}]+"), re.compile("[^/]+")


def patterns(leaves: Iterable[Array]) -> dict[str, str]:
    """Path -> pattern, `*` for the numbers of repeated layers, such as `blocks/3/up`, `block_3/up`
    or `h3/up`: arrays of one pattern have the same sizes.
    """
    listed = list(leaves)
    parts = {part for leaf in listed for part in leaf.path.split("/")}
    named = {
        part[: at + 1]
        for part in parts
        for at in range(len(part))
        if (part[at] == "_" and not part[at + 1 :].isdigit())
    }
    repeats = _repeats(listed)
    by_path, waiting = dict[str, str](), [(listed, 0)]
    while waiting:
        some, kept = waiting.pop()
        groups = by_key((_starred(leaf.path, kept, named, repeats), leaf) for leaf in some)
        for pattern, group in groups.items():
            if len({leaf.sizes for leaf in group}) > 1:
                waiting.append((group, kept + 1))
            else:
                by_path |= {leaf.path: pattern for leaf in group}
    return by_path


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern is that of a path: `*` matches one part of it, `**` for any number.

    >>> matches("blocks/*/up", "blocks/3/up"), matches("**/up", "blocks/3/up"), matches("*", "a/b")
    (True, True, False)
    """
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=4096)  # a pattern is matched with each array
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(as_regex(pattern))


def as_regex(pattern: str) -> str:
    """A pattern as the regular expression that partition rules are written in."""
    parts = re.split(r"(\*\*/?|\*)", pattern)
    words = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*"}
    return "".join(words.get(part) or re.escape(part) for part in parts)


def _numbers(path: str) -> Iterator[re.Match[str]]:
    """Yields the numbers of a path, but for those of its argument."""
    return _NUMBER.finditer(path, path.find("/") + 1)


def _starred(path: str, kept: int, named: Container[str], repeats: Container[str]) -> str:
    """Returns a path with `*` for the numbers of layers, but for the last `kept` of them."""
    for number in reversed([*_numbers(path)]):
        before, after = path[: number.start()], path[number.end() :]
        head = before.rpartition("/")[2]
        is_part = after[:1] in ("", "/") and (
            not head or (head.endswith("_") and head not in named)
        )
        if is_part or path[: number.end()] in repeats:
            kept -= 1
            if kept < 0:
                path = f"{before}*{after}"
    return path


def _repeats(leaves: Collection[Array]) -> set[str]:
    """Returns the paths up to each number inside a word that counts layers, as `params/h3`: at least
    LAYERS of them have the same arrays, MATRICES or more of two dims, and `*` matches no other word.
    """
    words = by_key(
        ((leaf.path[: part.start()], leaf.path[part.end() :]), part[0])
        for leaf in leaves
        for part in _PART.finditer(leaf.path)
    )
    arrays = by_key(
        (leaf.path[: number.end()], (leaf.path[number.end() :], leaf.sizes, leaf.dtype))
        for leaf in leaves
        for number in _numbers(leaf.path)
    )
    alike = by_key(((to.rstrip(_DIGITS), frozenset(of)), to) for to, of in arrays.items())
    return {
        each
        for (before, of), layers in alike.items()
        if len(layers) >= LAYERS and sum(len(sizes) > 1 for _, sizes, _ in of) >= MATRICES
        if not any(_has_other_word(before, after, words) for after, *_ in of)
        for each in layers
    }


def _has_other_word(before: str, after: str, words: Mapping[tuple[str, str], list[str]]) -> bool:
    """Returns True if a path has another word than a number between these."""
    at, end = before.rfind("/") + 1, after.find("/") % (len(after) + 1)
    head, tail = before[at:], after[:end]
    there = words[before[:at], after[end:]]
    inside = (
        each[len(head) : len(each) - len(tail)]
        for each in there
        if each.startswith(head) and each.endswith(tail)
    )
    return not all(each.isdigit() for each in inside)

"""What users and developers read is in the field's words: phrases that are not may not come back."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.layers import ROOT, nodes, source_files
from tests.voice import old_voice, prose_of_document, read_for_voice, wing

# Phrase -> what the field says. Patterns are of whole words, case aside.
BANNED = {
    r"cut (over|otherwise|by|along)|cuts (both|the|only)|(is|are|it is) cut|uncut": "sharded over",
    r"(needs?|needed|stays?|stored|lies|asked|every device gets) (it |them )?whole|whole on": "replicated",
    r"asked otherwise|but is asked|than it is asked|asked for of": "requested",
    r"kept for the backward|everything is kept|is kept by": "saved, rematerialization",
    r"laid out": "sharded, or placed",
    r"rows of devices": "an axis of the mesh",
    r"(shards?|array|sum|total|axes|devices|rows) lies?\b": "is on, is sharded over",
    r"comes to|makes? up|not to be had|at hand|befell": "is, equals",
    r"neighbours?|colou?red along [xyz]-|colours?|coloured|centres?|behaviour|favour|metres?": "American spelling",
    r"priced|price of": "estimated, cost",
    r"parts of a sum|adds? (it|them) up whole": "partial sums",
    r"cannot be told apart|no difference (can|between|from)": "the same, or cannot tell",
    r"floating-point operations": "FLOP",
}
# What only looks like one: keys of stored JSON, output of small programs, CSS and Vega-Lite.
ALLOWED = (
    "data centre network",
    "kept by the forward pass",
    "the total lies on",
    "neighbours over",
)
BANNED_SIGNS = {r"% off": "faster or slower than measured"}
OLD_VOICE_LINES = 22  # in the tree; may only go down
DOC_COLUMNS = 120
LONG_DOC_LINES = 0  # may only go down
_PATTERN = {re.compile(rf"\b({phrase})", re.I): better for phrase, better in BANNED.items()} | {
    re.compile(sign): better for sign, better in BANNED_SIGNS.items()
}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string literal of a source, but for docstrings; of an f-string its
    parts, with `…` for what is filled in."""
    walked = nodes(source)
    skipped = {
        id(part) for node in walked if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in walked:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    for node in walked:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                ),
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.lineno, node.value


def banned(text: str) -> list[str]:
    """What of a text the field would say otherwise, each with what it says."""
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    return [
        f"{match[0]!r} (say {better})"
        for pattern, better in _PATTERN.items()
        if (match := pattern.search(text))
    ]


def test_no_screen_command_or_refusal_says_a_banned_phrase():
    paths = [
        path for path in source_files() if "programs" not in path.relative_to(ROOT).parts
    ]  # text of users'
    assert len(paths) > 100
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in paths
        for line, text in strings(path.read_text("utf-8"))
        for phrase in banned(text)
    ]
    assert found == []


def test_no_document_says_a_banned_phrase():
    paths = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in paths
        for line, text in prose_of_document(path)
        for phrase in banned(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "batch is cut over x",
        "a matmul needs them whole",
        "Kept for the backward pass",
        "neighbours along x",
        "the estimate is -14.7% off",
    ],
)
def test_a_banned_phrase_would_be_found(text):
    assert banned(text)


def test_strings_are_found_in_f_strings_and_not_in_docstrings():
    source = '"""is sharded over"""\ndef f(x):\n    """is sharded over"""\n    return f"{x} is sharded over {x}"'
    assert list(strings(source)) == [(4, "… is sharded over …")]


def test_the_old_voice_only_fades():
    counts: Counter[str] = Counter()
    for path in read_for_voice():
        counts[wing(path)] += len(old_voice(path))
    for name, count in counts.most_common():
        print(f"{count:5} {name}")
    assert counts.total() <= OLD_VOICE_LINES, f"{counts.total()} lines, {counts.most_common(4)}"


def test_old_words_are_found_in_docstrings_comments_and_names(tmp_path):
    path = tmp_path / "source.py"
    path.write_text(
        'def f(x):\n    """The\n    whole array."""\n    found = x  # in full\n'
        '    y = "said"  # sharded\n    return y  # it was told\n'
    )
    assert old_voice(path) == {3, 4, 6}


def test_lines_of_docs_are_short():
    paths = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
        for path in paths
        for number, line in prose_of_document(path)
        if len(line) > DOC_COLUMNS and not line.lstrip().startswith(("|", "<"))
    ]
    assert len(long) <= LONG_DOC_LINES, long

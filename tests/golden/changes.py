"""What the goldens show of the stored runs, and how it differs from what was recorded."""

import difflib
import itertools
import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.golden import values
from tests.golden.values import Line

RECORDED = Path(__file__).parent / "recorded"
Rendered = dict[str, list[Line]]  # by the name of the door


def kind_of(name: str) -> str:
    """The renderer of a door, which is the name of the file that it is recorded in."""
    return name.partition("/")[0]


def recorded() -> dict[str, Rendered]:
    """What was recorded, by kind."""
    return {path.name.partition(".")[0]: read(path) for path in sorted(RECORDED.glob("*.xz"))}


def read(path: Path) -> Rendered:
    """The renderings of one file."""
    return json.loads(lzma.decompress(path.read_bytes()))


def write(kind: str, texts: Rendered) -> None:
    """Record the renderings of one kind."""
    RECORDED.mkdir(exist_ok=True)
    text = json.dumps(texts, ensure_ascii=False, separators=(",", ":"), indent=0)
    (RECORDED / f"{kind}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def changed_values(name: str, before: Sequence[Line], now: Sequence[Line]) -> list[str]:
    """Rows, numbers and flags that differ: `-` before, `+` now. JSON may have further keys."""
    if before == now:
        return []
    is_json = "json" in name
    rows, others = values.rows(before), values.rows(now)
    if is_json:
        kept = set(others)
        changes = [f"- {row}" for row in rows if row not in kept]
    else:
        changes = list(_differences(rows, others))
    lost, added = values.prose(before) - values.prose(now), values.prose(now) - values.prose(before)
    changes += [f"- {each} (in a sentence, {count}×)" for each, count in sorted(lost.items())]
    if not is_json:
        changes += [f"+ {each} (in a sentence, {count}×)" for each, count in sorted(added.items())]
    return [f"{name}: {each}" for each in changes]


def changed_texts(name: str, before: Sequence[Line], now: Sequence[Line]) -> list[str]:
    """Lines that differ: `-` before, `+` now. JSON may have further keys."""
    rows, others = ([" | ".join(line) for line in lines] for lines in (before, now))
    if "json" in name:
        kept = set(others)
        return [f"{name}: - {row}" for row in rows if row not in kept]
    return [f"{name}: {each}" for each in _differences(rows, others)]


def _differences(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Lines of a diff without context and head."""
    found = difflib.unified_diff(before, now, n=0, lineterm="")
    return (each for each in itertools.islice(found, 2, None) if each[0] in "+-")

"""JSON that others wrote, as values: of a bounded number, so that a small file takes little memory."""

import json
import re
from typing import Any

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.fields.reading import first_twice

# of arrays, objects and what they hold, of some 70 bytes of memory each
MOST_VALUES = 4_000_000
_LARGE_BYTES = 2**20  # up to here no text holds as many
_STRINGS = (r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TEXT, _BYTES = re.compile(*_STRINGS), re.compile(_STRINGS[0].encode(), _STRINGS[1])


def load_json(
    text: str | bytes, fix: str = 'write for example {"workload": "layer", "mesh": {"x": 8}}'
) -> Any:
    """The value of a JSON text; RequestError, which ends with the fix, if it is invalid, has NaN or infinity, a duplicate
    key, or more than MOST_VALUES values.
    """
    _check_values(text)
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RequestError:
        raise
    except (ValueError, RecursionError):
        start = text[:80].decode("utf-8", "replace") if isinstance(text, bytes) else text[:80]
        raise refuse(f"text {shorten(start, 40)}", "is not JSON", fix) from None


def _check_values(text: str | bytes) -> None:
    if len(text) <= _LARGE_BYTES:
        return
    if isinstance(text, bytes):
        rest = _BYTES.sub(b"", text)  # what is in strings is no value of its own
        count = sum(map(rest.count, (b",", b"[", b"{")))
    else:
        rest = _TEXT.sub("", text)
        count = sum(map(rest.count, ",[{"))
    if count > MOST_VALUES:
        raise refuse(
            f"a JSON text of {count:,} values", f"has more than {MOST_VALUES:,}", "split it"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    if (twice := first_twice(name for name, _ in pairs)) is not None:
        raise refuse(f"key {shorten(twice)}", "appears twice in one object", "write it once")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise refuse(f"number {name}", "is not JSON", "use a finite number, or leave the field out")

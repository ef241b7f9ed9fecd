"""A timeline as compact JSON, in columns, and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from typing import Any

from spmd_core.base import RequestError
from spmd_core.pictures.timeline.values import Span, Timeline, TimelineScene

NAME = "timeline"  # beside the program texts of a strategy
TRACED = "trace"  # likewise, of what the devices did
_VERSION = 1
_DEFAULTS = {each.name: each.default for each in fields_of(Span)}
_SCENE = tuple(each.name for each in fields_of(TimelineScene) if each.name != "spans")


def to_text(timeline: Timeline) -> str:
    """Its JSON form: of each scene a list per field of its spans; fields at their default are left
    out.
    """
    scenes = [
        {name: _short(getattr(scene, name)) for name in _SCENE} | {"spans": _columns(scene.spans)}
        for scene in timeline.scenes
    ]
    return json.dumps(
        {"version": _VERSION, "predicted": timeline.predicted, "scenes": scenes},
        separators=(",", ":"),
    )


def _columns(spans: Sequence[Span]) -> dict[str, list[Any]]:
    columns = {name: [_short(getattr(span, name)) for span in spans] for name in _DEFAULTS}
    return {
        name: column
        for name, column in columns.items()
        if any(value not in (_DEFAULTS[name], []) for value in column) or name == "name"
    }


def _short(value: Any) -> Any:
    """Seconds with nine digits: nanoseconds in a step of a second."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return [_short(each) for each in value] if isinstance(value, tuple) else value


def from_text(text: str) -> Timeline:
    """The timeline of such a text; RequestError if this version cannot read it."""
    try:
        given = json.loads(text)
        if given["version"] != _VERSION:
            raise ValueError
        return Timeline(tuple(map(_scene, given["scenes"])), bool(given["predicted"]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise RequestError("this timeline was stored by another version: predict again") from error


def _scene(given: Mapping[str, Any]) -> TimelineScene:
    fields = {name: given[name] for name in _SCENE if name in given}
    fields["rows"] = tuple(given["rows"])
    return TimelineScene(spans=_spans(given["spans"]), **fields)


def _spans(columns: Mapping[str, Sequence[Any]]) -> tuple[Span, ...]:
    known = {name: columns[name] for name in _DEFAULTS if name in columns}
    return tuple(
        Span(**{name: _tuple(value) for name, value in zip(known, row, strict=True)})
        for row in zip(*known.values(), strict=True)
    )


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value

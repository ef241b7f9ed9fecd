"""A timeline as compact JSON, in columns, and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from typing import Any

from pydantic import TypeAdapter

from spmd_core.base import RequestError
from spmd_core.fields import load_json
from spmd_core.pictures.timeline.values import Span, Timeline, TimelineScene

NAME = "timeline"  # beside the program texts of a strategy
TRACED = "trace"  # likewise, of what the devices did
_VERSION = 1
_DEFAULTS = {each.name: each.default for each in fields_of(Span)}
_TIMELINE = TypeAdapter(Timeline)
_MOST = 1e30
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
    """The timeline of such a text; RequestError if this version cannot read it, or it does not hold
    together, as in an archive that was doctored.
    """
    try:
        given = load_json(text)
        _check_numbers(given)
        if given["version"] != _VERSION:
            raise ValueError
        scenes = [scene | {"spans": _spans(scene["spans"])} for scene in given["scenes"]]
        fields = {"scenes": scenes, "predicted": given["predicted"]}
        timeline = _TIMELINE.validate_python(fields)
        _check(timeline)
        return timeline
    except (
        RequestError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise RequestError("this timeline was stored by another version: predict again") from error


def _check_numbers(value: object) -> None:
    if isinstance(value, int | float):
        if not abs(value) < _MOST:
            raise ValueError
        return
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _check_numbers(each)


def _check(timeline: Timeline) -> None:
    """ValueError for a number of a row, span or scene that is not there; a scene is behind the one
    that it is in.
    """
    if not timeline.scenes:
        raise ValueError
    for number, scene in enumerate(timeline.scenes):
        spans = [
            index
            for span in scene.spans
            for index in (span.waits_for, span.waiter, *span.needs)
            if index is not None
        ]
        inside = [span.inside for span in scene.spans if span.inside is not None]
        for indices, most in (
            ([span.row for span in scene.spans], len(scene.rows)),
            (spans, len(scene.spans)),
            (inside, len(timeline.scenes)),
            ([scene.parent or 0] if number else [], number),
        ):
            if not all(0 <= index < most for index in indices):
                raise ValueError
    if timeline.scenes[0].parent is not None:
        raise ValueError


def _spans(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, object]]:
    known = {name: columns[name] for name in _DEFAULTS if name in columns}
    return [dict(zip(known, row, strict=True)) for row in zip(*known.values(), strict=True)]

"""The kinds of fields of a request, and the reading of their JSON: meshes, specs, sizes."""

from spmd_core.fields import json_text, reading
from spmd_core.fields.json_text import load_json
from spmd_core.fields.kinds import Choice, Field, Integer, Number, Switch, Text, Words, fields_of
from spmd_core.fields.reading import MAX_SIZE, TIMING, first_twice, is_integer
from spmd_core.fields.types import (
    DRAWS,
    Axes,
    Fields,
    MemoryKind,
    Mesh,
    Spec,
    axes_json,
    axes_of,
    padded,
)

__all__ = [
    "DRAWS",
    "MAX_SIZE",
    "TIMING",
    "Axes",
    "Choice",
    "Field",
    "Fields",
    "Integer",
    "MemoryKind",
    "Mesh",
    "Number",
    "Spec",
    "Switch",
    "Text",
    "Words",
    "axes_json",
    "axes_of",
    "fields_of",
    "first_twice",
    "is_integer",
    "json_text",
    "load_json",
    "padded",
    "reading",
]

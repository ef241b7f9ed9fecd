"""A study: variants of an experiment that are measured, or predicted, side by side; how they are
read, named by what differs, and which can be compared.

Everything here is about JSON forms; `experiment` makes values of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spmd_core.base import RequestError, number_text, refuse, shorten
from spmd_core.fields import first_twice
from spmd_core.machine import parse_target
from spmd_core.workloads import built_in

MAX_VARIANTS, MAX_ROWS = 24, 96  # rows: variants x strategies
MAX_NAME = 60
# what may differ, in the order of a name's parts; of a training step its batch as well
VARYING = (
    "target",
    "mesh",
    "sharding",
    "overrides",
    "specs",
    "memory",
    "dtype",
    "options",
    "strategies",
)
_BATCH = "batch"
_NAMING = ("target", "mesh", "dims", *VARYING[2:-1])  # a row names its own strategy
EXAMPLE = (
    '{"study": [{"name": "rows", "experiment": {...}}, {"name": "columns", "experiment": {...}}]}'
)
Entry = tuple[str | None, Mapping[str, Any]]  # name (None: by what differs), fields that differ
Fields = dict[str, Any]


def opened(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Entry]]:
    """An experiment's fields, and its variants; none where it stands alone.

    A study is written as a list of experiments (`study`), or as an experiment and what each variant
    changes in it (`variants`). The fields are those of the first variant.
    """
    if "study" in data:
        if others := [name for name in data if name != "study"]:
            raise refuse(
                f"field {shorten(others[0])}",
                "stands beside a study",
                "write it into each of the study's experiments",
            )
        entries = _entries(data["study"], "study", "experiment")
        return entries[0][1], entries
    alone = {name: value for name, value in data.items() if name != "variants"}
    if data.get("variants") is None:
        return alone, []
    entries: list[Entry] = [
        (name, alone | dict(changes))
        for name, changes in _entries(data["variants"], "variants", "changes")
    ]
    return entries[0][1], entries


def _entries(given: Any, field: str, inside: str) -> list[Entry]:
    if not isinstance(given, list | tuple) or not given:
        raise refuse(
            f"{field}={shorten(given)}", "is not a list of variants", f"write for example {EXAMPLE}"
        )
    if len(given) > MAX_VARIANTS:
        raise refuse(
            f"{len(given)} variants",
            f"are more than a study's {MAX_VARIANTS}",
            "leave some out, or make two studies",
        )
    return [_entry(each, place, inside) for place, each in enumerate(given, 1)]


def _entry(given: Any, place: int, inside: str) -> Entry:
    if not isinstance(given, Mapping) or not isinstance(given.get(inside), Mapping):
        raise refuse(
            f"variant {place}={shorten(given)}",
            f"has no object {inside}",
            f"write for example {EXAMPLE}",
        )
    if unknown := [name for name in given if name not in ("name", inside)]:
        raise refuse(
            f"field {shorten(unknown[0])} of variant {place}",
            "is not known here",
            f"use name and {inside}",
        )
    if any(name in given[inside] for name in ("study", "variants")):
        raise refuse(f"variant {place}", "is itself a study", "list its variants one by one")
    name = given.get("name")
    if name is not None and (
        not isinstance(name, str)
        or not name.isprintable()
        or not 1 <= len(name.strip()) <= MAX_NAME
    ):
        raise refuse(
            f"name {shorten(name)} of variant {place}",
            "is not a name",
            f"use 1 to {MAX_NAME} characters, or leave it out",
        )
    return (name.strip() if isinstance(name, str) else None), given[inside]


def in_variant(name: str | None, place: int, error: RequestError) -> RequestError:
    """The refusal of one variant's fields, with the variant that they are of."""
    return RequestError(f"variant {shorten(name) if name else place}: {error}")


def check(
    given: Sequence[str | None], forms: Sequence[Fields], comparable: bool, rows: int
) -> None:
    """RequestError where variants cannot be measured side by side. `given`: the names that they
    were given; `forms`: their canonical JSON forms; `comparable`: whether the workload has results.
    """
    names = [shorten(name) if name else str(place) for place, name in enumerate(given, 1)]
    if (twice := first_twice(name for name in given if name)) is not None:
        raise refuse(f"name {shorten(twice)}", "is that of two variants", "name each differently")
    first = forms[0]
    if not comparable:
        raise refuse(
            f"a study of workload {first['workload']}",
            "has variants that share no result to compare",
            "run them one by one",
        )
    for name, form in zip(names, forms, strict=True):
        both = f"variants {names[0]} and {name}"
        if _computed(form) != _computed(first):
            raise refuse(
                both,
                f"share no result to compare ({_computed(first)}; {_computed(form)})",
                _alike(first),
            )
        for field in ("data", "timing", "seed"):
            if form[field] != first[field]:
                raise refuse(
                    f"{both} with {field}={shorten(first[field])} and {shorten(form[field])}",
                    "cannot be measured in the same rounds",
                    f"give all variants the same {field}",
                )
    _check_targets(names, forms)
    if rows > MAX_ROWS:
        raise refuse(
            f"a study of {rows} rows (variants x strategies)",
            f"is larger than {MAX_ROWS}",
            "take fewer variants or strategies",
        )


def _check_targets(names: Sequence[str], forms: Sequence[Fields]) -> None:
    """What is measured takes turns on one target; topologies that are not attached may differ."""
    here = [
        (name, form["target"])
        for name, form in zip(names, forms, strict=True)
        if not parse_target(form["target"]).is_absent
    ]
    other = next((each for each in here if each[1] != here[0][1]), None)
    if other is not None:
        raise refuse(
            f"variants {here[0][0]} and {other[0]} on {here[0][1]} and {other[1]}",
            "cannot be measured in the same rounds",
            "give all variants the same target; one on a TPU that is not attached is "
            "predicted, and may differ",
        )


def _computed(form: Fields) -> str:
    """What a variant computes, by which only its like is compared."""
    free, same = _varied(form)
    sizes = [f"{dim}={size}" for dim, size in form["dims"].items() if dim not in free]
    chosen = [str(form["options"].get(name)) for name in same]
    return " ".join([form["workload"], *chosen, *sizes])


def _varied(form: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Dims in which variants may differ, and options in which they may not."""
    what = built_in(form["workload"])
    return (what.per_device, what.same_options) if what else ((), ())


def shared_parts(form: Fields) -> tuple[str, ...]:
    """The parts of a form that all variants of a study share: dims and options by name."""
    free, same = _varied(form)
    return (*same, *(dim for dim in form["dims"] if dim not in free))


def _alike(form: Fields) -> str:
    if any(_varied(form)):
        return "give them one model and sequence; mesh, remat, topology and batch may differ"
    return "give them one workload with the same dims"


def with_shared(form: Fields, now: Fields) -> Fields:
    """A variant's form with what all variants share as `now` has it."""
    new = form | {field: value for field, value in now.items() if field not in VARYING}
    free, same = _varied(form)
    if now.get("workload") == form.get("workload") and any((free, same)):
        new["dims"] = now["dims"] | {dim: form["dims"].get(dim) for dim in free}
        new["options"] = form["options"] | {name: now["options"].get(name) for name in same}
    return new


def names_of(forms: Sequence[Fields], given: Sequence[str | None] = ()) -> tuple[str, ...]:
    """A name for each variant: the one given, else what it has otherwise than the others do.

    >>> names_of([{"mesh": [["x", 8]]}, {"mesh": [["x", 2], ["y", 4]]}])
    ('mesh x=8', 'mesh x=2 y=4')
    """
    named = list(given) or [None] * len(forms)
    names: list[str] = []
    for form, name in zip(forms, named, strict=True):
        parts = _difference(form, forms, _NAMING[:1])
        # of several targets, what differs among those on its own
        near = [each for each in forms if each.get("target") == form.get("target")]
        parts += _difference(form, near, _NAMING[1:])
        if not parts and all(len(each["strategies"]) == 1 for each in forms):
            parts = _difference(form, forms, VARYING[-1:])
        own = name or ", ".join(parts) or f"variant {len(names) + 1}"
        own = own if name or len(own) <= MAX_NAME else f"{own[: MAX_NAME - 1]}…"
        taken = {*names, *(other for other in named if other)}
        if name is None:
            own = next(
                text
                for number in range(1, len(forms) + 2)
                if (text := own if number == 1 else f"{own[: MAX_NAME - 5]} ({number})")
                not in taken
            )
        names.append(own)
    return tuple(names)


def _difference(form: Fields, forms: Sequence[Fields], fields: Sequence[str]) -> list[str]:
    return [text for field in fields if field in form for text in _field_words(field, form, forms)]


def _field_words(field: str, form: Fields, forms: Sequence[Fields]) -> Iterator[str]:
    now = form[field]
    if all(each[field] == now for each in forms):
        return
    if field == "target":
        yield now.removeprefix("tpu:")
    elif field == "mesh":
        yield "mesh " + " ".join(f"{axis}={size}" for axis, size in now)
    elif field == "dims":
        yield from _batch_words(form, forms)
    elif field == "sharding":
        yield ", ".join(f"{dim} over {_axes(axes)}" for dim, axes in now.items()) or "replicated"
    elif field == "strategies":
        yield " ".join(now)
    elif field == "dtype":
        yield now
    else:
        yield from _pairs_words(field, now, forms)


def _batch_words(form: Fields, forms: Sequence[Fields]) -> Iterator[str]:
    def each(of: Fields) -> float:
        devices = math.prod(size or 1 for _, size in of["mesh"])
        return (of["dims"].get(_BATCH) or 0) / devices

    if any(each(other) != each(form) for other in forms):
        yield f"{number_text(each(form))} per device"


def _pairs_words(field: str, now: Fields, forms: Sequence[Fields]) -> Iterator[str]:
    for name in dict.fromkeys(name for each in forms for name in each[field]):
        value = now.get(name)
        if all(each[field].get(name) == value for each in forms):
            continue
        if field == "memory":
            yield f"{name} in {value or 'device'}"
        elif field in ("overrides", "specs"):
            unsaid = "as the table says" if field == "overrides" else "as exported"
            yield f"{name} {unsaid if value is None else _spec(value)}"
        else:
            yield _option_words(name, value)


def _option_words(name: str, value: Any) -> str:
    """`remat full`, `offload qkv_proj`; an option that only a switch has is named or denied."""
    words = name.replace("_", " ")
    if name in ("save", "offload"):
        return f"{words} {str(value).replace(',', '+')}" if value else f"{words} nothing"
    if value is True:
        return words
    return f"{words} {'default' if value is None else value}"


def _axes(axes: Any) -> str:
    return axes if isinstance(axes, str) else "+".join(axes or ())


def _spec(spec: Sequence[Any]) -> str:
    return "(" + ", ".join(_axes(axes) or "None" for axes in spec) + ")"

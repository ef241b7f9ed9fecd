"""The base class of validated values, and fields that several of them share."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from spmd_core.base.errors import RequestError, refuse, shorten

Model = TypeVar("Model", bound=BaseModel)
# kind of pydantic's error -> rule and fix; {word} is what is read
_RULES = {
    "greater_than_equal": ("is too small", "use at least {ge}"),
    "greater_than": ("is too small", "use more than {gt:g}"),
    "less_than_equal": ("is too large", "use at most {le}"),
    "finite_number": ("is not a finite number", "use one that is"),
    "too_short": ("names nothing", "name at least one"),
    "too_long": ("names too many", "name at most {max_length}"),
    "extra_forbidden": ("is not part of a {word}", "leave it out"),
}


class Frozen(BaseModel):
    """An immutable model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _pairs(value: Any) -> Any:
    """A JSON object, or a list of pairs, as a tuple of pairs; pydantic refuses anything else."""
    return tuple(value.items()) if isinstance(value, Mapping) else value


PairsOf = BeforeValidator(_pairs)
AsObject = PlainSerializer(dict, return_type=dict[str, object])


def validated(model: type[Model], data: Any, word: str, example: str = "") -> Model:
    """Returns the value that a JSON object describes.

    Args:
        model: the class of the value.
        data: the object, of a link, a file or a command line.
        word: what it is called in a refusal, such as `plan`.
        example: a JSON object that is one.

    Raises:
        RequestError: it describes none; in one sentence, of the first fault.
    """
    if not isinstance(data, Mapping):
        fix = f"write for example {example}"
        raise refuse(f"{word} {shorten(data)}", "is not a JSON object", fix)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    context = {"word": word, **fault.get("ctx", {})}
    if isinstance(context.get("error"), RequestError):
        raise RequestError(str(context["error"]))
    names = [part for part in fault["loc"] if isinstance(part, str) and "[" not in part]
    place = ".".join(names) or word
    if fault["type"] == "missing":
        raise refuse(f"{word} without {place}", "is incomplete", f"add {place!r}")
    message = f"{fault['msg'][0].lower()}{fault['msg'][1:]}"
    known = [text.format(**context) for text in _RULES.get(fault["type"], ())]
    rule, fix = known or ("is not valid", message)
    given = "" if fault["input"] == [] else f"={shorten(fault['input'])}"  # an empty field
    raise refuse(f"{place}{given}", rule, fix)

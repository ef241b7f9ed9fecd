"""The kinds of fields that a plan and the options of an experiment have.

A field is one row: it draws its widget and its flag, reads its JSON, and names itself in a line.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel

from spmd_core.base import refuse, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a plan, and the option that holds it in an experiment.

    An option is a word, an integer or a bool: `encode` writes it, and `decode` reads it, or the
    text of a flag. A field of a plan that depends on others has `unfit`, `rule` or `usual`.
    """

    name: str = ""  # in a plan: set by `fields_of`, with `value`
    value: Any = None  # the default in a plan
    default: Any = ""  # of the option
    option: str = ""  # in an experiment; "": its name
    label: str = ""  # of its widget
    group: str = ""  # heading of its widget; "": of no plan
    help: str = ""  # of its flag and its widget, without a period
    metavar: str = "NAME"
    line: str = ""  # its words in a line, {} for the value; "": its name and the value
    later: bool = True  # left out of an experiment at its default
    always: bool = False  # of a plan: written and named at its default, too
    searched: bool = False  # a search tries its values, and holds those of other fields
    of_model: str = ""  # the field of ModelSize that it replaces, where it is not None
    unfit: Callable[[Any], str] = lambda size: ""  # the rule that a model breaks; "": none
    rule: Callable[[Any], None] = lambda plan: None  # RequestError where it breaks one of a plan
    usual: Callable[[Mapping[str, Any]], Any] | None = None  # same as the default, beside others

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def options(self) -> dict[str, "Field"]:
        """The options that hold it in an experiment, by name."""
        return {self.option or self.name: self}

    def take(self, name: str, value: Any) -> Any:
        """The value of a plan in its one form; RequestError for any other value."""
        if not isinstance(value, str):
            fix = f"write for example {self.default!r}"
            raise refuse(f"{name}={shorten(value)}", "is not a text", fix)
        return value

    def decode(self, name: str, option: Any) -> Any:
        """The value of an option or of a flag's text; RequestError where it has none."""
        return self.take(name, option)

    def encode(self, value: Any) -> Mapping[str, object]:
        """The options of a value."""
        written = self.text(value) if isinstance(self.default, str) else value
        return dict.fromkeys(self.options, self.default if value == self.value else written)

    def read(self, options: Mapping[str, Any]) -> Any:
        """The value of an experiment's options."""
        name = self.option or self.name
        option = options.get(name, self.default)
        return self.value if option == self.default else self.decode(name, option)

    def text(self, value: Any) -> str:
        """The value as a flag takes it."""
        return str(value)

    def named(self, value: Any) -> str:
        """The words of a value in a line; "" for the default."""
        if value == self.value and not self.always:
            return ""
        line = self.line or self.name.replace("_", " ") + (" {}" if value is not True else "")
        return line.format(self.text(value).replace(",", " "))

    def arguments(self, value: Any) -> list[str]:
        """The arguments of the command line that set a value: of a bool its word as a flag."""
        text = self.text(value)
        return [f"--{text}"] * bool(text) if isinstance(value, bool) else [self.flag, text]


Text = Field  # a free text, which the workload reads


@dataclass(frozen=True, slots=True)
class Switch(Field):
    """On or off; off by default."""

    default: bool = field(default=False, kw_only=True)

    def take(self, name: str, value: Any) -> bool:
        """RequestError unless the value is true or false."""
        if not isinstance(value, bool):
            raise refuse(f"{name}={shorten(value)}", "is neither on nor off", "use true or false")
        return value

    def text(self, value: Any) -> str:
        """The flag's word, where it is on."""
        return self.flag[2:] if value else ""


@dataclass(frozen=True, slots=True)
class Choice(Field):
    """One of a few words, the first the default; of a plan's field those of its type."""

    choices: tuple[str, ...] = ()
    titles: Mapping[str, str] | None = None  # of words on a screen
    meanings: Mapping[str, Any] | None = None  # of words in a plan; None: the word
    later: bool = field(default=False, kw_only=True)
    _values: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sets the default, and what the words mean."""
        object.__setattr__(self, "default", next(iter(self.choices), ""))
        object.__setattr__(self, "_values", tuple(map(self._meaning, self.choices)))

    def take(self, name: str, value: Any) -> Any:
        """RequestError unless a word means the value."""
        if value not in self._values:
            fix = f"use {', '.join(filter(None, self.choices))}"
            raise refuse(f"{name}={shorten(value)}", "is not a choice", fix)
        return value

    def decode(self, name: str, option: Any) -> Any:
        """The meaning of a word."""
        return self.take(name, self._meaning(option) if option in self.choices else option)

    def text(self, value: Any) -> str:
        """The word of a value."""
        return next(word for word in self.choices if self._meaning(word) == value)

    def title(self, word: str) -> str:
        """The word as a screen has it."""
        return (self.titles or {}).get(word, word or "as the model")

    def _meaning(self, word: str) -> Any:
        return (self.meanings or {}).get(word, word or None)


@dataclass(frozen=True, slots=True)
class Integer(Field):
    """An integer from `low` to `high`; with a placeholder 0 is an empty field."""

    default: int = 0
    low: int = 0
    high: int = 0
    placeholder: str = ""

    def take(self, name: str, value: Any) -> int | None:
        """RequestError unless the value is an integer within the bounds."""
        if value is None and self.value is None:
            return None
        if isinstance(value, bool) or not (
            isinstance(value, int) and self.low <= value <= self.high
        ):
            rule = f"is not a whole number from {self.low} to {self.high}"
            near = min(max(value, self.low), self.high) if type(value) is int else self.default
            fix = f"use for example {near or self.default or self.high}"
            raise refuse(f"{name}={shorten(value)}", rule, fix)
        return value


@dataclass(frozen=True, slots=True)
class Number(Field):
    """A number from `low` to `high`, which an option holds as a text: "" for the default."""

    low: float = 0.0
    high: float = math.inf

    def take(self, name: str, value: Any) -> float | None:
        """RequestError unless the value is a number within the bounds."""
        if value is None and self.value is None:
            return None
        number = math.nan if isinstance(value, bool) else value
        if not isinstance(number, int | float) or not self.low <= number <= self.high:
            example = self.low if self.value is None else self.value
            rule = f"is not a number from {self.low:g} to {self.high:g}"
            raise refuse(f"{name}={shorten(value)}", rule, f"use for example {example:g}")
        return float(number) + 0.0  # no minus zero

    def decode(self, name: str, option: Any) -> float | None:
        """The number of a text."""
        if Field.take(self, name, option) == "":
            return self.value
        try:
            number = float(option)
        except ValueError:
            number = option
        return self.take(name, number)

    def text(self, value: Any) -> str:
        """The number with as many digits as it needs."""
        return "" if value is None else f"{value:.15g}"


@dataclass(frozen=True, slots=True)
class Words(Field):
    """Words of a list, each once and in its order; any words in theirs where there is no list. An
    option holds them as a text.
    """

    known: tuple[str, ...] = ()
    separator: str = ","
    refusal: Callable[[str], str | None] = lambda word: None  # why a word is refused

    def take(self, name: str, value: Any) -> tuple[str, ...]:
        """RequestError for a word that is refused."""
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise refuse(f"{name}={shorten(value)}", "is not a list of names", self._fix)
        words = value if self.known else [word.removeprefix("--") for word in value]
        for word in words:
            if rule := self.refusal(word):
                label = name if self.known else self.label.lower().removesuffix("s")
                raise refuse(f"{label} {shorten(word)}", rule, self._fix)
        return tuple(word for word in self.known or words if word in words)

    @property
    def _fix(self) -> str:
        return f"use {', '.join(self.known)}" if self.known else f"write for example {self.metavar}"

    def decode(self, name: str, option: Any) -> tuple[str, ...]:
        """The words of a text."""
        parts = Field.take(self, name, option).replace(self.separator, "\n").split("\n")
        return self.take(name, [word for part in parts if (word := part.strip())])

    def text(self, value: Any) -> str:
        """The words with the separator between them."""
        return self.separator.join(value)


def fields_of(model: type[BaseModel]) -> dict[str, Field]:
    """The fields of a plan's class, in order: each an annotation of its type."""
    rows: dict[str, Field] = {}
    for name, info in model.model_fields.items():
        for row in (each for each in info.metadata if isinstance(each, Field)):
            own = {"name": name, "value": info.default, "later": not row.always}
            if isinstance(row, Choice):
                own["choices"] = _choices(info.annotation, row.meanings)
            rows[name] = replace(row, **own)
    return rows


def _choices(annotation: Any, meanings: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The words of a type: those that mean its values, or of a Literal; "" for None."""
    args = get_args(annotation)
    words = [
        word for each in args for word in ((each,) if isinstance(each, str) else get_args(each))
    ]
    return (*("",) * (NoneType in args), *(meanings or words))

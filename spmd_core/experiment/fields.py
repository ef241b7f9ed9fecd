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
    option: str = ""  # in an experiment; "": its name
    label: str = ""  # of its widget
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
    def default(self) -> Any:
        """The option's default."""
        return ""

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def options(self) -> dict[str, "Field"]:
        """The options that hold it in an experiment, by name."""
        return {self.option or self.name: self}

    def bound(self, name: str, annotation: Any, value: Any) -> "Field":
        """The field with its name, type and default in a plan."""
        del annotation
        return replace(self, name=name, value=value, later=not self.always)

    def take(self, name: str, value: Any) -> Any:
        """The value of a plan in its one form; RequestError for any other value."""
        del name
        return value

    def decode(self, name: str, option: Any) -> Any:
        """The value of an option or of a flag's text; RequestError where it has none."""
        return self.take(name, option)

    def encode(self, value: Any) -> Mapping[str, object]:
        """The options of a value."""
        return dict.fromkeys(self.options, self.text(value))

    def read(self, options: Mapping[str, Any]) -> Any:
        """The value of an experiment's options, which have their defaults filled in."""
        (name,) = self.options
        return self.decode(name, options[name])

    def check(self, name: str, option: Any) -> None:
        """RequestError unless the option has a value."""
        self.decode(name, option)

    def text(self, value: Any) -> str:
        """The value as a flag takes it."""
        return "" if value is None else str(value)

    def named(self, value: Any) -> str:
        """The words of a value in a line; "" for the default."""
        if value == self.value and not self.always:
            return ""
        return (self.line or f"{self.name.replace('_', ' ')} {{}}").format(self.text(value))

    def arguments(self, value: Any) -> list[str]:
        """The arguments of the command line that set a value."""
        return [self.flag, self.text(value)]


@dataclass(frozen=True, slots=True)
class Switch(Field):
    """On or off; off by default."""

    @property
    def default(self) -> bool:
        """Off."""
        return False

    def take(self, name: str, value: Any) -> bool:
        """RequestError unless the value is true or false."""
        if not isinstance(value, bool):
            raise refuse(f"{name}={shorten(value)}", "is neither on nor off", "use true or false")
        return value

    def encode(self, value: Any) -> Mapping[str, object]:
        """The value itself."""
        return dict.fromkeys(self.options, value)

    def arguments(self, value: Any) -> list[str]:
        """The flag, where it is on."""
        return [self.flag] if value else []


@dataclass(frozen=True, slots=True)
class Choice(Field):
    """One of a few words, the first the default; of a plan's field those of its type."""

    choices: tuple[str, ...] = ()
    later: bool = field(default=False, kw_only=True)
    titles: Mapping[str, str] | None = None  # of words on a screen
    meanings: Mapping[str, Any] | None = None  # of words in a plan; None: the word

    @property
    def default(self) -> str:
        """The first word."""
        return self.choices[0]

    def bound(self, name: str, annotation: Any, value: Any) -> Field:
        """With the words of its type: "" for None."""
        words = [*(self.meanings or ())]
        for each in () if words else get_args(annotation) or ():
            words += [each] if isinstance(each, str) else get_args(each)
        optional = ("",) if NoneType in get_args(annotation) else ()
        own = Field.bound(self, name, annotation, value)
        return replace(own, choices=(*optional, *words))

    def take(self, name: str, value: Any) -> Any:
        """RequestError unless the value is one of the words' meanings."""
        if not any(value is each or value == each for each in map(self._meaning, self.choices)):
            raise self._refusal(name, value)
        return value

    def decode(self, name: str, option: Any) -> Any:
        """The meaning of a word."""
        if option not in self.choices:
            raise self._refusal(name, option)
        return self._meaning(option)

    def text(self, value: Any) -> str:
        """The word of a value."""
        return next(word for word in self.choices if self._meaning(word) == value)

    def title(self, word: str) -> str:
        """The word as a screen has it."""
        return (self.titles or {}).get(word, word or "as the model")

    def named(self, value: Any) -> str:
        """The word alone, where it means a bool."""
        words = Field.named(self, value)
        return self.text(value) if words and self.meanings else words

    def arguments(self, value: Any) -> list[str]:
        """One flag for each word that means a bool."""
        text = self.text(value)
        return [f"--{text}"] if self.meanings else [self.flag, text]

    def _meaning(self, word: str) -> Any:
        return (self.meanings or {}).get(word, word or None)

    def _refusal(self, name: str, value: Any) -> Exception:
        words = ", ".join(filter(None, self.choices))
        return refuse(f"{name}={shorten(value)}", "is not a choice", f"use {words}")


@dataclass(frozen=True, slots=True)
class Integer(Field):
    """An integer from `low` to `high`; with a placeholder 0 is an empty field."""

    start: int = 0
    low: int = 0
    high: int = 0
    placeholder: str = ""

    @property
    def default(self) -> int:
        """Where it starts."""
        return self.start

    def take(self, name: str, value: Any) -> int:
        """RequestError unless the value is an integer within the bounds."""
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not self.low <= value <= self.high:
            fix = f"use a whole number from {self.low} to {self.high}"
            raise refuse(f"{name}={shorten(value)}", "is not a number of it", fix)
        return value

    def encode(self, value: Any) -> Mapping[str, object]:
        """The value itself."""
        return dict.fromkeys(self.options, value)


@dataclass(frozen=True, slots=True)
class Number(Field):
    """A number from `low` to `high`, which an option holds as a text: "" for the default."""

    low: float = 0.0
    high: float = math.inf

    def take(self, name: str, value: Any) -> float | None:
        """RequestError unless the value is a number within the bounds."""
        if value is None and self.value is None:
            return None
        number = (
            value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        )
        if not self.low <= number <= self.high:  # NaN is in no bounds
            rule = f"is not a number from {self.low:g} to {self.high:g}"
            raise refuse(f"{name}={shorten(value)}", rule, f"use for example {self.example}")
        return float(number)

    def decode(self, name: str, option: Any) -> float | None:
        """The number of a text."""
        if option == "":
            return self.value
        try:
            number = float(option)
        except (TypeError, ValueError, OverflowError):
            number = option
        return self.take(name, number)

    def text(self, value: Any) -> str:
        """The number with as many digits as it needs."""
        return "" if value is None else f"{value:.15g}"

    def encode(self, value: Any) -> Mapping[str, object]:
        """Its text; "" for the default."""
        return dict.fromkeys(self.options, "" if value == self.value else f"{value:g}")

    @property
    def example(self) -> str:
        """A number within the bounds."""
        return f"{self.low if self.value is None else self.value:g}"


@dataclass(frozen=True, slots=True)
class Words(Field):
    """Words of a list, each once and in its order; any words in theirs where there is no list. An
    option holds them as a text.
    """

    known: tuple[str, ...] = ()
    separator: str = ","
    refusal: Callable[[str], str | None] = lambda word: None  # why one of any words is refused

    def take(self, name: str, value: Any) -> tuple[str, ...]:
        """RequestError for a word that is refused."""
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise refuse(f"{name}={shorten(value)}", "is not a list of names", self._fix)
        value = value if self.known else [word.removeprefix("--") for word in value]
        for word in value:
            if rule := self.refusal(word):
                label = name if self.known else self.label.lower().removesuffix("s")
                raise refuse(f"{label} {shorten(word)}", rule, self._fix)
        return tuple(word for word in self.known if word in value) if self.known else tuple(value)

    def decode(self, name: str, option: Any) -> tuple[str, ...]:
        """The words of a text."""
        if not isinstance(option, str):
            raise refuse(f"{name}={shorten(option)}", "is not a text", self._fix)
        parts = option.replace(self.separator, "\n").split("\n")
        return self.take(name, [word for part in parts if (word := part.strip())])

    def text(self, value: Any) -> str:
        """The words with the separator between them."""
        return self.separator.join(value)

    def named(self, value: Any) -> str:
        """The words with spaces between them."""
        return Field.named(self, value).replace(self.separator, " ") if value else ""

    @property
    def _fix(self) -> str:
        return f"use {', '.join(self.known)}" if self.known else f"write for example {self.metavar}"


@dataclass(frozen=True, slots=True)
class Text(Field):
    """A free text, which the workload reads."""

    start: str = ""

    @property
    def default(self) -> str:
        """What it starts with."""
        return self.start

    def take(self, name: str, value: Any) -> str:
        """RequestError unless the value is a text."""
        if not isinstance(value, str):
            fix = f"write for example {self.start!r}"
            raise refuse(f"{name}={shorten(value)}", "is not a text", fix)
        return value


def fields_of(model: type[BaseModel]) -> dict[str, Field]:
    """The fields of a plan's class, in order: each an annotation of its type."""
    return {
        name: each.bound(name, info.annotation, info.default)
        for name, info in model.model_fields.items()
        for each in info.metadata
        if isinstance(each, Field)
    }

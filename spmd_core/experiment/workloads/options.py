"""The types of a workload's options: a choice of words, an integer, a text, a switch."""

from dataclasses import dataclass
from typing import Any

from spmd_core.base import refuse, shorten


@dataclass(frozen=True, slots=True)
class Choice:
    """Words to choose from, the first the default. It is always written into an experiment."""

    words: tuple[str, ...]
    later = False

    @property
    def default(self) -> str:
        """The default word."""
        return self.words[0]

    def check(self, name: str, value: Any) -> None:
        """RequestError unless the value is one of the words."""
        if value not in self.words:
            raise refuse(
                f"{name}={shorten(value)}", "is not a choice", f"use {', '.join(self.words)}"
            )


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer: its default, minimum and maximum."""

    default: int
    low: int
    high: int
    later = True

    def check(self, name: str, value: Any) -> None:
        """RequestError unless the value is an integer within the bounds."""
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not self.low <= value <= self.high:
            raise refuse(
                f"{name}={shorten(value)}",
                "is not a number of it",
                f"use a whole number from {self.low} to {self.high}",
            )


@dataclass(frozen=True, slots=True)
class Text:
    """A free text, which the workload parses."""

    default: str = ""
    later: bool = True

    def check(self, name: str, value: Any) -> None:
        """RequestError unless the value is a text."""
        if not isinstance(value, str):
            raise refuse(
                f"{name}={shorten(value)}", "is not a text", f"write for example {self.default!r}"
            )


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch, off by default."""

    default: bool = False
    later = True

    def check(self, name: str, value: Any) -> None:
        """RequestError unless the value is true or false."""
        if not isinstance(value, bool):
            raise refuse(f"{name}={shorten(value)}", "is neither on nor off", "use true or false")


# `later`: added later, so an experiment leaves it out at its default
Option = Choice | Integer | Text | Flag

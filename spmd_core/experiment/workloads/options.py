"""What an option of a workload may be: words to choose from, a whole number, a text, on or off."""

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
        """The word where none is chosen."""
        return self.words[0]

    def check(self, name: str, value: Any) -> None:
        """RequestError where the value is none of the words."""
        if value not in self.words:
            raise refuse(
                f"{name}={shorten(value)}", "is not a choice", f"use {', '.join(self.words)}"
            )


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number: its default, and the least and greatest that may be chosen."""

    default: int
    low: int
    high: int
    later = True

    def check(self, name: str, value: Any) -> None:
        """RequestError where the value is no whole number between the two."""
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not self.low <= value <= self.high:
            raise refuse(
                f"{name}={shorten(value)}",
                "is not a number of it",
                f"use a whole number from {self.low} to {self.high}",
            )


@dataclass(frozen=True, slots=True)
class Text:
    """A free text, which the workload itself reads."""

    default: str = ""
    later: bool = True

    def check(self, name: str, value: Any) -> None:
        """RequestError where the value is no text."""
        if not isinstance(value, str):
            raise refuse(
                f"{name}={shorten(value)}", "is not a text", f"write for example {self.default!r}"
            )


@dataclass(frozen=True, slots=True)
class Flag:
    """Off unless it is chosen."""

    default: bool = False
    later = True

    def check(self, name: str, value: Any) -> None:
        """RequestError where the value is neither true nor false."""
        if not isinstance(value, bool):
            raise refuse(f"{name}={shorten(value)}", "is neither on nor off", "use true or false")


# `later`: it is left out of an experiment where it is at its default, since it came after others
Option = Choice | Integer | Text | Flag

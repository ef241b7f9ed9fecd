"""Numbers as words of the command line: what is read without doubt, and the refusal of the rest."""

from argparse import ArgumentTypeError
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite

from spmd_core.base import refuse, shorten, suffixed_sizes


def integer(text: str) -> int:
    """Returns the whole number of `8192`, `8_192` or `8e3`."""
    if (value := number(text)) % 1:
        raise refused(text, "is no whole number", f"use {round(value)}")
    return int(value)


def number(text: str, units: Mapping[str, float] = {}) -> float:
    """Returns the number of `0.5` or `8e3`; with `units`, of one that has one of them behind it."""
    unit = units.get(text[-1:].lower())
    with suppress(ValueError):
        value = float(text[:-1] if unit else text) * (unit or 1.0)
        if isfinite(value):
            return value
    behind = f", with {' or '.join(units)}" if units else ""
    meant = suffixed_sizes(text) or ("digits, such as 2", f"8e3{behind}")
    raise refused(text, "is no number", f"write {meant[0]} or {meant[1]}")


def refused(text: str, rule: str, fix: str) -> ArgumentTypeError:
    """Returns the refusal of a word, which the parser puts behind its option."""
    return ArgumentTypeError(str(refuse(shorten(text), rule, fix)))

"""Limits of expectations as their author writes them: `3 GiB`, `30 ms`."""

import re
from collections.abc import Mapping

from spmd_core.base import refuse, shorten

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-zµ]*)")
_BINARY = {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}
_DECIMAL = {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)}
_BYTES = {"": 1, "B": 1, "KB": 1000} | _BINARY | _DECIMAL
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def bytes_of(limit: str | float) -> int:
    """Returns the bytes of a number or a text such as `3 GiB` or `1.2 GB`."""
    return int(_value(limit, _BYTES, "a number of bytes", '"3 GiB"'))


def seconds_of(limit: str | float) -> float:
    """Returns the seconds of a number or a text such as `30 ms`."""
    return _value(limit, _SECONDS, "a time", '"30 ms"')


def _value(limit: str | float, units: Mapping[str, float], what: str, example: str) -> float:
    match = _NUMBER.fullmatch(str(limit).strip())
    if match is None or match[2] not in units:
        raise refuse(f"{shorten(limit)}", f"is not {what}", f"write it as {example}")
    return float(match[1]) * units[match[2]]

"""The sizes of a registered program that an experiment may choose: lines such as `ROWS = 1_000_000  # 64 to 10_000_000` of its file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from spmd_core.errors import refuse, shorten
from spmd_core.workloads.small_programs import program_file

_LINE = re.compile(r"^(?P<name>[A-Z][A-Z_]*) = (?P<default>[\d_]+)  # (?P<low>[\d_]+) to (?P<high>[\d_]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Size:
    """A size by the name of its option, the value in the file, and the least and greatest that may be chosen."""

    name: str
    default: int
    low: int
    high: int


@cache
def program_sizes(program: str) -> dict[str, Size]:
    """Option name -> size, in the order of the file; empty where the program has none to choose."""
    lines = _LINE.finditer(program_file(program))
    found = [Size(line["name"].lower(), int(line["default"]), int(line["low"]), int(line["high"])) for line in lines]
    return {size.name: size for size in found}


def check_sizes(program: str, given: dict[str, object]) -> dict[str, int]:
    """The given sizes without those at their default; RequestError for one that the program does not have or allow."""
    sizes, chosen = program_sizes(program), {}
    for name, value in given.items():
        size = sizes.get(name)
        if size is None:
            raise refuse(f"option {shorten(name)}", f"is not one of program {program}", f"use {' or '.join(['device_order', *sizes])}")
        if not isinstance(value, int) or isinstance(value, bool) or not size.low <= value <= size.high:
            raise refuse(f"{name}={shorten(value)}", f"is not a size of program {program}", f"use a whole number from {size.low} to {size.high}")
        if value != size.default:
            chosen[name] = value
    return {name: chosen[name] for name in sizes if name in chosen}


def with_sizes(source: str, chosen: Mapping[str, object]) -> str:
    """A program's text with the chosen sizes in place of those in the file."""

    def replaced(match: re.Match[str]) -> str:
        value = chosen.get(match["name"].lower())
        return match[0] if value is None else f"{match['name']} = {value:_}  # {match['low']} to {match['high']}"

    return _LINE.sub(replaced, source)

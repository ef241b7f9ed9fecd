"""Figures beside their goals: what every measurement prints, and its exit code."""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Item = TypeVar("Item")
Asked = argparse.Namespace


def measure(
    main: Callable[[Asked, "Figures"], None], about: str | None, **options: Any
) -> NoReturn:
    """Call `main` with what the command line asks for and what its figures are added to, and exit
    with 1 where one misses its goal. Data are stored in a folder of its own. `--json` goes without
    saying.

    An option is its default, which gives its type too (a type: None unless given), that with a
    sentence about it, or arguments of `add_argument`, of which `place` makes it positional:
    `rounds=3`, `folder=(Path, "keeps the runs")`, `part={"place": True, "choices": PARTS}`.
    """
    ask = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, given in (options | {"json": False}).items():
        if isinstance(given, dict):
            place = given.pop("place", False)
            ask.add_argument(name if place else f"--{name}", **given)
            continue
        value, words = given if isinstance(given, tuple) else (given, None)
        named, default = f"--{name.replace('_', '-')}", None if isinstance(value, type) else value
        if value is False:
            ask.add_argument(named, action="store_true", help=words)
        else:
            kind = value if isinstance(value, type) else type(value)
            # a Path's own type is that of this system
            kind = Path if issubclass(kind, Path) else kind
            ask.add_argument(named, type=kind, default=default, help=words)
    asked = ask.parse_args()
    figures = Figures(asked.json)
    # what is stored is not among the user's runs, whose programs may be as many as are held
    with tempfile.TemporaryDirectory(prefix="spmd-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["SPMD_LAB_DATA"] = folder
        main(asked, figures)
    sys.exit(figures.finish())


def of_part(items: Sequence[Item], part: str) -> list[Item]:
    """Every so many items: those of a part such as `3/20`."""
    number, parts = map(int, part.split("/"))
    return list(items[number - 1 :: parts])


@dataclass
class Figures:
    """The figures of one measurement, printed as they come; `as_json` prints them together at the
    end instead.
    """

    as_json: bool = False
    kept: list[dict[str, str | float | bool | None]] = field(default_factory=list)

    def add(
        self,
        what: str,
        value: float,
        unit: str = "",
        *,
        least: float | None = None,
        most: float | None = None,
        note: str = "",
    ) -> None:
        """Print a figure with its goal, which is from `least` to `most`, both included; a NaN
        misses any goal.
        """
        met = (
            not math.isnan(value)
            and (least is None or value >= least)
            and (most is None or value <= most)
        )
        self.kept.append(
            {
                "figure": what,
                "value": value,
                "unit": unit,
                "least": least,
                "most": most,
                "met": met,
                "note": note,
            }
        )
        if not self.as_json:
            words = f"{_number(value)} {unit}".rstrip()
            verdict = "met" if met else "MISSED"
            print(
                f"{what:<52} {words:>12}   goal {_goal(least, most)}: "
                f"{verdict}{f'   {note}' if note else ''}",
                flush=True,
            )

    def finish(self) -> int:
        """The exit code: 1 where a goal was missed, or nothing was measured."""
        if self.as_json:
            print(json.dumps(self.kept))
        return 0 if self.kept and all(each["met"] for each in self.kept) else 1


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _goal(least: float | None, most: float | None) -> str:
    if least is None:
        return f"at most {_number(most)}" if most is not None else "none"
    if most is None:
        return f"at least {_number(least)}"
    return _number(least) if least == most else f"{_number(least)} to {_number(most)}"

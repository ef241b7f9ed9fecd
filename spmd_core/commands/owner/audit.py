"""Lists who did what, the last first: on the dashboard and the command line, or on the dashboard alone."""

import json
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import SimpleNamespace

from spmd_core.base import refuse, shorten, visible
from spmd_core.lab import Lab
from spmd_core.sheets import table

_NAMES = {"submit": "run"}  # of actions, as people call them
_MOST, _LISTED = 10_000, 200


ARGUMENTS = {
    "--limit": {
        "metavar": "N",
        "default": "1000",
        "help": "at most so many, the newest (default 1000)",
    },
}


def main(arguments: Namespace) -> int:
    """Print a line for each run, cancel, delete, import, release and the like."""
    text = arguments.limit
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= _MOST):
        raise refuse(f"limit {shorten(text)}", "is not a number of lines", f"use 1 to {_MOST}")
    lines = [
        {
            "at": each.at,
            "who": each.who,
            "action": _NAMES.get(each.action, each.action),
            "object": each.subject,
        }
        for each in Lab.open(serve=False).actions(int(text), with_commands=True)
    ]
    return _print(arguments, lines, ("at", "who", "action", "object"))


def _who(arguments: Namespace) -> int:
    """Print what visitors of the dashboard did."""
    lines = [asdict(each) for each in Lab.open(serve=False).actions(_LISTED)]
    return _print(arguments, lines, ("at", "who", "action", "subject"))


def _print(
    arguments: Namespace, lines: Sequence[Mapping[str, object]], names: Sequence[str]
) -> int:
    if arguments.json:
        print(json.dumps(lines))
    elif not lines:
        print("nobody has done anything yet")
    else:
        rows = [
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(str(each["at"])))),
                *(visible(str(each[name])) or "–" for name in names[1:]),
            )
            for each in lines
        ]
        print("\n".join(table([names, *rows])))
    return 0


WHO = SimpleNamespace(ARGUMENTS={}, main=_who)

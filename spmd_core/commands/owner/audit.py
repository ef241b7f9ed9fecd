"""Lists who did what, on the dashboard and the command line, the last first."""

import json
import time
from argparse import Namespace

from spmd_core.base import refuse, shorten, visible
from spmd_core.lab import Lab
from spmd_core.sheets import table

_NAMES = {"submit": "run"}  # of actions, as people call them
_MOST = 10_000


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
    if arguments.json:
        print(json.dumps(lines))
    elif not lines:
        print("nobody has done anything yet")
    else:
        rows = [
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["at"])),
                visible(each["who"]),
                each["action"],
                visible(each["object"]) or "–",
            )
            for each in lines
        ]
        print("\n".join(table([("at", "who", "action", "object"), *rows])))
    return 0

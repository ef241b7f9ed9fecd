"""Lists what visitors of the dashboard did, the last first."""

import json
import time
from argparse import Namespace
from dataclasses import asdict

from spmd_core.lab import Lab
from spmd_core.sheets import table

_LISTED = 200


ARGUMENTS = {}


def main(arguments: Namespace) -> int:
    """Print the list."""
    actions = Lab.open(serve=False).actions(_LISTED)
    if arguments.json:
        print(json.dumps([asdict(each) for each in actions]))
    elif not actions:
        print("no visitor of the dashboard has done anything yet")
    else:
        rows = [
            (
                time.strftime("%Y-%m-%d %H:%M", time.localtime(each.at)),
                each.who,
                each.action,
                each.subject or "–",
            )
            for each in actions
        ]
        print("\n".join(table([("at", "who", "action", "of"), *rows])))
    return 0

"""Prints whether a login is required on the data folder, ends that, or ends all logins."""

import json
from argparse import Namespace

from spmd_core.base import default_data_folder, login

ARGUMENTS = {
    "--off": {
        "action": "store_true",
        "help": "require no login any more; first remove [auth] from secrets.toml",
    },
    "--end-all": {
        "action": "store_true",
        "help": "throw everybody out: each login that was made until now is over, at once",
    },
}


def main(arguments: Namespace) -> int:
    """Print whether a login is required, or end that, or all logins."""
    folder = default_data_folder()
    if arguments.end_all:
        login.end_all(folder)
    ended = arguments.off and login.end(folder)
    required = login.is_kept(folder)
    if arguments.json:
        print(json.dumps({"required": required}))
    elif arguments.end_all:
        print("Every login is over: whoever was logged in has to log in again.")
    elif required:
        print(
            "A login is required: the dashboard opens only while [auth] in secrets.toml describes "
            f"it, or after `{login.OFF}`."
        )
    elif ended:
        print(
            "No login is required any more, once secrets.toml has no [auth]: whoever reaches the "
            "dashboard can use it."
        )
    else:
        print("No login was set up on this data folder: whoever reaches the dashboard can use it.")
    return 0

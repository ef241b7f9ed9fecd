"""Writes stored runs into one archive, which another installation imports."""

import json
import sys
from argparse import Namespace

from spmd_core.base import numbered, refuse
from spmd_core.commands.notebook.named import RUN_HELP, run_named, searches_named
from spmd_core.commands.output import FORCE, check_output, write_output
from spmd_core.commands.spec import stored_id
from spmd_core.lab import Lab
from spmd_core.runs import COLLECTION_ID

ARGUMENTS = {
    "runs": {
        "metavar": "RUN",
        "nargs": "*",
        "type": stored_id,
        "help": f"{RUN_HELP}; a collection or search goes with its runs",
    },
    "--all": {"action": "store_true", "help": "every run that is over, collection and search"},
    "--out": {"metavar": "FILE", "required": True, "help": "the archive, such as a.spmdlab"},
    "--force": {"action": "store_true", "help": FORCE},
}


def main(arguments: Namespace) -> int:
    """Write the archive."""
    if bool(arguments.runs) == arguments.all:
        raise refuse("export", "takes runs, or --all", "name one of the two")
    check_output("--out", arguments.out, arguments.force)
    lab = Lab.open(serve=False)
    runs = (
        lab.archives.every()
        if arguments.all
        else [
            each
            if COLLECTION_ID.fullmatch(each) or searches_named(lab, [each])
            else run_named(lab, each)
            for each in arguments.runs
        ]
    )
    runs = list(dict.fromkeys(runs))
    unread: list[str] = []
    write_output("--out", arguments.out, lambda out: unread.extend(lab.archives.export(runs, out)))
    if unread and len(unread) == len(runs):
        print("none of these runs can be read by this version", file=sys.stderr)
    for run in unread:
        print(f"left out run {run}: this version cannot read it", file=sys.stderr)
    exported = [run for run in runs if run not in set(unread)]
    if arguments.json:
        print(json.dumps({"exported": exported, "left_out": unread, "file": arguments.out}))
    else:
        pages = sum(bool(COLLECTION_ID.fullmatch(each)) for each in exported)
        searches = len([each for each in exported if searches_named(lab, [each])])
        number = len(exported) - pages - searches
        parts = [numbered(number, "run")] * bool(number or not exported)
        parts += [f"{numbered(pages, 'collection')} with its runs"] * bool(pages)
        parts += [numbered(searches, "search")] * bool(searches)
        count = " and ".join(parts)
        print(f"{count} in {arguments.out}: import it with `import`, or drop it on History")
    return 0 if exported or not runs else 1

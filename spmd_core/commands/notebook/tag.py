"""Adds tags to a stored run, or removes them; pins it."""

from argparse import Namespace

from spmd_core.base import refuse
from spmd_core.commands.notebook.named import RUN, print_labels, run_named
from spmd_core.lab import Lab

ARGUMENTS = {
    **RUN,
    "tags": {"metavar": "TAG", "nargs": "*", "help": "a word to add, such as v5p"},
    "--remove": {"metavar": "TAG", "nargs": "+", "default": [], "help": "tags to remove"},
    "--pin": {
        "group": "pin",
        "action": "store_true",
        "default": None,
        "help": "list it first on History",
    },
    "--unpin": {"group": "pin", "dest": "pin", "action": "store_false", "help": "no longer"},
}


def main(arguments: Namespace) -> int:
    """Change the run's tags and pin."""
    if not arguments.tags and not arguments.remove and arguments.pin is None:
        raise refuse("tag", "needs a tag", "name one, or use --remove, --pin or --unpin")
    lab = Lab.open(serve=False)
    run = run_named(lab, arguments.run)
    removed = {tag.removeprefix("#").casefold() for tag in arguments.remove}
    kept = [tag for tag in lab.notebook.labels(run).tags if tag.casefold() not in removed]
    changes = {} if arguments.pin is None else {"is_pinned": arguments.pin}
    labels = lab.notebook.label(run, tags=(*kept, *arguments.tags), **changes)
    return print_labels(arguments, run, labels)

"""Names a stored run, so that people can talk about it."""

from argparse import Namespace

from spmd_core.commands.notebook.named import RUN, print_labels, run_named, text_of
from spmd_core.lab import Lab

ARGUMENTS = {
    **RUN,
    "text": {"metavar": "TEXT", "help": 'the name; "" removes it'},
}


def main(arguments: Namespace) -> int:
    """Name the run."""
    lab = Lab.open(serve=False)
    run = run_named(lab, arguments.run)
    return print_labels(arguments, run, lab.notebook.label(run, name=text_of(arguments.text)))

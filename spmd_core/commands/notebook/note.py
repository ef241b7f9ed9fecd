"""Writes the note of a stored run."""

from argparse import Namespace

from spmd_core.commands.notebook.named import RUN, print_labels, run_named, text_of
from spmd_core.lab import Lab

ARGUMENTS = {
    **RUN,
    "text": {"metavar": "TEXT", "help": 'the note, - for standard input; "" removes'},
}


def main(arguments: Namespace) -> int:
    """Replace the run's note."""
    lab = Lab.open(serve=False)
    run = run_named(lab, arguments.run)
    return print_labels(arguments, run, lab.notebook.label(run, note=text_of(arguments.text)))

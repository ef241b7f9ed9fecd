"""Writes the note of a stored run."""

from argparse import ArgumentParser, Namespace

from spmd_core.commands.notebook.named import add_run, print_labels, run_named, text_of
from spmd_core.lab import Lab


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of `note`."""
    add_run(parser)
    parser.add_argument("text", metavar="TEXT", help='the note, - for standard input; "" removes')


def main(arguments: Namespace) -> int:
    """Replace the run's note."""
    lab = Lab.open(serve=False)
    run = run_named(lab, arguments.run)
    return print_labels(arguments, run, lab.notebook.label(run, note=text_of(arguments.text)))

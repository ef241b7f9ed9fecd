"""Writes the name or the note of a stored run."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from spmd_core.commands.notebook.named import RUN, print_labels, run_named, text_of
from spmd_core.lab import Lab


def _write(field: str, arguments: Namespace) -> int:
    lab = Lab.open(serve=False)
    run = run_named(lab, arguments.run)
    change: Mapping[str, Any] = {field: text_of(arguments.text)}
    return print_labels(arguments, run, lab.notebook.label(run, **change))


def _command(field: str, text: str) -> SimpleNamespace:
    arguments = {**RUN, "text": {"metavar": "TEXT", "help": text}}
    return SimpleNamespace(ARGUMENTS=arguments, main=partial(_write, field))


NAME = _command("name", 'the name; "" removes it')
NOTE = _command("note", 'the note, - for standard input; "" removes')

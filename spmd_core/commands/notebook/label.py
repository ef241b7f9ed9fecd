"""Writes the name or the note of a stored run, its tags and its pin."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from spmd_core.base import refuse
from spmd_core.commands.notebook.named import RUN, print_labels, run_named, text_of
from spmd_core.lab import Lab


def _write(changes: Callable[[Namespace, Lab, str], Mapping[str, Any]], given: Namespace) -> int:
    lab = Lab.open(serve=False)
    run = run_named(lab, given.run)
    return print_labels(given, run, lab.notebook.label(run, **changes(given, lab, run)))


def _command(field: str, text: str) -> SimpleNamespace:
    arguments = {**RUN, "text": {"metavar": "TEXT", "help": text}}
    change = lambda given, lab, run: {field: text_of(given.text)}  # noqa: E731
    return SimpleNamespace(ARGUMENTS=arguments, main=partial(_write, change))


def _tags(given: Namespace, lab: Lab, run: str) -> Mapping[str, Any]:
    if not given.tags and not given.remove and given.pin is None:
        raise refuse("tag", "needs a tag", "name one, or use --remove, --pin or --unpin")
    removed = {tag.removeprefix("#").casefold() for tag in given.remove}
    kept = [tag for tag in lab.notebook.labels(run).tags if tag.casefold() not in removed]
    pin = {} if given.pin is None else {"is_pinned": given.pin}
    return {"tags": (*kept, *given.tags), **pin}


NAME = _command("name", 'the name; "" removes it')
NOTE = _command("note", 'the note, - for standard input; "" removes')
TAG = SimpleNamespace(
    ARGUMENTS={
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
    },
    main=partial(_write, _tags),
)

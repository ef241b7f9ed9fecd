"""Prints what other specs, axis sizes or constraints do to an exported program, before a compile."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from spmd_core.answers import what_if_table
from spmd_core.base import read_file, refuse, shorten
from spmd_core.experiment import Experiment, as_exported, parse_mesh, programs, read_spec_words
from spmd_core.lab import Lab
from spmd_core.sheets import sheet_lines

ARGUMENTS = {
    "file": {"metavar": "FILE", "help": "what `Exported.serialize()` returned"},
    "--spec": {
        "metavar": "ARGUMENT=AXES,…",
        "action": "append",
        "default": [],
        "help": "a spec of arguments: params/w=data,None; axes of one dim are joined by +",
    },
    "--axis": {
        "metavar": "AXIS=SIZE,…",
        "action": "append",
        "default": [],
        "help": "another size of a mesh axis",
    },
    "--constrain": {
        "metavar": "FILE:LINE=AXES,…",
        "action": "append",
        "default": [],
        "help": "a constraint on the value of a line: model.py:88=data,None",
    },
    "--target": {"help": "where it is to be compiled (default: the first it was exported for)"},
}


def main(arguments: Namespace) -> int:
    """Take the program, partition it with both shardings, and print what changes."""
    path, lab = Path(arguments.file), Lab.open(serve=False)
    try:
        data = read_file(path, programs.MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        what = f"file {shorten(arguments.file)}"
        raise refuse(what, f"cannot be read ({reason.lower()})", programs.HOW) from None
    before = as_exported(lab.take_program(data, path.stem), arguments.target)
    answer = lab.what_if(before, _changed(before, arguments))
    if arguments.json:
        print(json.dumps(answer.json()))
        return 0
    print(answer.headline)
    print("\n".join(f"{name}: {text}" for name, text in answer.figures))
    print(f"{answer.made}. {answer.agreement}".rstrip(), end="\n\n")
    print("\n".join(sheet_lines(what_if_table(answer.rows, "terminal"))))
    return 0


def _changed(before: Experiment, arguments: Namespace) -> Experiment:
    specs = dict(map(_spec, arguments.spec))
    specs |= {f"@{name}": spec for name, spec in map(_spec, arguments.constrain)}
    sizes = dict(before.mesh) | {
        axis: size for word in arguments.axis for axis, size in parse_mesh(word)
    }
    if not specs and not arguments.axis:
        raise refuse("what-if", "changes nothing", "add --spec, --axis or --constrain")
    fields: dict[str, Any] = {"mesh": sizes}
    return before.vary(**fields, specs=specs)


def _spec(word: str) -> tuple[str, list[list[str] | None]]:
    name, equal, axes = word.partition("=")
    if not name or not equal:
        fix = "write NAME=AXES,… with axes, or None, for each dim"
        raise refuse(f"spec {shorten(word)}", "names no array and axes", fix)
    return name, read_spec_words(axes)

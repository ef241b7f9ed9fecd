"""Prints what other specs, axis sizes or constraints do to an exported program, before a compile."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from spmd_core.answers import WHAT_IF, WORSE, WhatIf
from spmd_core.base import refuse, shorten
from spmd_core.commands.program import read_program
from spmd_core.experiment import Experiment, as_exported, read_spec_words
from spmd_core.lab import Lab
from spmd_core.sheets import sheet_lines
from spmd_core.workloads import findings, parse_mesh, programs

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
    """Partition the program with both shardings, and print what changes: it is not stored."""
    lab = Lab.open(serve=False)
    with programs.lent(read_program(arguments.file), Path(arguments.file).stem) as described:
        before = as_exported(described, arguments.target)
        answer = lab.what_if(before, _changed(before, arguments))
        _print(answer, arguments)
    return 0


def _print(answer: WhatIf, arguments: Namespace) -> None:
    if arguments.json:
        print(json.dumps(answer.json()))
        return
    print(answer.headline)
    for name, text, more, *_ in answer.figures:
        print(f"{name}: {text}" + f", {more}" * bool(more))
    if answer.raised:
        print(f"Worse: {answer.verdict}. {WORSE}")
    print(f"{answer.made}. {answer.agreement}".rstrip(), end="\n\n")
    print("\n".join(sheet_lines(WHAT_IF.table(answer.rows, "terminal"))))


def _changed(before: Experiment, arguments: Namespace) -> Experiment:
    specs = dict(map(_spec, arguments.spec))
    specs |= {f"@{name}": spec for name, spec in map(_spec, arguments.constrain)}
    sizes = dict(before.mesh) | {
        axis: size for word in arguments.axis for axis, size in parse_mesh(word)
    }
    if not specs and not arguments.axis:
        raise refuse("what-if", "changes nothing", "add --spec, --axis or --constrain")
    fields: dict[str, Any] = {"mesh": sizes}
    after = before.vary(**fields, specs=specs)
    assert after.exported is not None  # of a program, like `before`
    for finding in findings(after.exported):
        if finding.kind == "rule" and finding.path in specs and finding.meant is None:
            raise refuse(f"spec {shorten(finding.path)}", "matches no argument", "correct it")
    return after


def _spec(word: str) -> tuple[str, list[list[str] | None]]:
    name, equal, axes = word.partition("=")
    if not name or not equal:
        fix = "write NAME=AXES,… with axes, or None, for each dim"
        raise refuse(f"spec {shorten(word)}", "names no array and axes", fix)
    return name, read_spec_words(axes)

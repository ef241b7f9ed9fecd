"""Prints who holds what, without any device: of a spec, or of a mesh, shape and sharding given in
words.
"""

import json
import shutil
from argparse import Namespace
from typing import Any

from spmd_core.answers import layout_lines
from spmd_core.base import RequestError, check_known, refuse, shorten
from spmd_core.commands.spec import OPTIONAL_SPEC, read_one
from spmd_core.experiment import Experiment, layout_json, parse_experiment
from spmd_core.fields import load_json
from spmd_core.workloads import get_workload

ARGUMENTS = {
    **OPTIONAL_SPEC,
    "--mesh": {"metavar": "x=2,y=4", "help": "mesh axes and their sizes, in order"},
    "--shape": {"metavar": "4,8", "help": "sizes of the array's dims"},
    "--spec": {
        "dest": "partition",
        "metavar": '["x", ["y"]]',
        "help": "per dim null, an axis or a list of axes, as JSON",
    },
    "--dtype": {"help": "dtype of the elements (default float32)"},
    "--array": {"metavar": "NAME", "help": "one operand or result of a spec that has several"},
}


def main(arguments: Namespace) -> int:
    """Print the layout of an array, or of every operand and result."""
    experiment = _experiment(arguments)
    names = [array.name for array in experiment.what.arrays]
    if not names:
        raise refuse(
            f"workload {experiment.workload}",
            "describes no arrays",
            "lay out another one, or run it",
        )
    if arguments.array is not None:
        check_known("array", arguments.array, names, f"is not one of {experiment.workload}")
        names = [arguments.array]
    if arguments.json:
        layouts = {name: layout_json(experiment, name) for name in names}
        print(
            json.dumps(
                layouts[names[0]] if len(names) == 1 else {"arrays": layouts}, separators=(",", ":")
            )
        )
        return 0
    width = shutil.get_terminal_size().columns
    print("\n\n".join("\n".join(layout_lines(experiment, name, width)) for name in names))
    return 0


def _experiment(arguments: Namespace) -> Experiment:
    if arguments.spec is not None:
        if any(
            given is not None
            for given in (arguments.mesh, arguments.shape, arguments.partition, arguments.dtype)
        ):
            raise RequestError(
                "a spec was given, and --mesh, --shape, --spec or --dtype as well: give one or "
                "the other"
            )
        return read_one(arguments.spec)
    if arguments.mesh is None or arguments.shape is None:
        raise RequestError(
            "there is nothing to lay out: name a spec, or give --mesh x=2,y=4 and --shape 4,8"
        )
    shape = [_json_value(size) for size in arguments.shape.split(",")]
    dims = get_workload("array").dims
    if len(shape) > len(dims):
        raise refuse(
            f"--shape {shorten(arguments.shape)}",
            f"has rank {len(shape)}",
            f"use a rank from 1 to {len(dims)}",
        )
    return parse_experiment(
        {
            "workload": "array",
            "mesh": _mesh(arguments.mesh),
            "dims": dict(zip(dims, shape, strict=False)),
            "dtype": arguments.dtype,
            "overrides": {"array": _partition(arguments.partition or "[]", len(shape))},
        }
    )


def _mesh(text: str) -> list[list[Any]]:
    pairs = [word.strip().partition("=") for word in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise refuse(f"--mesh {shorten(text)}", "is not a mesh", "write for example --mesh x=2,y=4")
    return [[name.strip(), _json_value(size)] for name, _, size in pairs]


def _json_value(text: str) -> Any:
    """A whole number; any other text as it is, to be refused by name."""
    text = text.strip()
    return (
        int(text)
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 100
        else text
    )


def _partition(text: str, rank: int) -> list[Any]:
    try:
        given = load_json(text)
    except RequestError:
        given = None
    if not isinstance(given, list):
        raise refuse(
            f"--spec {shorten(text)}", "is not a list", """write for example --spec '["x", null]'"""
        )
    return given + [None] * (rank - len(given))

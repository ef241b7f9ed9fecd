"""Prints a script of plain JAX that reproduces an experiment without this project."""

import json
from argparse import Namespace

from spmd_core.base import RequestError, refuse
from spmd_core.commands.spec import OPTIONAL_SPEC, read_spec, stored_id
from spmd_core.script import export

ARGUMENTS = {
    **OPTIONAL_SPEC,
    "--run": {
        "metavar": "ID",
        "type": stored_id,
        "help": "the experiment of a stored run, whose values the script then compares with its own",
    },
}


def main(arguments: Namespace) -> int:
    """Print the script."""
    if (arguments.spec is None) == (arguments.run is None):
        raise RequestError(
            "a script is made of one experiment: name a spec, or a stored run with --run ID"
        )
    if arguments.run is None:
        experiment, result = read_spec(arguments.spec), None
    else:
        from spmd_core.lab import Lab

        lab = Lab.open(serve=False)
        experiment, result = lab.status(arguments.run).experiment, lab.result(arguments.run)
        if result is None:
            raise refuse(
                f"run {arguments.run}", "has no result to compare with", "name its spec instead"
            )
    script = export.script_text(experiment, result)
    print(
        json.dumps({"experiment": experiment.id, "script": script}) if arguments.json else script,
        end="\n" if arguments.json else "",
    )
    return 0

"""Lists the sharding type errors of a step under Explicit axes, and patches its files."""

import json
from argparse import Namespace

from spmd_core.own import explicit, explicit_lines, write_explicit

ARGUMENTS = {
    "step": {
        "metavar": "FILE|MODULE:FUNCTION",
        "help": "a function without arguments that returns (step, arguments): in FILE `step`",
    },
    "--target": {"default": "cpu:8", "help": "simulated devices of the mesh: cpu:16"},
    "--write": {"action": "store_true", "help": "write the patched files"},
}


def main(arguments: Namespace) -> int:
    """Print the errors and the patch; 1 where the patched step does not trace, or is not equal."""
    report = explicit(arguments.step, arguments.target)
    if arguments.write:
        write_explicit(report)
    value = report.model_dump(mode="json", exclude={"texts"})
    print(json.dumps(value) if arguments.json else "\n".join(explicit_lines(report)))
    return 0 if report.traces and not report.wrong else 1

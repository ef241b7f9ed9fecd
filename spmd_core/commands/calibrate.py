"""Measures the ceilings of a machine: what no program on it passes."""

import json
import signal
from argparse import Namespace

from spmd_core.commands.collectives import where
from spmd_core.commands.run import print_run
from spmd_core.commands.waiting import interrupt, run_to_end
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.roofline import measured

ARGUMENTS = {
    "--target": {"help": "a target such as cpu:8; else the default one"},
    "--mesh": {"help": "axes and sizes, for example x=2,y=4; else one axis of all"},
}


def main(arguments: Namespace) -> int:
    """Measure and keep them: 0 where any was measured, 130 where it was interrupted."""
    experiment = parse_experiment({"workload": "calibrate"} | where(arguments, {}))
    signal.signal(signal.SIGTERM, interrupt)
    lab = Lab.open(serve=False)
    status, interrupted = run_to_end(lab, experiment)
    result = lab.result(status.run)
    table = measured(result) if result else None
    if arguments.json and result and table:
        print(
            json.dumps(
                {
                    "run": result.run,
                    "target": experiment.target,
                    "mesh": experiment.axis_sizes,
                    "ceilings": [each.model_dump(mode="json") for each in table.ceilings],
                    "operations": [each.model_dump(mode="json") for each in table.costs],
                    "moves": [each.model_dump(mode="json") for each in table.move_costs],
                    "collectives": [fit.model_dump(mode="json") for fit in table.fits],
                    "notes": [*table.notes, *result.notes],
                }
            )
        )
    else:
        print_run(status, result, arguments.json)
    if interrupted:
        return 130
    if table and table.ceilings:
        return 0
    return 1

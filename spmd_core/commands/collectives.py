"""Measures a machine: its ceilings, which no program on it passes, and collectives over the axes of
a mesh, size by size; of a TPU that is not attached prints the cost model's estimate of these.
"""

import json
import signal
from argparse import Namespace
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from spmd_core.base import refuse
from spmd_core.commands.predict_arguments import flags_of, given_fields
from spmd_core.commands.run import print_run
from spmd_core.commands.spec import HELP, read_one
from spmd_core.commands.waiting import interrupt, run_to_end
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab
from spmd_core.machine import default_target, get_topology, parse_target
from spmd_core.results import Result, StrategyResult
from spmd_core.roofline import calibration, expected_spans, measured, with_expected
from spmd_core.workloads import COLLECTIVES_SWEEP, parse_mesh

WORKLOAD = "collectives"


ARGUMENTS = {
    "spec": {"metavar": "SPEC", "nargs": "?", "help": f"{HELP}; else as the options say"},
    "--target": {"help": "a target such as cpu:8 or tpu:v5e:4x4"},
    "--mesh": {"help": "axes and sizes, for example x=2,y=4; else one axis of all"},
    **flags_of(COLLECTIVES_SWEEP.options),
    "--dtype": {"help": "float32, bfloat16 or float16"},
}


def main(arguments: Namespace) -> int:
    """Measure them and print a table: 0 where any point is there, 130 where it was interrupted."""
    return _measured(arguments, _experiment(arguments), as_json, lambda table: table.points)


def _measured(
    arguments: Namespace,
    experiment: Experiment,
    form: Callable[[Result], Mapping[str, object]],
    rows: Callable[[StrategyResult], object],
) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    lab = Lab.open(serve=False)
    status, interrupted = run_to_end(lab, experiment)
    result = lab.result(status.run)
    if result and experiment.workload == WORKLOAD:
        result = with_expected(result, calibration(experiment, lab.latest, lab.result))
    if arguments.json and result:
        print(json.dumps(form(result)))
    else:
        print_run(status, result, arguments.json)
    if interrupted:
        return 130
    return 0 if result and (table := measured(result)) and rows(table) else 1


def as_json(result: Result) -> dict[str, object]:
    """Points and fits of a sweep, as JSON values; times in seconds, bandwidths in bytes per
    second. `times_as_long`: the range by kind of what is predicted, over all published sizes; of
    kinds where one is known.
    """
    table, spans = measured(result), expected_spans(result.experiment.place)
    return {
        "run": result.run,
        "times_as_long": {
            kind: dict(zip(("low", "high"), span, strict=True)) for kind, span in spans.items()
        },
        "experiment": result.experiment.to_json(),
        "partial": result.partial,
        "points": [point.model_dump(mode="json") for point in table.points],
        "fits": [fit.model_dump(mode="json") for fit in table.fits],
        "notes": [*table.notes, *result.notes],
    }


def _experiment(arguments: Namespace) -> Experiment:
    """The experiment that a spec and the options name; options win."""
    given = {}
    if arguments.spec:
        experiment = read_one(arguments.spec)
        if experiment.workload != WORKLOAD:
            raise refuse(
                f"workload {experiment.workload}",
                "is no sweep of collectives",
                f"use {WORKLOAD}, or `run` for this one",
            )
        given = experiment.to_json()
    options = given.get("options", {}) | given_fields(arguments, COLLECTIVES_SWEEP.options)
    return parse_experiment(
        given
        | {"workload": WORKLOAD, "options": options}
        | where(arguments, given)
        | ({"dtype": arguments.dtype} if arguments.dtype else {})
    )


def where(arguments: Namespace, given: Mapping[str, Any]) -> dict[str, object]:
    """Target and mesh: of the options, of the spec, else one axis over all devices."""
    target = arguments.target or given.get("target") or default_target()
    if arguments.mesh:
        mesh = dict(parse_mesh(arguments.mesh))
    elif given.get("mesh") and not arguments.target:
        mesh = given["mesh"]
    else:
        mesh = {"x": _device_count(target)}
    return {"target": target, "mesh": mesh}


def _device_count(text: str) -> int:
    target = parse_target(text)
    if target.is_absent:
        return get_topology(target).devices
    return target.device_count or Lab.open(serve=False).probe(text).device_count


def _ceilings_json(result: Result) -> dict[str, object]:
    table = measured(result)
    return {
        "run": result.run,
        "target": result.experiment.target,
        "mesh": result.experiment.axis_sizes,
        "ceilings": [each.model_dump(mode="json") for each in table.ceilings],
        "operations": [each.model_dump(mode="json") for each in table.costs],
        "moves": [each.model_dump(mode="json") for each in table.move_costs],
        "collectives": [fit.model_dump(mode="json") for fit in table.fits],
        "notes": [*table.notes, *result.notes],
    }


def _calibrate(arguments: Namespace) -> int:
    experiment = parse_experiment({"workload": "calibrate"} | where(arguments, {}))
    return _measured(arguments, experiment, _ceilings_json, lambda table: table.ceilings)


CALIBRATE = SimpleNamespace(
    ARGUMENTS={
        "--target": {"help": "a target such as cpu:8; else the default one"},
        "--mesh": {"help": "axes and sizes, for example x=2,y=4; else one axis of all"},
    },
    main=_calibrate,
)

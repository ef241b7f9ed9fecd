"""Compiles a training step, or a spec's program, for TPUs that are not attached, and prints what it
would cost there.
"""

import json
import math
import os
import signal
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spmd_core.commands import predict_sweep
from spmd_core.commands.run import follow, interrupt
from spmd_core.commands.spec import HELP, read_spec
from spmd_core.commands.table import table
from spmd_core.communication.rows import SMALL_WORDS, rows
from spmd_core.cost import baseline
from spmd_core.cost.predicting import is_current
from spmd_core.errors import RequestError, WorkerError, refuse, shorten
from spmd_core.estimate.step import estimate_step
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.plans import experiment_of, plan_of
from spmd_core.lab import Lab
from spmd_core.plan.models import ACTIVATIONS, CHOICES, VARIABLE
from spmd_core.plan.plan import NAMES, Plan, parse_mesh, parse_plan
from spmd_core.results.prediction import Prediction
from spmd_core.results.result import Result
from spmd_core.settings import Settings
from spmd_core.units import bytes_text, number_text, seconds_text
from spmd_core.words import predictions
from spmd_core.words.predictions import parts

_PLAN_OPTIONS = ("model", "mesh", "batch_per_device", "sequence", "remat", "save", "offload",
                 "attention_blocks", "state_dtype", "second_moment_dtype", "parameter_dtype",
                 "device_order", "activation", "gated", "tied", *VARIABLE)


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of `predict`."""
    parser.add_argument("spec", metavar="SPEC", nargs="?", help=f"instead of a model: {HELP}; its target is a topology, or --target is")
    parser.add_argument("--target", metavar="tpu:v5e:16x16",
                        help="a topology, slices behind an asterisk: tpu:v5e:16x16*2")
    parser.add_argument("--model", metavar="NAME", help="scaled:16, llama-3.1-8b and so on")
    parser.add_argument("--mesh", metavar="fsdp=16,tensor=4",
                        help="mesh axes and their sizes, slices outermost")
    parser.add_argument("--batch-per-device", type=float, metavar="N",
                        help="sequences per device and step")
    parser.add_argument("--sequence", type=int, metavar="N",
                        help="tokens of a sequence (default 2048)")
    parser.add_argument("--remat", metavar="POLICY", help="rematerialization: none, minimal (save projections) or full (default)")
    parser.add_argument("--save", metavar="NAMES",
                        help=f"saved on the device, of {','.join(NAMES)}")
    parser.add_argument("--offload", metavar="NAMES", help="offloaded to host memory, of the same")
    parser.add_argument("--fused-qkv", action="store_true",
                        help="one matmul for query, key and value")
    parser.add_argument("--fused-mlp", action="store_true", help="one matmul for gate and up")
    parser.add_argument("--attention-blocks", type=_blocks, metavar="Q,KV,COMPUTE",
                        help="blocks of the attention kernel: queries, keys, keys per matmul; or one number for all")
    parser.add_argument("--state-dtype", metavar="DTYPE",
                        help="of the optimizer's moments: float32 or bfloat16")
    parser.add_argument("--second-moment-dtype", metavar="DTYPE",
                        help="of the second moment alone, the same")
    parser.add_argument("--parameter-dtype", metavar="DTYPE",
                        help="of the parameters: float32 or bfloat16")
    parser.add_argument("--device-order", metavar="ORDER",
                        help="topology (mesh_utils places the axes) or plain")
    for name in VARIABLE:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N",
                            help=f"{name} of its own, in place of the model's")
    parser.add_argument("--activation", metavar="NAME",
                        help=f"of the mlp: {', '.join(ACTIVATIONS)}")
    for name, yes, no in (("gated", "an mlp of three matmuls", "of two"),
                          ("tied", "one vocabulary table", "two")):
        parser.add_argument(f"--{name}", action="store_const", const=True, default=None,
                            help=f"{yes}, whatever the model has")
        parser.add_argument(f"--un{name}", action="store_const", const=False, dest=name, help=no)
    parser.add_argument("--compiler-flags", metavar='"xla_…=true …"',
                        help="added to those of the published runs")
    parser.add_argument("--strategy", metavar="NAME",
                        help="of a spec; default: its first that uses a mesh")
    parser.add_argument("--timeout", type=_seconds, default=Settings().predict_timeout_s,
                        metavar="SECONDS",
                        help=f"for the compile (default {Settings().predict_timeout_s:g})")
    parser.add_argument("--fresh", action="store_true",
                        help="compile even where the same versions have predicted it before")
    parser.add_argument("--keep", metavar="FILE",
                        help="write the plan and its prediction as a baseline file")
    parser.add_argument("--baseline", metavar="FILE", help="compile the plan of a baseline file again; exit code 1 where something changed")
    parser.add_argument("--estimate", action="store_true",
                        help="estimate the step from the plan at once; compile nothing")
    predict_sweep.add_arguments(parser)


def _blocks(text: str) -> tuple[int, ...]:
    """One whole number, or three."""
    return tuple(int(part) for part in text.split(","))


_blocks.__name__ = "list of blocks"


def _seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError
    return value


_seconds.__name__ = "number of seconds"  # which argparse puts into its sentence


def main(arguments: Namespace) -> int:
    """Print the prediction."""
    _check_together(arguments)
    signal.signal(signal.SIGTERM, interrupt)  # a job that is stopped cancels its run as Ctrl-C does
    if arguments.baseline:
        return _compare(arguments)
    if arguments.sweep:
        return predict_sweep.main(arguments, _base(arguments))
    if arguments.spec:
        return _of_spec(arguments)
    return _of_plan(arguments, plan_from(arguments))


def _check_together(arguments: Namespace) -> None:
    """RequestError where an argument would mean nothing beside another: none is passed over in
    silence.
    """
    given = {name for name, value in vars(arguments).items()
             if value is not None and (value is not False or name in CHOICES)}
    described = given & {*_PLAN_OPTIONS, "fused_qkv", "fused_mlp"}

    def refused(names: set[str], beside: str, fix: str) -> None:
        if names:
            name = min(names).replace("_", "-")
            raise refuse(f"{'a spec' if name == 'spec' else f'--{name}'} with {beside}",
                         "means nothing", fix)

    if arguments.baseline:
        others = given & {"spec", "target", "sweep", "strategy", "keep", "estimate"}
        refused(described | others, "--baseline", "the file holds the plan that is compiled")
    if arguments.spec:
        refused(described | given & {"compiler_flags"}, "a spec",
                "say it in the spec, or describe a model without one")
    else:
        refused(given & {"strategy"}, "a model",
                "its sharding follows from the names of its mesh axes")
    if arguments.estimate:
        refused(given & {"keep", "fresh"}, "--estimate", "an estimate compiles nothing")
    if not arguments.sweep and arguments.scaling == "strong":
        refused({"scaling"}, "no --sweep", "add --sweep chips=8,64,512")
    if arguments.keep and not (os.access(folder := Path(arguments.keep).parent, os.W_OK)
                               and folder.is_dir() and not Path(arguments.keep).is_dir()):
        raise refuse(f"--keep {shorten(arguments.keep)}", "is not a file that can be written",
                     "name one in a folder that exists")


def _of_plan(arguments: Namespace, plan: Plan) -> int:
    if arguments.estimate:
        _estimate(plan, arguments.json)
        return 0
    found = _predicted(experiment_of(plan), arguments.timeout, arguments.fresh)
    if arguments.keep:
        _keep(arguments.keep, baseline.to_text(baseline.baseline_of(plan, found.prediction)))
    _print(found, arguments.json, {"plan": plan.to_json()})
    return 0


def _keep(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise refuse(f"--keep {shorten(path)}", f"cannot be written ({error.strerror})",
                     "name another file") from None


def _base(arguments: Namespace) -> Experiment:
    """The experiment that a sweep varies: the spec's on its own or the given target, or that of the
    plan.
    """
    if not arguments.spec:
        return experiment_of(plan_from(arguments))
    changes: dict[str, Any] = {"target": arguments.target} if arguments.target else {}
    return read_spec(arguments.spec).vary(**changes
                                          | ({"strategies": [arguments.strategy]}
                                             if arguments.strategy else {}))


def plan_from(arguments: Namespace) -> Plan:
    """The plan that the arguments describe; RequestError where something is missing or wrong."""
    for name in ("target", "model", "mesh", "batch_per_device"):
        if getattr(arguments, name) is None:
            raise refuse(f"predict without --{name.replace('_', '-')}", "is incomplete", 
                         "name a target, a model, a mesh and a batch per device, or a spec")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in _PLAN_OPTIONS
                             if getattr(arguments, name) is not None}
    given["sizes"] = {name: given.pop(name) for name in VARIABLE if name in given}
    given["mesh"] = parse_mesh(arguments.mesh)
    for name in ("save", "offload"):
        if name in given:
            given[name] = tuple(part for part in given[name].split(",") if part)
    if arguments.compiler_flags:
        given["compiler_flags"] = tuple(flag.removeprefix("--")
                                        for flag in arguments.compiler_flags.split())
    return parse_plan(given
                      | {"target": arguments.target, "fused_qkv": arguments.fused_qkv,
                         "fused_mlp": arguments.fused_mlp})


def _predicted(experiment: Experiment, timeout_s: float, fresh: bool) -> "_Found":
    """The prediction of an experiment with one strategy: a stored one by the same versions, unless
    it is to be `fresh`; else a new run's.

    WorkerError, in the compiler's words, where there is none.
    """
    lab = Lab.open(serve=False)
    stored = None if fresh else lab.latest(experiment)
    if stored and (result := lab.result(stored)) and is_current(result):
        return _Found(_only(result), f"compiled before, in run {stored}: --fresh compiles again")
    run, begun = lab.submit(experiment), time.monotonic()
    status, interrupted = follow(lab, run, timeout_s)
    if interrupted:
        raise KeyboardInterrupt
    result = lab.result(run)
    if status.state == "succeeded" and result:
        return _Found(_only(result))
    if status.state == "cancelled" and time.monotonic() - begun >= timeout_s:
        raise WorkerError(f"the compile took longer than {timeout_s:g} s and was ended: allow it more time, or make the program smaller")
    error = status.error
    if error and error.kind in ("inexpressible", "RequestError"):
        raise RequestError(error.message)
    raise WorkerError(error.message if error else f"run {run} {status.state.replace('_', ' ')}")


@dataclass(frozen=True, slots=True)
class _Found:
    """A prediction, and where it comes from if it was not compiled now."""

    prediction: Prediction
    origin: str = ""


def _only(result: Result) -> Prediction:
    (outcome,) = result.strategies.values()
    if outcome.prediction is None:
        raise WorkerError(outcome.error.message if outcome.error
                          else f"run {result.run} has no prediction")
    return outcome.prediction


def _of_spec(arguments: Namespace) -> int:
    experiment = read_spec(arguments.spec)
    if arguments.target:
        experiment = experiment.vary(target=arguments.target)
    if experiment.what.has_plan:
        return _of_plan(arguments, plan_of(experiment))
    if not experiment.place.is_absent:
        raise refuse(f"target {experiment.target}", "is not a TPU topology",
                     "name one with --target, for example tpu:v5e:4x4")
    for name in ("keep", "estimate"):
        if getattr(arguments, name):
            raise refuse(f"--{name} of workload {experiment.workload}", "is not available",
                         "leave it out: it is for models' training steps")
    strategy = arguments.strategy or next((name for name in experiment.strategies
                                           if name != "single"), experiment.strategies[0])
    if strategy not in experiment.what.strategies:
        raise refuse(f"strategy {shorten(strategy)}", f"is not one of {experiment.workload}",
                     f"use {', '.join(experiment.what.strategies)}")
    found = _predicted(experiment.vary(strategies=[strategy]), arguments.timeout, arguments.fresh)
    _print(found, arguments.json, {"experiment": experiment.to_json(), "strategy": strategy})
    return 0


def _compare(arguments: Namespace) -> int:
    try:
        with Path(arguments.baseline).open("rb") as file:
            content = file.read(baseline.MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise refuse(f"baseline {shorten(arguments.baseline)}", f"cannot be read ({error})",
                     "write one with --keep FILE") from None
    before = baseline.read_baseline(content)
    plan = before.plan
    if arguments.compiler_flags:
        plan = parse_plan(plan.to_json() | {"compiler_flags": [*plan.compiler_flags,
                                                               *arguments.compiler_flags.split()]})
    prediction = _predicted(experiment_of(plan), arguments.timeout, fresh=True).prediction
    found = baseline.changes(before, baseline.baseline_of(plan, prediction))
    if arguments.json:
        print(json.dumps({"changes": found, **prediction.model_dump(mode="json")}))
    else:
        print("\n".join(found) or "nothing changed")
    return 1 if found else 0


def _print(found: _Found, as_json: bool, what: dict[str, Any]) -> None:
    lines = _lines(found.prediction,
                   "plan" in what) + [f"note: {found.origin}"] * bool(found.origin)
    print(json.dumps({**what, **found.prediction.model_dump(mode="json")}) if as_json
          else "\n".join(lines))


def _lines(prediction: Prediction, step: bool) -> list[str]:
    """The answer first, as on the screen; then time, memory, model and collectives."""
    memory, time = prediction.memory_bytes, prediction.predicted_s
    lines = [predictions.headline(prediction, step)]
    if time:
        span = f"{seconds_text(time.low)} to {seconds_text(time.high)}"
        cost = f"{number_text(prediction.chip_seconds or 0.0)} chip-seconds"
        lines.append(f"time: {seconds_text(time.estimate)} ({span}), {cost}")
    if memory.host:
        lines.append(f"host memory: {bytes_text(memory.host)} per device")
    if prediction.mfu is not None:
        lines.append(f"model: {prediction.mfu:.1%} MFU, "
                     f"{prediction.tflops_per_chip:.0f} TFLOP/s/chip, "
                     f"{prediction.tokens_per_s_per_chip:,.0f} tokens/s/chip")
    if prediction.shares_s and time:
        shares = parts(prediction)
        large = [f"{name} {share / time.estimate:.0%}" for name, share in shares.items()
                 if share > 0.005 * time.estimate]
        lines.append(f"where: {', '.join(large)}")
    if prediction.collectives:
        lines += ["", *table(_collectives(prediction), numbers=(2, 3, 4, 5))]
    return lines + [f"note: {note}" for note in prediction.notes]


def _collectives(prediction: Prediction) -> list[tuple[str, ...]]:
    """A line for each row of the screen's table."""
    lines: list[tuple[str, ...]] = [
        ("collective", "axes", "bytes", "count", "total", "exposed", "over", "why")]
    for row in rows(prediction.collectives):
        route = "" if row.rest else predictions.route_words(row.first.route or "")
        why = SMALL_WORDS if row.rest else (row.first.reason or "").replace("`", "")
        lines.append((row.what, " ".join(row.axes), row.size,
                      "–" if row.count is None else f"{row.count:,}", seconds_text(row.seconds),
                      seconds_text(row.exposed_s), route, why))
    return lines


def _estimate(plan: Plan, as_json: bool) -> None:
    """The instant estimate: memory by the sizes, and the step's time, in the form of a prediction."""
    found = estimate_step(plan)
    if as_json:
        print(json.dumps({"plan": plan.to_json(), **found.model_dump(mode="json")}))
        return
    said = found.before_compiling
    exposed = predictions.exposed_words(found)
    lines = [predictions.estimate(said, plan), predictions.step_estimate(found),
             f"per device: {predictions.parts_words(said['parts'])}",
             *([exposed] if exposed else []), "", *table(_collectives(found), numbers=(2, 3, 4, 5))]
    print("\n".join(lines + [f"note: {note}" for note in (*said["notes"], *found.notes)]))

"""Compiles a training step, or a spec's program, for TPUs and GPUs that are not attached, and
prints what it would cost there.
"""

import json
import signal
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spmd_core.base import (
    RequestError,
    WorkerError,
    check_known,
    mesh_text,
    read_named,
    refuse,
    shorten,
)
from spmd_core.commands import predict_sweep
from spmd_core.commands.output import check_output, write_output
from spmd_core.commands.predict_arguments import ARGUMENTS, config_from, given_fields, price_for
from spmd_core.commands.printed.predict_lines import (
    PredictAnswer,
    Wanted,
    only,
    print_estimate,
    print_predicted,
    print_training,
)
from spmd_core.commands.remedies import with_tried
from spmd_core.commands.run import ended_words
from spmd_core.commands.spec import read_one
from spmd_core.commands.waiting import interrupt, run_to_end
from spmd_core.experiment import Experiment, experiment_of
from spmd_core.lab import Lab
from spmd_core.machine import get_topology, kind_of
from spmd_core.pictures import text as timeline, traces_text
from spmd_core.plan import PLAN_FIELDS, STAGE, VARIABLE, Config, ModelSize, Plan
from spmd_core.reports import Baseline
from spmd_core.results import INEXPRESSIBLE, Result
from spmd_core.sweeps import BEST, KINDS, TrainingQuestion, best_mesh, train
from spmd_core.terms import experiment_words
from spmd_core.time import is_current
from spmd_core.trials import with_stored_answers
from spmd_core.words import names_of, row_words
from spmd_core.workloads import parse_mesh, parse_plan

__all__ = ["ARGUMENTS", "compiled", "main"]

_ONE_BY_ONE = "ask it of the points that matter, one by one"
_NOT_OF_BASELINE = {
    "spec",
    "target",
    "sweep",
    "strategy",
    "keep",
    "estimate",
    "trace",
    "remedies",
}
_PLAN_OPTIONS = {"model", "mesh", "batch_per_device", "sequence", *PLAN_FIELDS, *VARIABLE}


def main(arguments: Namespace) -> int:
    """Print the prediction."""
    _check_together(arguments)
    signal.signal(signal.SIGTERM, interrupt)  # a job that is stopped cancels its run as Ctrl-C does
    if arguments.baseline:
        return _compare(arguments)
    config = config_from(arguments.config, arguments.model) if arguments.config else None
    if config:
        arguments.model = config.size.name
    if _asks_for_chips(arguments):
        return _of_training(arguments)
    if arguments.scaling == "strong" and arguments.sweep and not arguments.spec:
        arguments.mesh = arguments.mesh or BEST
    experiment = _asked(arguments)
    arguments.meshes = BEST if arguments.mesh == BEST else "kept"
    if arguments.sweep:
        if not experiment.plan:
            _check_no_plan(arguments, experiment, "tokens")
        strategies = {"strategies": [arguments.strategy]} if arguments.strategy else {}
        return predict_sweep.main(arguments, experiment.vary(**strategies))
    if experiment.plan:
        return _of_plan(arguments, experiment, experiment.plan, config)
    return _of_program(arguments, experiment)


def _meaningless(
    arguments: Namespace, given: set[str]
) -> tuple[tuple[object, str, set[str], str], ...]:
    """(whether it holds, beside what, which of the given arguments mean nothing then, the fix)."""
    described = given & {*_PLAN_OPTIONS, "config"} - {"compiler_flags"}
    scaling = {"scaling"} if arguments.scaling == "strong" else set()
    return (
        (
            arguments.baseline,
            "--baseline",
            described | given & _NOT_OF_BASELINE,
            "the file holds the plan that is compiled",
        ),
        *_beside_chips(arguments, given),
        (
            arguments.spec,
            "a spec",
            described | given & {"compiler_flags"},
            "say it in the spec, or describe a model without one",
        ),
        (
            not arguments.spec,
            "a model",
            given & {"strategy"},
            "its sharding follows from the names of its mesh axes",
        ),
        (
            arguments.estimate,
            "--estimate",
            given & {"keep", "fresh", "trace", "remedies"},
            "an estimate compiles nothing",
        ),
        (not arguments.sweep, "no --sweep", scaling, "add --sweep chips=8,64,512"),
        (arguments.sweep, "--sweep", given & {"trace", "remedies"}, _ONE_BY_ONE),
        (not given & {"keep", "trace"}, "no --keep or --trace", given & {"force"}, "leave it out"),
    )


def _beside_chips(
    arguments: Namespace, given: set[str]
) -> tuple[tuple[object, str, set[str], str], ...]:
    """What means nothing beside a deadline, a budget or a number of chips, without them, and on a
    mesh without stages.
    """
    none = {*_NOT_OF_BASELINE, "mesh", "batch_per_device"} - {"target"}
    asks = _asks_for_chips(arguments)
    rule = "the mesh and the batch of each device are searched"
    without = "neither --deadline, --budget nor --chips"
    return (
        (asks, "--deadline, --budget or --chips", given & none, rule),
        (not asks, without, given & {"global_batch"}, "use --batch-per-device"),
        (
            not (arguments.spec or arguments.sweep or arguments.mesh == BEST)
            and STAGE not in (arguments.mesh or ""),
            "a mesh without stage",
            given & {"schedule", "repeats"},
            f"name it in --mesh, for example {STAGE}=4,fsdp=4",
        ),
    )


def _check_together(arguments: Namespace) -> None:
    """RequestError where an argument would mean nothing beside another: none is passed over in
    silence.
    """
    given = {
        name
        for name, value in vars(arguments).items()
        if value is not None and (value is not False or name in PLAN_FIELDS)
    }
    for holds, beside, names, fix in _meaningless(arguments, given):
        if holds and names:
            name = min(names).replace("_", "-")
            option = "a spec" if name == "spec" else f"--{name}"
            raise refuse(f"{option} with {beside}", "means nothing", fix)
    for name in ("keep", "trace"):
        if path := getattr(arguments, name):
            check_output(f"--{name}", path, arguments.force)


def _asks_for_chips(arguments: Namespace) -> bool:
    return any((arguments.chips, arguments.deadline, arguments.budget))


def _of_training(arguments: Namespace) -> int:
    for name in ("model", "tokens"):
        if getattr(arguments, name) is None:
            fix = "name a model, and tokens to train on such as 15e12"
            raise refuse(f"predict without --{name}", "is incomplete", fix)
    kinds = tuple(part.strip() for part in (arguments.target or ",".join(KINDS)).split(","))
    for part in kinds:
        kind, _, count = part.removeprefix("tpu:").removeprefix("gpu:").partition(":")
        if count and kind_of(kind):
            rule = "names chips, whose number --chips, --deadline or --budget decides"
            raise refuse(f"--target {part}", rule, f"use --target {kind}")
    kinds = tuple(dict.fromkeys(kind_of(part.removeprefix("tpu:")) or part for part in kinds))
    price = tuple((kind, each) for kind in kinds if (each := price_for(arguments, kind)))
    question = TrainingQuestion(
        given_plan(arguments), arguments.tokens, arguments.global_batch, kinds, arguments.chips,
        arguments.deadline, arguments.budget, price,
    )  # fmt: skip
    answer = train(question)
    print_training(answer, arguments.json)
    return 0 if answer.best else 1


def _of_plan(
    arguments: Namespace, experiment: Experiment, plan: Plan, config: Config | None
) -> int:
    model = model_json(plan.size, config)
    if arguments.estimate:
        print_estimate(plan, arguments.json, model, _wanted_of(arguments, plan))
        if arguments.mesh == BEST and not arguments.json:
            print(f"mesh: {mesh_text(plan.mesh, ',')}")
        return 0
    answer = _predicted(experiment, arguments)
    if arguments.keep:
        write_output(
            "--keep",
            arguments.keep,
            Baseline.of(plan, answer.prediction).to_text(),
        )
    _trace(arguments, answer)
    print_predicted(
        answer,
        arguments.json,
        {"plan": plan.to_json(), "model": model},
        _wanted_of(arguments, plan),
    )
    return answer.code


def _wanted_of(arguments: Namespace, plan: Plan) -> Wanted:
    return Wanted(price_for(arguments, plan.topology.chip.generation), arguments.tokens)


def _trace(arguments: Namespace, answer: PredictAnswer) -> None:
    if not arguments.trace:
        return
    if answer.trace is None:
        raise refuse(
            f"--trace {shorten(arguments.trace)}",
            "has nothing to write: "
            + (
                "this prediction was stored without its timeline"
                if answer.prediction.fits
                else "the program does not fit"
            ),
            "add --fresh" if answer.prediction.fits else "leave it out",
        )
    write_output("--trace", arguments.trace, answer.trace)


def _asked(arguments: Namespace) -> Experiment:
    if not arguments.spec:
        return experiment_of(plan_from(arguments))
    experiment = read_one(arguments.spec)
    return experiment.vary(target=arguments.target) if arguments.target else experiment


def plan_from(arguments: Namespace) -> Plan:
    """The plan that the arguments describe; RequestError where something is missing or wrong."""
    for name in ("target", "model", "mesh", "batch_per_device"):
        if getattr(arguments, name) is None:
            raise refuse(
                f"predict without --{name.replace('_', '-')}",
                "is incomplete",
                "name a target, a model, a mesh and a batch per device, or a spec",
            )
    given = given_plan(arguments) | {"target": arguments.target}
    if arguments.mesh == BEST:
        devices = get_topology(arguments.target).devices
        return best_mesh(given, arguments.target, arguments.batch_per_device * devices).plan
    own = {"mesh": parse_mesh(arguments.mesh), "batch_per_device": arguments.batch_per_device}
    return parse_plan(given | own)


def given_plan(arguments: Namespace) -> dict[str, object]:
    """The form of a plan that the arguments describe, but for target, mesh and batch."""
    given: dict[str, object] = {"model": arguments.model}
    given |= {"sequence": arguments.sequence} if arguments.sequence is not None else {}
    sizes = {name: getattr(arguments, name) for name in VARIABLE}
    given["sizes"] = {name: size for name, size in sizes.items() if size is not None}
    return given | given_fields(arguments, PLAN_FIELDS)


def _predicted(experiment: Experiment, arguments: Namespace) -> "PredictAnswer":
    """The prediction of an experiment with one strategy, with what would remove its collectives
    where an option requests that.
    """
    lab = Lab.open(serve=False)
    answer = compiled(lab, experiment, arguments.timeout, arguments.fresh)
    if not arguments.remedies or answer.interrupted:
        return answer
    result, interrupted = with_tried(lab, answer.result)
    prediction = only(result)
    notes = (*prediction.notes, *result.notes[len(answer.result.notes) :])
    prediction = prediction.model_copy(update={"notes": notes})
    return replace(answer, prediction=prediction, result=result, interrupted=interrupted)


def compiled(lab: Lab, experiment: Experiment, timeout_s: float, fresh: bool) -> "PredictAnswer":
    """A stored prediction by the same versions, unless it is to be `fresh`; else a new run's.

    WorkerError, in the compiler's words, where there is none.
    """
    stored = None if fresh else lab.latest(experiment)
    if stored and (result := lab.result(stored)) and is_current(result):
        result = with_stored_answers(lab, result)
        return PredictAnswer(
            only(result),
            result,
            f"compiled before, in run {stored}: --fresh compiles again",
            _stored_trace(lab, result),
        )
    begun = time.monotonic()
    status, interrupted = run_to_end(lab, experiment, timeout_s)
    result = lab.result(status.run)
    if status.state == "succeeded" and result:
        trace = _stored_trace(lab, result)
        return PredictAnswer(only(result), result, trace=trace, interrupted=interrupted)
    if interrupted:
        raise KeyboardInterrupt(ended_words(status, result))
    if status.state == "cancelled" and time.monotonic() - begun >= timeout_s:
        raise WorkerError(
            f"the compile took longer than {timeout_s:g} s and was ended: allow it more time, or make the program smaller"
        )
    error = status.error
    if error and error.kind in (INEXPRESSIBLE, "RequestError"):
        raise RequestError(error.message)
    raise WorkerError(
        error.message if error else f"run {status.run} {status.state.replace('_', ' ')}"
    )


def _stored_trace(lab: Lab, result: Result) -> str | None:
    """The timeline of a result of one strategy as a trace; None where none was stored."""
    text = lab.text(result.run, next(iter(result.strategies)), timeline.NAME)
    if text is None:
        return None
    step = {experiment_words(result.experiment): timeline.from_text(text)}
    return traces_text(step, names_of, row_words)


def _check_no_plan(arguments: Namespace, experiment: Experiment, *names: str) -> None:
    """Raises RequestError where an argument is given that only a model's training step has."""
    for name in names:
        if getattr(arguments, name):
            raise refuse(
                f"--{name} of workload {experiment.workload}",
                "is not available",
                "leave it out: it is for models' training steps",
            )


def _of_program(arguments: Namespace, experiment: Experiment) -> int:
    if not experiment.place.is_absent:
        raise refuse(
            f"target {experiment.target}",
            "is not a TPU topology",
            "name one with --target, for example tpu:v5e:4x4",
        )
    _check_no_plan(arguments, experiment, "keep", "estimate", "tokens")
    strategy = arguments.strategy or next(
        (name for name in experiment.strategies if name != "single"), experiment.strategies[0]
    )
    check_known(
        "strategy", strategy, experiment.what.strategies, f"is not one of {experiment.workload}"
    )
    answer = _predicted(experiment.vary(strategies=[strategy]), arguments)
    _trace(arguments, answer)
    print_predicted(
        answer,
        arguments.json,
        {"experiment": experiment.to_json(), "strategy": strategy},
        Wanted(price_for(arguments, get_topology(experiment.target).chip.generation)),
    )
    return answer.code


def _compare(arguments: Namespace) -> int:
    fix = "write one with --keep FILE"
    content = read_named("baseline", arguments.baseline, Baseline.MAX_BYTES + 1, fix)
    before = Baseline.read(content)
    plan = before.plan
    if arguments.compiler_flags:
        plan = parse_plan(
            plan.to_json()
            | {"compiler_flags": [*plan.compiler_flags, *arguments.compiler_flags.split()]}
        )
    prediction = compiled(
        Lab.open(serve=False), experiment_of(plan), arguments.timeout, fresh=True
    ).prediction
    changes = before.changes(Baseline.of(plan, prediction))
    if arguments.json:
        print(json.dumps({"changes": changes, **prediction.model_dump(mode="json")}))
    else:
        print("\n".join(changes) or "nothing changed")
    return 1 if changes else 0


def model_json(size: ModelSize, config: Config | None = None) -> Mapping[str, Any]:
    """A model in the JSON form of a prediction; of a config, its architecture and what is ignored."""
    model = {
        "name": size.name,
        "parameters": size.parameters,
        "active_parameters": size.active_parameters,
    }
    if config is None:
        return model
    return model | {"architecture": config.architecture, "ignored": list(config.ignored)}

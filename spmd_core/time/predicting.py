"""From a compiled program, or the compiler's refusal, to the prediction of an experiment or a plan."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spmd_core.base import RequestError, WorkerError, bytes_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, PredictedMemory, Prediction, StoredFact
from spmd_core.machine import get_topology
from spmd_core.plan import Plan
from spmd_core.program import parse_module
from spmd_core.results import Result
from spmd_core.script import program_text
from spmd_core.time.cost.comm import Cluster
from spmd_core.time.cost.gathers import wide_gathers
from spmd_core.time.cost.predict import Keep, Useful, predict
from spmd_core.time.cost.version import versions
from spmd_core.time.estimate.in_parts import estimate_memory, estimate_step
from spmd_core.time.gpu.matmuls import sustained

_SIZE = re.compile(r"([0-9.]+)([KMGT]?)")
_OVER = (
    re.compile(
        r"required for HLO temporaries \(([0-9.]+[KMGT])\) exceeds available HBM "
        r"\(([0-9.]+[KMGT])\)"
    ),
    re.compile(r"Used ([0-9.]+[KMGT]) of ([0-9.]+[KMGT]) hbm"),
)
_OTHER_MEMORY = re.compile(r"memory space (vmem|smem|sflag)", re.IGNORECASE)
_SCOPED = re.compile(r"allocation with size ([0-9.]+[KMGT]?)B? and limit ([0-9.]+[KMGT]?)")
_KERNEL = re.compile(r"for %?([\w.\-]+) = ")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class CompiledText:
    """What compiling came to: a program with its memory account (bytes) and devices' coordinates,
    or why there is none.
    """

    text: str = ""
    memory: Mapping[str, int] = field(default_factory=dict)
    devices: tuple[tuple[int, ...], ...] = ()
    asked: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    # FLOPs over all devices that do nothing new, by why
    again: Mapping[str, float] = field(default_factory=dict)
    error_kind: str | None = None
    error: str | None = None
    # as they were read; None: read them from the text
    collectives: tuple[Collective, ...] | None = None
    # how far the compiler had come: its schedule, or all of its code
    program: Literal["scheduled", "final"] | None = None


def is_current(result: Result) -> bool:
    """Whether the predictions of a stored result, at least one, were made by the versions that are
    here now.
    """
    versions = list(_made_by(result))
    return bool(versions) and all(made_by == now for made_by, now in versions)


def is_outdated(result: Result) -> bool:
    """Whether other versions than those that are here now made a stored prediction; those that do
    not report any count as current.
    """
    return any(made_by is not None and made_by != now for made_by, now in _made_by(result))


def _made_by(
    result: Result,
) -> Iterator[tuple[dict[str, str | None] | None, dict[str, str | None]]]:
    """Of each prediction of a result: the versions that made it, None where they were not stored,
    and those that would make it now.
    """
    for name, outcome in result.strategies.items():
        if outcome.prediction:
            row = result.row(name)
            now = versions(program_text(row.experiment, row.strategy))
            yield outcome.prediction.compile.get("versions"), now


def of_plan(plan: Plan, answer: CompiledText, keep: Keep | None = None) -> Prediction:
    """The prediction of a plan from what compiling it came to. RequestError or WorkerError where it
    was refused for anything but memory.
    """
    facts = {**answer.facts, "flags": plan.flags}
    chip = plan.topology.chip
    before = estimate_memory(plan).known(chip.capacity)
    if answer.error is not None:
        refused = _refused(answer, chip.device_hbm_bytes)
        time = estimate_step(plan).predicted_s
        assert time is not None
        values = {"estimate_s": time.estimate, "low_s": time.low, "high_s": time.high}
        known = (StoredFact(kind="once it fits", values=values), *(refused.facts or ()))
        return refused.model_copy(
            update={"before_compiling": before, "compile": facts, "facts": known}
        )
    cluster = Cluster(sustained(plan.topology), answer.devices)
    predicted = predict(
        answer.text,
        cluster,
        answer.memory,
        plan.mesh,
        Useful(plan.flops, plan.tokens),
        answer.collectives,
        keep,
    )
    prediction = _with_compile(predicted, answer, facts)
    wide = wide_gathers(parse_module(answer.text), predicted.collectives, plan)
    facts_now = (*(prediction.facts or ()), *wide)
    return prediction.model_copy(update={"before_compiling": before, "facts": facts_now})


def of_experiment(
    experiment: Experiment, answer: CompiledText, keep: Keep | None = None
) -> Prediction:
    """The prediction of one strategy of an experiment on an absent topology; errors as above.
    `keep` is given the walk through the schedule, where there is one.
    """
    if experiment.plan:
        return of_plan(experiment.plan, answer, keep)
    topology = get_topology(experiment.target)
    if answer.error is not None:
        return _refused(answer, topology.chip.device_hbm_bytes).model_copy(
            update={"compile": dict(answer.facts)}
        )
    useful = Useful(int(experiment.what.flops(experiment.sizes) - sum(answer.again.values())))
    if served := experiment.served:
        useful, topology = Useful(served.flops, served.tokens), sustained(topology)
    prediction = predict(
        answer.text,
        Cluster(topology, answer.devices),
        answer.memory,
        experiment.mesh,
        useful,
        collectives=answer.collectives,
        keep=keep,
    )
    facts = (*(prediction.facts or ()), *_again(prediction, answer.again, useful.flops or 0))
    prediction = prediction.model_copy(update={"facts": facts})
    return _with_compile(prediction, answer, dict(answer.facts))


def _again(
    prediction: Prediction, again: Mapping[str, float], useful: float
) -> Iterator[StoredFact]:
    """Yields what MFU leaves out of the FLOPs of a program, and the rate with it."""
    for kind, flops in again.items():
        if flops and useful > 0 and prediction.mfu:
            values = {
                "share": flops / (useful + sum(again.values())),
                "rate": prediction.mfu * (useful + flops) / useful,
            }
            yield StoredFact(kind=kind, values=values)


def _with_compile(
    prediction: Prediction, answer: CompiledText, facts: dict[str, object]
) -> Prediction:
    return prediction.model_copy(update={"compile": facts, "program": answer.program})


def _refused(answer: CompiledText, capacity: int) -> Prediction:
    """A program that does not fit is a prediction; any other refusal is an error in the compiler's
    words.
    """
    words = " ".join((answer.error or "").split())
    if answer.error_kind in ("RequestError", "Inexpressible"):
        raise RequestError(words)
    if "RESOURCE_EXHAUSTED" in words and (match := _SCOPED.search(words)):
        raise WorkerError(_vmem_words(words, *match.groups()))
    if "RESOURCE_EXHAUSTED" not in words or (
        _OTHER_MEMORY.search(words) and "hbm" not in words.lower()
    ):
        raise WorkerError(f"the compiler refused the program ({answer.error_kind}): {words[:1000]}")
    peak, missing = None, 1
    for pattern in _OVER:
        if match := pattern.search(words):
            peak, available = _bytes(match[1]), _bytes(match[2])
            missing = max(1, peak - available)
            break
    return Prediction(
        fits=False,
        memory_bytes=PredictedMemory(peak=peak, capacity=capacity, missing=missing),
        facts=(StoredFact(kind="compiler", values={"words": words[:600]}),),
    )


def _vmem_words(words: str, needed: str, limit: str) -> str:
    """That a kernel runs out of vector memory: which one, by how much, and what to do."""
    match = _KERNEL.search(words)
    kernel = f"kernel {match[1]}" if match else "a kernel"
    over = bytes_text(max(0, _bytes(needed) - _bytes(limit)))
    return (
        f"{kernel} runs out of vector memory: it needs {bytes_text(_bytes(needed))}, {over} "
        f"more than the {bytes_text(_bytes(limit))} that it may take: use smaller attention "
        "blocks, or raise xla_tpu_scoped_vmem_limit_kib"
    )


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    assert match is not None
    return int(float(match[1]) * _UNITS[match[2]])

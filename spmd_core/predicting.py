"""From a plan or an experiment, compiled by a child process, to its prediction."""

import re
from typing import Any

from spmd_core.cost.comm import Cluster
from spmd_core.cost.memory import estimate_memory
from spmd_core.cost.predict import Useful, predict
from spmd_core.errors import RequestError, WorkerError
from spmd_core.experiment import Experiment
from spmd_core.plan import Plan
from spmd_core.prediction import PredictedMemory, Prediction
from spmd_core.topologies import get_topology

_SIZE = re.compile(r"([0-9.]+)([KMGT]?)")
_OVER = (re.compile(r"required for HLO temporaries \(([0-9.]+[KMGT])\) exceeds available HBM \(([0-9.]+[KMGT])\)"),
         re.compile(r"Used ([0-9.]+[KMGT]) of ([0-9.]+[KMGT]) hbm"))
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def before_compiling(plan: Plan) -> dict[str, Any]:
    """What the sizes alone say of the memory, bytes per device, and whether it fits."""
    estimate = estimate_memory(plan)
    return {"peak": estimate.peak, "parts": estimate.parts, "fits": estimate.peak <= plan.topology.chip.device_hbm_bytes}


def of_plan(plan: Plan, answer: Any) -> Prediction:
    """The prediction of a plan from what the compiling process answered."""
    facts = {**answer.facts, "flags": plan.flags}
    if answer.error is not None:
        return _refused(answer, plan.topology.chip.device_hbm_bytes).model_copy(
            update={"before_compiling": before_compiling(plan), "compile": facts})
    cluster = Cluster(plan.topology, answer.devices)
    found = predict(answer.text, cluster, answer.memory, plan.mesh, Useful(plan.flops, plan.tokens))
    return found.model_copy(update={"before_compiling": before_compiling(plan), "compile": facts})


def of_experiment(experiment: Experiment, answer: Any) -> Prediction:
    """The prediction of one strategy of an experiment on an absent topology."""
    topology = get_topology(experiment.target)
    if answer.error is not None:
        return _refused(answer, topology.chip.device_hbm_bytes).model_copy(update={"compile": dict(answer.facts)})
    found = predict(answer.text, Cluster(topology, answer.devices), answer.memory, experiment.mesh)
    return found.model_copy(update={"compile": dict(answer.facts)})


def _refused(answer: Any, capacity: int) -> Prediction:
    """A program that does not fit is a prediction; any other refusal is an error in the compiler's words."""
    words = " ".join(answer.error.split())
    if answer.error_kind in ("RequestError", "Inexpressible"):
        raise RequestError(words)
    if "RESOURCE_EXHAUSTED" not in words:
        raise WorkerError(f"the compiler refused the program ({answer.error_kind}): {words[:1000]}")
    peak, missing = None, 1
    for pattern in _OVER:
        if match := pattern.search(words):
            peak, available = _bytes(match[1]), _bytes(match[2])
            missing = max(1, peak - available)
            break
    return Prediction(fits=False, memory_bytes=PredictedMemory(peak=peak, capacity=capacity, missing=missing), notes=(words[:600],))


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    assert match is not None
    return int(float(match[1]) * _UNITS[match[2]])

"""Predictions as a worker leaves them, made of a small compiled module, and their place in a data
folder.
"""

from pathlib import Path

from bench.values import ENVIRONMENT
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import PredictedMemory, Prediction
from spmd_core.lab.store.store import Store
from spmd_core.machine import get_topology
from spmd_core.results import Result, StrategyResult
from spmd_core.time import Useful, predict
from spmd_core.time.cost.comm import Cluster
from tests.time.cost.programs import LOOP

MODEL = parse_experiment(
    {
        "workload": "decoder",
        "target": "tpu:v5e:16x16",
        "mesh": {"fsdp": 256},
        "dims": {"batch": 1536, "sequence": 2048},
        "options": {"model": "scaled:16"},
    }
)
TOKENS = 1536 * 2048
GIB = 2**30
TOO_LARGE = Prediction(
    fits=False,
    memory_bytes=PredictedMemory(peak=20 * GIB, capacity=16 * GIB, missing=4 * GIB),
    notes=("RESOURCE_EXHAUSTED",),
)


def prediction(flops: int = 256 * 40 * 4096**3) -> Prediction:
    """Of a loop of 10 gathers beside matmuls, on 16 x 16 chips of v5e: 16.2 ms, nothing exposed."""
    places = tuple((i, j, 0, 0, 0) for i in range(16) for j in range(16))
    cluster = Cluster(get_topology("tpu:v5e:16x16"), places)
    return predict(LOOP, cluster, {"argument": 2**33}, MODEL.mesh, Useful(flops, TOKENS))


def predicted(
    experiment: Experiment = MODEL, run: str = "20260101-000000-abcdef", **strategies: Prediction
) -> Result:
    """A result with these predictions; that of `prediction` under every strategy where none are
    given.
    """
    found = strategies or dict.fromkeys(experiment.strategies, prediction())
    return Result.model_validate(
        {
            "run": run,
            "experiment": experiment,
            "environment": ENVIRONMENT,
            "strategies": {
                name: StrategyResult(status="ok", prediction=each, predicted_s=each.predicted_s)
                for name, each in found.items()
            },
        }
    )


def store(
    folder: Path,
    result: Result,
    texts: dict[str, dict[str, str]] | None = None,
    state: str = "succeeded",
    batch: str | None = None,
) -> None:
    """Leave a result in a data folder, as a run that ended so, with texts by strategy and name; of
    one that failed with the first error, as a worker reports it. `batch`: it was submitted with.
    """
    errors = [each.error for each in result.strategies.values() if each.error]
    error = errors[0] if state == "failed" else None
    place = Store(folder)
    try:
        place.submit(result.run, result.experiment, batch=batch)
        assert place.start(result.run)
        place.finish(result.run, state, error=error, result=result, texts=texts)
    finally:
        place.close()

"""Results as a worker leaves them, to draw in tests."""

from typing import Any

from spmd_core.experiment import parse_experiment
from spmd_core.results import Result

ENVIRONMENT: dict[str, Any] = {
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "python": "3.11",
    "platform": "cpu",
    "device_kind": "cpu",
    "device_count": 8,
    "simulated": True,
    "cores": 2,
    "dispatch_floor_s": 1.1e-4,
    "devices": [
        {"id": number, "process": 0, "memory_kinds": ["device", "pinned_host"]}
        for number in range(8)
    ],
}


def strategy(median_s: float, **changes: Any) -> dict[str, Any]:
    """A strategy that was measured around `median_s`, with right values."""
    samples = [median_s * factor for factor in (0.98, 0.99, 1.0, 1.01, 1.02)]
    return {
        "status": "ok",
        "samples_s": samples,
        "median_s": median_s,
        "iqr_s": 0.02 * median_s,
        "ci95_s": [0.98 * median_s, 1.02 * median_s],
        "calls_per_sample": 40,
        "correct": True,
        "max_abs_error": 1e-7,
        "max_rel_error": 1e-7,
        "wrong": None,
    } | changes


def result(strategies: dict[str, dict[str, Any]], **changes: Any) -> Result:
    """A result of the tutorial's layer with these strategies."""
    experiment = parse_experiment(
        {
            "workload": "layer",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "sharding": {"in": "x"},
            "strategies": list(strategies),
        }
    )
    return Result.model_validate(
        {
            "run": "20260101-000000-abcdef",
            "experiment": experiment,
            "environment": ENVIRONMENT,
            "strategies": strategies,
        }
        | changes
    )


def comparison(fastest: str, *ratios: tuple[str, float, bool]) -> dict[str, Any]:
    """What the statistics say: each (strategy, ratio, whether it differs)."""
    return {
        "fastest": fastest,
        "tied": [name for name, _, differs in ratios if not differs],
        "sentence": "",
        "ratios": [
            {
                "strategy": name,
                "ratio": ratio,
                "interval": [0.9 * ratio, 1.1 * ratio],
                "differs": differs,
                "rounds": 20,
            }
            for name, ratio, differs in ratios
        ],
    }

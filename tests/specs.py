"""Experiments to test with: a hypothesis strategy over valid ones, the longest one there is, and the
longest compile.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.fields import Choice
from spmd_core.reference import Arithmetic, Reference, references
from spmd_core.workloads import WORKLOADS, Workload, serving

# It keeps the compiler busy for half a minute at the least: what is cancelled, paused or limited
# in mid-compile.
LONGEST_COMPILE = serving.DEFAULT_SPEC | {
    "target": "tpu:tpu7x:4x4x4",
    "mesh": {"fsdp": 128},
    "dims": {"batch": 256, "sequence": 8192},
    "options": {"model": "llama-3.1-70b", "remat": "full"},
}
COMPUTATIONS = tuple(workload for workload in WORKLOADS.values() if workload.operands)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """A valid experiment of any workload, with a mesh of up to three axes and 8 devices."""
    workload = draw(st.sampled_from(COMPUTATIONS))
    words = {
        name: draw(st.sampled_from(option.choices))
        for name, option in workload.options.items()
        if isinstance(option, Choice)
    }
    workload = workload.chosen(words)
    names = draw(st.permutations(["x", "y", "data"]))[: draw(st.integers(1, 3))]
    mesh = {name: draw(st.sampled_from((1, 2))) for name in names}
    dims = _dims(draw, workload)
    owner = {axis: draw(st.sampled_from([*dims, ""])) for axis in names}
    cut = {dim: [axis for axis in names if owner[axis] == dim] for dim in dims}
    if workload.program.halo and all(cut[dim] for dim in workload.program.halo):
        # XLA (JAX 0.10.2 and 0.12) partitions a convolution wrongly where both operands are cut
        # along the window
        del cut[workload.program.halo[1]]
    dtype = draw(st.sampled_from(workload.dtypes))
    # their products pass 65504, the largest float16
    draws = [kind for kind in workload.draws if (kind, dtype) != ("arange", "float16")]
    spec: dict[str, Any] = {
        "target": "cpu:8",
        "workload": workload.name,
        "mesh": mesh,
        "dims": {dim: size * 8 for dim, size in dims.items()},
        "sharding": {dim: axes for dim, axes in cut.items() if axes},
        "dtype": dtype,
        "seed": draw(st.integers(0, 99)),
        "memory": {
            array.name: draw(st.sampled_from(("device", "pinned_host")))
            for array in workload.operands
            if not workload.moves
        },
        "data": {array.name: draw(st.sampled_from(draws)) for array in workload.operands},
        "timing": {"samples": draw(st.integers(1, 50)), "min_seconds": draw(st.floats(0, 1))},
        "options": words | {"device_order": draw(st.sampled_from(("topology", "plain")))},
    }
    for dim, fitting, _, _ in list(workload.amended(spec["dims"])):
        spec["dims"][dim] = fitting
    if draw(st.booleans()):
        array = draw(st.sampled_from(workload.arrays))
        spec["overrides"] = {
            array.name: [
                draw(st.sampled_from([*names, None])) if place == 0 else None
                for place in range(len(array.present(dims)))
            ]
        }
    return parse_experiment(spec)


def _dims(draw: st.DrawFn, workload: Workload) -> dict[str, int]:
    kept = [
        dim for dim in workload.dims if dim not in workload.optional_dims or draw(st.booleans())
    ]
    if workload.name == "array":
        kept = kept[:1] + [f"d{place}" for place in range(1, len(kept))]
    return {dim: draw(st.integers(1, 4)) for dim in kept}


_AXES = [f"an_axis_whose_name_is_as_long_as_{letter}"[-32:] for letter in "uvwxyz"]
BIG_SPEC: dict[str, Any] = {
    "workload": "array",
    "target": "tpu:v5p:16x16x16*9999",
    "mesh": dict.fromkeys(_AXES, 8),
    "dims": {f"d{place}": 64 * (10**9 + 12345 * place) for place in range(6)},
    "dtype": "bfloat16",
    "sharding": {f"d{place}": _AXES[place] for place in range(6)},
    "overrides": {"array": list(reversed(_AXES))},
    "memory": {"array": "pinned_host"},
    "data": {"array": "arange"},
    "timing": {"samples": 999, "min_seconds": math.pi},
    "seed": 2**32 - 1,
    "options": {"device_order": "plain"},
}


def reference(
    experiment: Experiment, operands: Mapping[str, np.ndarray], how: Arithmetic | None = None
) -> Reference:
    """What the workload's first result is judged by."""
    return references(experiment, operands, how)[experiment.what.results[0].name]

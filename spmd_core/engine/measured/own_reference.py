"""What a function of the user's own gives in float64 on one CPU device: there is no NumPy formula
of it to compare with."""

from collections.abc import Mapping

import jax
import numpy as np

from spmd_core.engine.lower import execute
from spmd_core.engine.measured.named_results import named_results, result_shapes
from spmd_core.engine.measured.rounding_noise import Noise, spread
from spmd_core.experiment import Experiment
from spmd_core.results import Arithmetic, Bounded, Reference, bound, resolved
from spmd_core.script import computation_lines

_IMPORTS = "import jax\nimport jax.numpy as jnp\nimport numpy as np\n"


def own_references(
    experiment: Experiment, operands: Mapping[str, np.ndarray], how: Arithmetic
) -> dict[str, Reference]:
    """Every result by name, with what rounding allows. Whole numbers stay what they are; other
    operands are given in float64."""
    lines, function = computation_lines(experiment, "single", {})
    names = execute(_IMPORTS + "\n".join(lines) + "\n", f"{experiment.workload}_reference.py")
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        arguments = [
            jax.numpy.asarray(value if value.dtype.kind in "iub" else value.astype(np.float64))
            for value in operands.values()
        ]
        results = named_results(experiment, names[function](*arguments), result_shapes(experiment))
        values = [np.asarray(array, np.float64) for array in results.values()]
        spreads: list[np.ndarray] | list[None] = [None] * len(values)
        if how.eps:
            spreads = spread(
                names[function],
                arguments,
                values,
                Noise(how, experiment.device_count),
                experiment.seed,
            )
        return {
            name: _reference(Bounded(value, apart), how)
            for name, value, apart in zip(results, values, spreads, strict=True)
        }


def _reference(bounded: Bounded, how: Arithmetic) -> Reference:
    kept = resolved(bounded)
    lost = np.isinf(kept.squared_spread) & np.isfinite(bounded.squared_spread)
    unresolved = int(np.count_nonzero(lost))
    return Reference(bounded.value, bound(kept, how), how.dtype, unresolved=unresolved)

"""The shard_map programs of layer and dot against the tutorials' code as written: both ahead of
time, on placed inputs, in one process.

Two layers, at the tutorial's size and at a larger one, against its `layer_sharded`; dot products at
16x3 and 1,000,000x3 against
`pmap(vmap(dot))`. Both take turns in the same rounds, the layers on the very same arrays; ours must
not be slower by more than the
95 % interval of their ratio, corrected for how many are compared.
Run: python -m bench.against_tutorial [rounds]
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.figures import Figures
from spmd_core.base.units import seconds_text
from spmd_core.engine.lower import execute, file_name, lower
from spmd_core.engine.measured.timing import Timed, plan_turns, quiet, sample_rounds, warm_up
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.results import stats
from spmd_core.script.program import program_text

SAMPLE_S = 10e-3


def tutorial_layer(ours: Sequence[Any]) -> Timed:
    """`layer_sharded` of "Parallel programming with JAX", on our inputs, which lie as its in_specs
    say.
    """
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    batched = ours[0].ndim == 2
    in_specs = (P(None, "x") if batched else P("x"), P("x", None), P(None))

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=in_specs, out_specs=P(None))
    def layer_sharded(x, weights, bias):
        return jax.nn.sigmoid(jax.lax.psum(x @ weights, "x") + bias)

    return Timed("tutorial", layer_sharded.lower(*ours).compile(), ours)


def tutorial_dot(ours: Sequence[Any]) -> Timed:
    """`dot_parallel` of the notebook that compares vmap and pmap, on its reshaped inputs, spread
    over the devices.
    """

    def dot(v, u):
        return jnp.vdot(v, u)

    dot_parallel = jax.pmap(jax.vmap(dot))
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    v_parallel, u_parallel = (
        jax.device_put(np.asarray(rows).reshape(8, -1, 3), NamedSharding(mesh, P("x")))
        for rows in ours
    )
    return Timed(
        "tutorial", dot_parallel.lower(v_parallel, u_parallel).compile(), (v_parallel, u_parallel)
    )


CASES: tuple[tuple[str, dict[str, Any], Callable[[Sequence[Any]], Timed]], ...] = (
    (
        "layer, 32 by 32x4",
        {"workload": "layer", "dims": {"in": 32, "out": 4}, "sharding": {"in": "x"}},
        tutorial_layer,
    ),
    (
        "layer, 512x2048 by 2048x1024",
        {
            "workload": "layer",
            "dims": {"batch": 512, "in": 2048, "out": 1024},
            "sharding": {"in": "x"},
        },
        tutorial_layer,
    ),
    (
        "dot, 16x3",
        {"workload": "dot", "dims": {"n": 8, "k": 3}, "sharding": {"n": "x"}},
        tutorial_dot,
    ),
    (
        "dot, 1,000,000x3",
        {"workload": "dot", "dims": {"n": 1_000_000, "k": 3}, "sharding": {"n": "x"}},
        tutorial_dot,
    ),
)


def our_program(experiment: Experiment) -> Timed:
    """Our shard_map program, compiled as a run compiles it, with its operands placed."""
    text = program_text(experiment, "shard_map")
    names = execute(text, file_name(experiment.workload, "shard_map"))
    made = lower(text, names, names["make_operands"](), lambda phase: None)
    return Timed("ours", made.call, made.arguments)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    figures = Figures()
    for name, spec, theirs in CASES:
        ours = our_program(parse_experiment({"target": "cpu:8", "mesh": {"x": 8}} | spec))
        tutorial = theirs(ours.arguments)
        difference = np.abs(
            np.asarray(ours.call(*ours.arguments)).ravel()
            - np.asarray(tutorial.call(*tutorial.arguments)).ravel()
        ).max()
        for timed in (ours, tutorial):
            warm_up(timed)
        plan_turns([ours, tutorial], SAMPLE_S)
        with quiet():
            sample_rounds(
                [ours, tutorial],
                rounds,
                seed=0,
                cancelled=lambda: False,
                after_round=lambda done: None,
            )
        ratios = stats.log_ratios(ours.rounds, tutorial.rounds)
        centre, low, high, _ = stats.signed_rank_interval(
            ratios, (1 - stats.CONFIDENCE) / len(CASES)
        )
        figures.add(
            f"lower end of ours over the tutorial's, {name}",
            float(np.exp(low)),
            most=1.0,
            note=f"ours {seconds_text(stats.median_s(ours.rounds))}, the tutorial's {seconds_text(stats.median_s(tutorial.rounds))}, ratio "
            f"{np.exp(centre):.3f}, up to {np.exp(high):.3f}; values differ by {difference:.1e}",
        )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

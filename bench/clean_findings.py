"""Findings of programs as other libraries write them, which nobody meant otherwise: none is false.

    python -m bench.clean_findings [--part K/N]

40 clean training steps of plain JAX, Flax (linen and NNX), Equinox and Optax: the state is placed by
rules, donated, and leaves as it came. Each is exported by `jax.export`, taken,
and compiled for 8 simulated devices. Add a program to PROGRAMS; `bench.planted_accidents` has what
is to be found.
"""

from collections.abc import Callable, Iterable

from bench.lost_batches import judged_experiment, taken  # isort: skip  # sets XLA's flags

import optax
from flax import nnx

from bench import exported_steps as steps
from bench.exported import abstract_mesh
from bench.exported_steps import STEPS
from bench.figures import Asked, Figures, measure, of_part
from spmd_core.advice.programs import compiled_findings, finding_words
from spmd_core.results import StrategyResult
from spmd_core.workloads import findings

WIDTH = 512  # matrices of 1 MiB: findings begin at 64 KiB
steps.MESH = abstract_mesh({"fsdp": 8})  # of steps that shard over one axis: a second would be idle
steps.WIDTH, steps._ROWS, steps._TOKENS = WIDTH, steps._x(32, WIDTH), steps._x(32, 16, WIDTH)
_ROWS, _TOKENS, _IMAGES = steps._ROWS, steps._TOKENS, steps._x(16, 16, 16, 3)
OPTIMIZERS = {
    "adam": optax.adam(1e-3),
    "adamw": optax.adamw(1e-3),
    "sgd, momentum": optax.sgd(0.1, 0.9),
    "rmsprop": optax.rmsprop(1e-3),
    "lion": optax.lion(1e-4),
}
MODELS: dict[str, Callable[[object], bytes]] = {
    "linen, vision": lambda optimizer: steps._linen(steps._Vision(), _IMAGES, optimizer),
    "linen, transformer": lambda optimizer: steps._linen(steps._Block(), _TOKENS, optimizer),
    "nnx, mlp": lambda optimizer: steps._nnx(steps._transformer, _ROWS, optimizer),
    "nnx, layers": lambda optimizer: steps._nnx(
        lambda rngs: nnx.Sequential(*(nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(4))),
        _ROWS,
        optimizer,
    ),
    "equinox, mlp": lambda optimizer: steps._equinox(steps._mlp, _ROWS, optimizer),
    "equinox, attention": lambda optimizer: steps._equinox(steps._Attention, _TOKENS, optimizer),
}
_REFUSED = "plain, debug.print"  # a callback cannot be exported
PROGRAMS: dict[str, Callable[[], bytes]] = {
    name: step for name, step in STEPS.items() if name != _REFUSED
} | {
    f"{model}, {name}": lambda make=make, optimizer=optimizer: make(optimizer)
    for model, make in MODELS.items()
    for name, optimizer in OPTIMIZERS.items()
}
COUNT = 40


def false_findings(chosen: Iterable[tuple[str, Callable[[], bytes]]]) -> list[str]:
    """Take each, compile it, and name its findings."""
    false = list[str]()
    for name, step in chosen:
        experiment = taken(step())
        program, judged = experiment.exported, judged_experiment(experiment)
        assert program is not None
        false += [f"{name}: {finding_words(each, program)}" for each in findings(program)]
        outcome = StrategyResult(
            status="ok", lost_batch=judged.lost_batch, accidents=judged.accidents
        )
        false += [f"{name}: {each.sentence}" for each in compiled_findings(outcome)]
    return false


def main(asked: Asked, figures: Figures) -> None:
    """Count the findings of each."""
    chosen = of_part(list(PROGRAMS.items())[:COUNT], asked.part)
    false = false_findings(chosen)
    title = f"false findings, of {len(chosen)} clean programs"
    figures.add(title, len(false), most=0, note="; ".join(false))


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "K/N: every Nth, from the Kth on"))

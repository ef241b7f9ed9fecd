"""What microbatches and no collective matmuls save of the best step: the best plans with and without
these options, estimated and compiled for chips that are not here.

    python -m bench.step_options
"""

import math

from bench.figures import Asked, Figures, measure
from bench.instant_estimate import compiled
from spmd_core.lab import Lab
from spmd_core.plan import Plan
from spmd_core.search import REMATS
from spmd_core.sweeps import best_mesh
from spmd_core.time import estimate_step

CASES = (  # model, target, sequences of 8,192 tokens
    ("llama-3.1-8b", "tpu:v6e:4x8", 256),
    ("llama-3.1-8b", "tpu:v5e:4x8", 128),
    ("llama-3.1-8b", "tpu:v5p:2x2x4", 128),
    ("llama-3.1-70b", "tpu:v5p:4x8x8", 512),
    ("mixtral-8x7b", "tpu:v5p:4x4x4", 512),
)
OFF = 0.05  # of the compiled seconds


def seconds(lab: Lab, plan: Plan) -> tuple[float, float]:
    """The step of a plan, estimated and compiled."""
    estimate, found = estimate_step(plan).predicted_s, compiled(lab, plan, may_compile=True)
    return estimate.estimate if estimate else math.nan, found or math.nan


def main(asked: Asked, figures: Figures) -> None:
    """Compile both plans of each case."""
    lab = Lab.open()
    try:
        for model, target, batch in CASES:
            form = {"model": model, "sequence": 8192}
            steps = [
                seconds(lab, best_mesh(form, target, batch, REMATS, has_options=each).plan)
                for each in (False, True)
            ]
            (_, before), (estimate, after) = steps
            name = f"{model}, {target.removeprefix('tpu:')}"
            note = f"{before:.3g} -> {after:.3g} s compiled, estimate {estimate:.3g} s"
            figures.add(f"{name}: compiled over without", after / before, most=1.0, note=note)
            figures.add(f"{name}: estimate off", abs(estimate / after - 1), most=OFF)
    finally:
        lab.close()


if __name__ == "__main__":
    measure(main, __doc__)

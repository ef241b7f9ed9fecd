"""The instant estimate of small plans, of 4 to 16 chips, inside whose interval the compiled prediction
should lie: 20 plans, each with collective matmuls and with the flag that turns them off.

    python -m bench.small_plans --data FOLDER [--first 40]

Compiled predictions stay in the data folder, so that a run that was stopped goes on there. A compile
takes 25 to 60 s of two cores. The first 10 plans were read off (spmd_core/time/estimate/constants.py):
they are no test of it.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from bench.figures import Figures
from bench.instant_estimate import compiled
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.plan.reading import parse_plan
from spmd_core.lab import Lab
from spmd_core.time.estimate.step import estimate_step

SMALL = {"embed": 1024, "mlp": 4096, "heads": 8, "kv_heads": 8}
# target, mesh, sequences per device, tokens of each, sizes
ROWS = (
    ("v5e:2x4", {"fsdp": 8}, 2, 1024, {}),
    ("v5e:2x4", {"fsdp": 8}, 16, 2048, {}),
    ("v5e:2x2", {"fsdp": 4}, 4, 1024, SMALL),
    ("v5e:4x4", {"fsdp": 16}, 8, 2048, {}),
    ("v5e:2x4", {"fsdp": 4, "tensor": 2}, 2, 1024, {}),
    ("v5e:4x4", {"fsdp": 4, "tensor": 4}, 2, 1024, {}),
    ("v5e:4x4", {"fsdp": 16}, 1, 1024, {}),
    ("v5p:2x2x2", {"fsdp": 8}, 2, 2048, {}),
    ("v5e:2x4", {"fsdp": 8}, 4, 2048, {}),
    ("v5e:2x2", {"fsdp": 4}, 1, 1024, {}),
    ("v5p:2x2x4", {"fsdp": 4, "tensor": 4}, 2, 2048, {}),
    ("v5e:2x2", {"fsdp": 2, "tensor": 2}, 4, 2048, SMALL),
    ("v5e:4x4", {"data": 4, "fsdp": 4}, 4, 1024, {}),
    ("v5p:2x2x1", {"fsdp": 4}, 8, 2048, {}),
    ("v5e:2x4", {"tensor": 4, "fsdp": 2}, 8, 1024, {}),
    ("v4:2x2x2", {"fsdp": 8}, 4, 2048, {}),
    ("v5e:4x4", {"fsdp": 8, "tensor": 2}, 2, 2048, SMALL),
    ("v5p:2x2x4", {"fsdp": 16}, 4, 1024, {}),
    ("v6e:2x2", {"fsdp": 4}, 4, 1024, SMALL),
    ("v6e:2x4", {"fsdp": 8}, 4, 2048, {}),
)


def plans() -> Iterator[Plan]:
    """Each with collective matmuls, then without."""
    for target, mesh, batch, sequence, sizes in ROWS:
        plan = parse_plan(
            {
                "target": f"tpu:{target}",
                "model": "scaled:1",
                "mesh": mesh,
                "batch_per_device": batch,
                "sequence": sequence,
                "layers": 4,
                "sizes": sizes,
            }
        )
        yield from (plan, plan.without_rings)


def main() -> int:
    """Print each plan, and how many lie inside the interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--first", type=int, default=2 * len(ROWS))
    arguments = parser.parse_args()
    os.environ["SPMD_LAB_DATA"] = arguments.data
    lab, inside, of = Lab.open(), 0, 0
    try:
        for plan in list(plans())[: arguments.first]:
            found, time = compiled(lab, plan, True), estimate_step(plan).predicted_s
            if found is None or time is None:
                print(f"{plan.target} {dict(plan.mesh)}: not compiled", flush=True)
                continue
            is_inside = time.low <= found <= time.high
            of, inside = of + 1, inside + is_inside
            print(
                f"{plan.target} {dict(plan.mesh)} {plan.batch_per_device:g} x {plan.sequence} "
                f"{'rings' if plan.makes_rings else 'no rings'}: compiled {found:.4g} s, estimated "
                f"{time.estimate:.4g} ({time.low:.4g} to {time.high:.4g})"
                f"{'' if is_inside else ': OUTSIDE'}",
                flush=True,
            )
    finally:
        lab.close()
    figures = Figures()
    figures.add(f"inside the interval, of {of} plans", inside, least=round(0.9 * of))
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

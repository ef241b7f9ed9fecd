"""Whether programs fit, said from their sizes, against the compiler's word: 20 training steps
around the capacity of their chips.

Of each kind of program: the largest batch that is said to fit with 3 % to spare, and the smallest
that is said to take 3 % too much; what
the compiler leaves empty between arrays is of that order. The compiler is stopped once it has
allotted memory
(seconds, where code takes minutes): what it says by then is whether the program fits, and its
arguments and temporaries.
"""

import math
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.figures import Figures
from spmd_core.base.errors import WorkerError
from spmd_core.base.settings import read_settings
from spmd_core.base.units import bytes_text
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.plan.reading import parse_plan
from spmd_core.experiment.plans import experiment_of
from spmd_core.lab import Lab
from spmd_core.time.cost.memory import estimate_memory
from spmd_core.time.cost.predicting import before_compiling

OFFLOADED = ("input", "query", "key", "value", "out")
KINDS: tuple[tuple[str, str, dict[str, int], dict], ...] = (
    ("tpu:v5e:4x4", "scaled:1", {"fsdp": 16}, {}),
    ("tpu:v5e:4x4", "scaled:2", {"fsdp": 4, "tensor": 4}, {"remat": "minimal"}),
    ("tpu:v5e:16x16", "scaled:32", {"fsdp": 256}, {}),
    ("tpu:v5e:16x16*2", "scaled:16", {"data": 2, "fsdp": 256}, {}),
    ("tpu:v5p:4x4x4", "scaled:64", {"fsdp": 16, "tensor": 4}, {"remat": "minimal"}),
    ("tpu:v5p:4x4x4", "llama-2-70b", {"fsdp": 64}, {"sequence": 4096}),
    ("tpu:v5p:4x4x4", "mixtral-8x7b", {"fsdp": 64}, {"sequence": 4096}),
    ("tpu:v5p:4x4x4", "gemma-2-9b", {"fsdp": 64}, {"sequence": 8192}),
    ("tpu:v6e:16x16", "llama-3.1-8b", {"fsdp": 256}, {"sequence": 8192}),
    ("tpu:v6e:16x16", "llama-3.1-70b", {"fsdp": 256}, {"sequence": 8192, "offload": OFFLOADED}),
)
RIGHT, WITHIN, SPARE, TIMEOUT_S = 18, 0.10, 0.03, 480.0
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+),(.*)$", re.MULTILINE)


def plan_of(kind: tuple[str, str, dict[str, int], dict], batch: int) -> Plan:
    """The plan of a kind of program at a batch per device."""
    target, model, mesh, more = kind
    return parse_plan(
        {"target": target, "model": model, "mesh": mesh, "batch_per_device": batch, **more}
    )


def around_the_limit(kind: tuple[str, str, dict[str, int], dict]) -> tuple[int, int]:
    """(largest batch per device whose estimate leaves `SPARE` of the capacity, smallest whose
    estimate is as much over it).
    """
    capacity = plan_of(kind, 1).topology.chip.device_hbm_bytes
    batch = 1
    while estimate_memory(plan_of(kind, batch + 1)).peak <= (1 - SPARE) * capacity:
        batch += 1
    over = batch + 1
    while estimate_memory(plan_of(kind, over)).peak < (1 + SPARE) * capacity:
        over += 1
    return batch, over


def allotted(plan: Plan) -> int | None:
    """Bytes per device of arguments and temporaries by the compiler's buffer assignment; None where
    it refuses the program.
    """
    with tempfile.TemporaryDirectory(prefix="predict-fits-") as name:
        folder = Path(name)
        os.environ["XLA_FLAGS"] = (
            f"--xla_dump_to={name} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=train_step"
        )
        lab = Lab.open(
            folder / "data",
            settings=replace(
                read_settings(os.environ), predict_timeout_s=TIMEOUT_S, cancel_grace_s=0.0
            ),
        )
        try:
            run = lab.submit(experiment_of(plan))
            while not lab.wait(run, 0.25).is_over and not list(
                folder.glob("*after_buffer_assignment.txt")
            ):
                pass
            lab.cancel(run)  # what follows is code, which takes minutes
            status, result = lab.wait(run), lab.result(run)
        finally:
            lab.close()
        found = result.strategies["auto"] if result else None
        if status.state == "succeeded" and found and found.prediction:
            if not found.prediction.fits:
                return None
        elif status.state != "cancelled":
            raise WorkerError(
                f"the compile {status.state}: {status.error or (found and found.error)}"
            )
        return _bytes(
            next(folder.glob("*after_optimizations-buffer-assignment.txt")).read_text("utf-8")
        )


def _bytes(text: str) -> int:
    """Parameters and temporaries in HBM: not what a color says lies in VMEM, in scalar memory or on
    the host.
    """
    return sum(
        int(size)
        for size, what in _ALLOCATION.findall(text)
        if ("parameter" in what or "preallocated-temp" in what)
        and not re.search(r"color [1-9]", what)
    )


def main() -> int:
    """Print each program, and the verdicts; exit code 1 where fewer than 18 are right or a peak is
    further off than 10 %.
    """
    right, errors, figures = 0, [], Figures()
    print(
        f"{'target':16} {'model':14} {'batch':>5} {'said':>10} {'compiler':>10} {'error':>6} {'said fits':>9} {'fits':>5}"
    )
    for kind in KINDS:
        for batch in around_the_limit(kind):
            plan = plan_of(kind, batch)
            said, found = before_compiling(plan), allotted(plan)
            right += said["fits"] == (found is not None)
            error = said["peak"] / found - 1 if found else None
            errors += [error] if error is not None else []
            sizes = f"{bytes_text(said['peak']):>10} {bytes_text(found) if found else '-':>10} {f'{error:+.0%}' if error is not None else '-':>6}"
            print(
                f"{kind[0]:16} {kind[1]:14} {batch:5} {sizes} {said['fits']!s:>9} {(found is not None)!s:>5}",
                flush=True,
            )
    close = sum(abs(error) <= WITHIN for error in errors)
    figures.add("told right whether they fit", right, "of 20", least=RIGHT)
    figures.add(
        "worst error of the peak, of those that fit",
        max(map(abs, errors), default=math.nan),
        most=WITHIN,
        note=f"{close} of {len(errors)} within",
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

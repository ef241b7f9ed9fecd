"""Published training steps against their compiled prediction, and how long a compiled answer takes
from the click; needs libtpu, and an idle machine for the times.

Published: AI-Hypercomputer/maxtext (v5e, v5p) and AI-Hypercomputer/tpu-recipes (v6e, TPU7x), bf16,
synthetic data. Two constants of the cost model were fitted to these four steps at once
(STREAMED_ROWS and KERNEL_STALLS): they are no test of it. The other plans have no published step.
"""

import tempfile
import time
from pathlib import Path

from bench.figures import Asked, Figures, measure
from bench.instant_estimate import OFFLOADED, PUBLISHED, PUBLISHED_WITHIN, Row, plan_of
from spmd_core.experiment import experiment_of
from spmd_core.facts import Prediction
from spmd_core.lab import Lab

ANSWER_S, WORKER_GIB = 90.0, 3.0
OTHERS: tuple[tuple[str, Row], ...] = (
    ("scaled:16 on v5p", ("v5p:4x4x4", "scaled:16", "fsdp=64", 4, 2048, {})),
    ("llama-2-70b on v5p", ("v5p:4x4x4", "llama-2-70b", "fsdp=64", 2, 4096, {})),
    (
        "llama-3.1-70b on v6e",
        ("v6e:16x16", "llama-3.1-70b", "fsdp=256", 1, 8192, {"offload": OFFLOADED}),
    ),
    (
        "llama-3.1-405b on TPU7x",
        (
            "tpu7x:4x4x8",
            "llama-3.1-405b",
            "fsdp=256",
            1,
            8192,
            {"offload": ("input",), "state_dtype": "bfloat16", "second_moment_dtype": "float32"},
        ),
    ),
    (
        "llama-3.1-405b on v5p",
        (
            "v5p:8x8x8",
            "llama-3.1-405b",
            "fsdp=512",
            2,
            8192,
            {"offload": ("attention", "mlp_down")},
        ),
    ),
)


def answered(lab: Lab, row: Row) -> tuple[Prediction | None, float, str]:
    """The prediction of a plan, made as a user's is, the seconds until it was there, and why it is
    not.
    """
    begun = time.monotonic()
    run = lab.submit(experiment_of(plan_of(row)))
    status, result = lab.wait(run), lab.result(run)
    found = result.strategies["auto"].prediction if result else None
    return found, time.monotonic() - begun, status.error.message if status.error else status.state


def main(_: Asked, figures: Figures) -> None:
    rows: list[tuple[str, Row, float | None]] = [
        *PUBLISHED,
        *((name, row, None) for name, row in OTHERS),
    ]
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as folder:
        lab = Lab.open(Path(folder))
        for name, row, published_s in rows:
            found, seconds, why = answered(lab, row)
            if found is None:
                figures.add(name, float("nan"), most=ANSWER_S, note=why)
                continue
            _print(figures, name, found, seconds, published_s)
        lab.close()


def _print(
    figures: Figures, name: str, found: Prediction, seconds: float, published_s: float | None
) -> None:
    held, step = found.memory_bytes, found.predicted_s
    fits = f"{(held.peak or 0) / 2**30:.1f} of {held.capacity / 2**30:.1f} GiB"
    figures.add(f"{name}: fits", int(found.fits), least=1, note=fits)
    if published_s is not None and step is not None:
        figures.add(
            f"{name}: compiled over published",
            step.estimate / published_s - 1,
            least=-PUBLISHED_WITHIN,
            most=PUBLISHED_WITHIN,
            note=f"{step.low:.3f} to {step.high:.3f} s, published {published_s:.3f} s, "
            f"read as {found.program}",
        )
    compile_s = found.compile.get("compile_s", float("nan"))
    figures.add(
        f"{name}: click to compiled answer",
        seconds,
        "s",
        most=ANSWER_S,
        note=f"{compile_s:.1f} s of it compiling",
    )
    figures.add(
        f"{name}: worker's memory",
        found.compile.get("peak_rss_bytes", 0) / 2**30,
        "GiB",
        most=WORKER_GIB,
    )


if __name__ == "__main__":
    measure(main, __doc__)

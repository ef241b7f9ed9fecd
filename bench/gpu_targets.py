"""Absent GPUs: the time of collectives, matmuls and training steps beside what others measured.

`python -m bench.gpu_targets` prints how far each row's estimate is off; nothing is compiled.
"""

import statistics
from dataclasses import dataclass
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.machine import GPUS
from spmd_core.plan import Plan
from spmd_core.time import estimate_step
from spmd_core.time.gpu.matmuls import tiled_s
from spmd_core.time.gpu.nccl import Caller, Group, least_s, nccl_s

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Row:
    """A published table's line: bus bandwidth in GB/s as nccl-tests defines it, by message bytes,
    as an interval where several are published.
    """

    gpu: str
    group: Group
    kind: str
    caller: Caller
    points: tuple[tuple[int, float, float], ...]

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.group.domains} x {self.group.here} {self.gpu}, {self.kind}, {self.caller}"


def _row(gpu: str, group: Group, kind: str, caller: Caller, **points: Any) -> Row:
    sizes = {"m1": MIB, "m64": 64 * MIB, "g1": GIB}
    pairs = ((sizes[name], found) for name, found in points.items())
    each = (
        (size, *(found if isinstance(found, tuple) else (found, found))) for size, found in pairs
    )
    return Row(gpu, group, kind, caller, tuple(each))  # pyrefly: ignore[bad-argument-type]


_HOST = Group(8)
# stas00/ml-engineering, network/benchmarks; jax-ml/scaling-book, gpus.md; XLA's own tables
# (xla/backends/gpu/collectives, collective_interpolator_data.h)
ROWS = (
    _row("h100", _HOST, "all-reduce", "nccl", m1=64, m64=360, g1=(442, 470)),
    _row("h100", _HOST, "all-gather", "nccl", m64=286, g1=345),
    _row("h100", _HOST, "reduce-scatter", "nccl", m64=298, g1=343),
    _row("h100", _HOST, "all-to-all", "nccl", m64=272, g1=332),
    _row("h100", _HOST, "all-gather", "xla", m1=29, m64=275, g1=344),
    _row("h100", _HOST, "all-reduce", "xla", m1=35, m64=309, g1=398),
    _row("b200", _HOST, "all-gather", "xla", m1=26, m64=362, g1=591),
    _row("b200", _HOST, "all-reduce", "xla", m1=37, m64=374, g1=603),
    _row("a100", _HOST, "all-reduce", "nccl", m1=(18, 36), m64=172, g1=229),
    _row("h100", Group(8, 10), "all-gather", "nccl", m64=90, g1=265),
    _row("h100", Group(8, 10), "all-to-all", "nccl", m64=40, g1=50),
    _row("h100", Group(8, 8), "all-reduce", "sharp", g1=366),
    _row("h200", Group(8, 2), "all-gather", "nccl", m1=17, m64=226, g1=322),
    _row("gb200", Group(72), "all-reduce", "nccl", g1=681),
    _row("gb200", Group(72, 20), "all-reduce", "nccl", g1=219),
)
# TFLOP/s in bfloat16 of square matmuls of this side: the same sources
MATMULS = (
    ("h100", 1024, 253),
    ("h100", 2048, 641),
    ("h100", 4096, 780),
    ("b200", 4096, 1417),
)
_SAVED = ("query", "key", "value", "out", "mlp_down")
_GPT_5B = {"embed": 4096, "heads": 32, "kv_heads": 32, "mlp": 16384}
_LLAMA_2 = {"vocab": 32000}
_LLAMA_2_7B = {**_LLAMA_2, "mlp": 11008, "kv_heads": 32}
# published seconds, and the plan. NVIDIA/JAX-Toolbox, the READMEs of MaxText and Pax;
# NVIDIA/dgxc-benchmarking, tags v25.01 and v25.04
STEPS: tuple[tuple[float, dict[str, Any]], ...] = (
    (
        0.721,
        {
            "target": "gpu:h100:8",
            "model": "llama-3.1-8b",
            "sizes": _LLAMA_2_7B,
            "mesh": {"fsdp": 8},
            "batch_per_device": 2,
            "sequence": 4096,
            "remat": "minimal",
            "save": ("attention",),
        },
    ),
    (
        6.999,
        {
            "target": "gpu:h100:8x8",
            "model": "llama-3.1-70b",
            "sizes": _LLAMA_2,
            "mesh": {"fsdp": 64},
            "batch_per_device": 2,
            "sequence": 4096,
            "save": _SAVED,
        },
    ),
    (
        15.563,
        {
            "target": "gpu:h100:16x8",
            "model": "llama-3.1-70b",
            "mesh": {"fsdp": 128},
            "batch_per_device": 2,
            "sequence": 8192,
            "save": _SAVED[:3],
        },
    ),
    (
        3.447,
        {
            "target": "gpu:a100:32x8",
            "model": "gpt-3-175b",
            "layers": 24,
            "sizes": _GPT_5B,
            "mesh": {"fsdp": 256},
            "batch_per_device": 8,
            "sequence": 2048,
            "remat": "minimal",
        },
    ),
)


def bus_share(kind: str, group: Group) -> float:
    """Bus bandwidth over bytes per second, as nccl-tests defines it."""
    return (2 if kind == "all-reduce" else 1) * (1 - 1 / group.count)


def collective_errors() -> list[tuple[str, int, float]]:
    """(row, bytes, how far the estimate's bus bandwidth is off) of each published point."""
    found = []
    for row in ROWS:
        gpu, share = GPUS[row.gpu], bus_share(row.kind, row.group)
        for nbytes, low, high in row.points:
            seconds = nccl_s(gpu, row.kind, row.group, nbytes, row.caller)
            assert seconds >= least_s(gpu, row.kind, row.group, nbytes)
            rate = share * nbytes / seconds / 1e9
            found.append((row.name, nbytes, rate / min(max(rate, low), high) - 1))
    return found


def matmul_errors() -> list[tuple[str, float]]:
    """(matmul, how far its rate is off)."""
    found = []
    for gpu, side, published in MATMULS:
        seconds = tiled_s(GPUS[gpu], 2 * side**3, side, side)
        found.append((f"{gpu} {side}^3", 2 * side**3 / seconds / 1e12 / published - 1))
    return found


def step_errors() -> list[tuple[str, float]]:
    """(plan, how far the instant estimate is off the published step)."""
    found = []
    for published, given in STEPS:
        time = estimate_step(Plan(**given)).predicted_s
        assert time is not None
        found.append((f"{given['model']} on {given['target']}", time.estimate / published - 1))
    return found


def main(_: Asked, figures: Figures) -> None:
    off = [abs(error) for *_, error in collective_errors()]
    for name, nbytes, error in collective_errors():
        figures.add(f"{name}, {nbytes // MIB} MiB", 100 * abs(error), "% off", most=30)
    figures.add("collectives, median", 100 * statistics.median(off), "% off", most=10)
    for name, error in matmul_errors():
        figures.add(f"matmul {name}", 100 * abs(error), "% off", most=10)
    for name, error in step_errors():
        figures.add(name, 100 * abs(error), "% off", most=15 if "a100" in name else 6)


if __name__ == "__main__":
    measure(main, __doc__)

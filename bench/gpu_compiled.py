"""Programs compiled for absent GPUs: hand formulas, another reading of their collectives, and the
instant estimate of plans beside the compiled prediction; needs requirements-gpu-targets.txt.

    python -m bench.gpu_compiled [formulas] [collectives] [plans] [--data FOLDER] [--compile N]

All three without a word. What was compiled of plans is kept in `--data`: a stopped bench goes on
there. A compile takes 1 to 3 s of two cores, that of a plan 10 to 60 s.
"""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import small_predictions as small
from bench.collectives_reading import differences
from bench.communicating import EXPERIMENTS, FSDP_LIKE, STRATEGIES
from bench.compiled import own_lab, results
from bench.figures import Asked, Figures, measure
from bench.instant_estimate import Row, compiled, plan_of
from spmd_core.base import read_settings
from spmd_core.lab import Lab
from spmd_core.machine import Gpu, Topology, get_topology
from spmd_core.time import estimate_step

BF16 = small.BF16
DOMAINS = ("gpu:h100:8", "gpu:h100:4x8")  # one host, and several
SIZES = (256, 1024)
OTHERS = ("gpu:a100:8", "gpu:b200:2x8", "gpu:gb200:72")  # of these only the larger size
MESHES = {"gpu:h100:8": {"x": 2, "y": 4}, "gpu:h100:8x8": {"x": 8, "y": 8}}
# target, model, mesh, sequences per device, tokens of each, more
PLANS: tuple[Row, ...] = (
    ("h100:8", "llama-3.1-8b", "fsdp=8", 2, 4096, {}),
    ("h100:8", "llama-3.1-8b", "fsdp=8", 1, 8192, {"remat": "minimal"}),
    ("h100:8", "llama-3.1-8b", "fsdp=4,tensor=2", 2, 4096, {}),
    ("h100:8", "llama-2-7b", "fsdp=8", 4, 2048, {}),
    ("h100:8", "llama-2-13b", "fsdp=8", 1, 4096, {}),
    ("h100:8", "gemma-2-9b", "fsdp=8", 1, 4096, {}),
    ("h100:8", "scaled:1", "data=8", 4, 2048, {}),
    ("h100:2x8", "llama-2-13b", "fsdp=16", 2, 4096, {}),
    ("h100:2x8", "llama-3.1-8b", "data=2,fsdp=8", 2, 4096, {}),
    ("h100:4x8", "llama-3.1-8b", "fsdp=32", 2, 8192, {}),
    ("h100:4x8", "mixtral-8x7b", "fsdp=32", 1, 4096, {}),
    ("h100:8x8", "llama-3.1-70b", "fsdp=64", 1, 8192, {}),
    ("h100:8x8", "llama-2-70b", "fsdp=64", 2, 4096, {"save": ("query", "key", "value")}),
    ("h100:8x8", "llama-3.1-70b", "fsdp=8,tensor=8", 0.5, 8192, {}),
    ("h100:8x8", "llama-3.1-8b", "data=8,fsdp=8", 2, 4096, {}),
    ("h100:16x8", "llama-3.1-70b", "fsdp=128", 2, 8192, {}),
    ("h100:16x8", "gpt-3-175b", "fsdp=16,tensor=8", 0.5, 2048, {}),
    ("h100:64x8", "llama-3.1-405b", "fsdp=64,tensor=8", 0.25, 8192, {}),
    ("h200:8", "llama-3.1-8b", "fsdp=8", 4, 8192, {}),
    ("h200:4x8", "llama-3.1-70b", "fsdp=32", 1, 8192, {}),
    ("h200:8x8", "llama-3.1-70b", "data=2,fsdp=32", 2, 4096, {}),
    ("a100:8", "llama-2-7b", "fsdp=8", 2, 4096, {}),
    ("a100:8", "scaled:1", "fsdp=8", 8, 2048, {"remat": "minimal"}),
    ("a100:4x8", "llama-2-13b", "fsdp=32", 2, 4096, {}),
    ("a100:16x8", "gpt-3-175b", "fsdp=16,tensor=8", 0.5, 2048, {}),
    ("b200:8", "llama-3.1-8b", "fsdp=8", 4, 8192, {}),
    ("b200:2x8", "llama-3.1-70b", "fsdp=16", 1, 8192, {}),
    ("gb200:72", "llama-3.1-70b", "fsdp=72", 1, 8192, {"sizes": {"embed": 9216, "heads": 72}}),
    ("gb200:2x64", "llama-3.1-70b", "data=2,fsdp=64", 1, 8192, {}),
    ("h100:8", "scaled:1", "fsdp=4,sequence=2", 2, 4096, {}),
)
MEDIAN, WITHIN, SHARE, TIMEOUT_S = 0.08, 0.20, 0.90, 1800.0


def scattered(s: int, n: int) -> small.Hand:
    """a[m, k/x] @ b[k/x, n], the result asked for sharded: partial sums, added and scattered."""
    m, k = 2 * s, 4 * s
    spec = small._spec("matmul", {"m": m, "k": k, "n": m}, {"k": "x"}, overrides={"y": [None, "x"]})
    moved = BF16 * (2 * m * k / n + m * m / n)
    return small.Hand(spec, 2 * m * k * m / n, moved, "reduce-scatter", BF16 * m * m)


def halo(s: int, n: int) -> small.Hand:
    """Rows convolved with 9 taps along a sharded dim: each device sends its edge to the next."""
    rows, length = s, 64 * s
    spec = small._spec(
        "convolve", {"rows": rows, "length": length, "width": 9}, {"length": "x"}, dtype="float32"
    )
    return small.Hand(spec, 0, 4 * 2 * rows * length / n, "collective-permute", 4 * 4 * rows)


PROGRAMS: tuple[Callable[[int, int], small.Hand], ...] = (*small.PROGRAMS, scattered, halo)


def comm_s(topology: Topology, kind: str, nbytes: float) -> float:
    """The collective over all GPUs at the data sheets' rates. Each domain's share arrives over the
    network cards of its GPUs, and what is another GPU's of the domain over NVLink.
    """
    chip, hosts, each = topology.chip, topology.slices, topology.shape[0]
    n, link, card = hosts * each, chip.link_bandwidth, chip.dcn_bandwidth
    if kind == "collective-permute":
        return nbytes / (card if hosts > 1 else link)
    if kind == "all-to-all":
        return max(nbytes * (each - 1) / n / link, nbytes * (n - each) / n / card)
    near = nbytes * (1 - 1 / each) / link
    far = nbytes * (1 - 1 / hosts) / (each * card)
    if kind != "all-reduce":
        return max(near, far)
    # NVLink's switches can add up: what a GPU has leaves once, and the sum comes once
    return max(near, 2 * far)


def formulas(figures: Figures, asked: argparse.Namespace) -> None:
    """60 programs: physics <= low <= estimate <= high."""
    topologies = [(name, SIZES) for name in DOMAINS] + [(name, SIZES[-1:]) for name in OTHERS]
    good = of = 0
    with own_lab() as lab:
        for name, sizes in topologies:
            if not name.startswith(asked.only):
                continue
            topology = get_topology(name)
            n = topology.devices
            hands = [program(size * _even(n), n) for program in PROGRAMS for size in sizes]
            specs = [hand.spec | {"target": name, "mesh": {"x": n}} for hand in hands]
            for hand, (spec, result) in zip(hands, results(lab, specs, ["shard_map"]), strict=True):
                outcome = result.strategies["shard_map"]
                of += 1
                if outcome.prediction is None or outcome.predicted_s is None:
                    print(f"{name} {spec['workload']} {spec['dims']}: {outcome.error}", flush=True)
                    continue
                time, least = outcome.predicted_s, _least_s(topology, hand)
                holds = least * (1 - 1e-9) <= time.low <= time.estimate <= time.high
                good += holds
                if not holds:
                    print(
                        f"{name} {spec['workload']} {spec['dims']}: by hand {least * 1e6:.1f}, "
                        f"low {time.low * 1e6:.1f}, estimate {time.estimate * 1e6:.1f}, "
                        f"high {time.high * 1e6:.1f} us",
                        flush=True,
                    )
    figures.add(f"physics <= low <= estimate <= high, of {of}", good, least=of)


def _even(devices: int) -> int:
    """A factor of the sizes by which they divide over the devices: 9 of 72."""
    return devices // math.gcd(devices, 256)


def _least_s(topology: Topology, hand: small.Hand) -> float:
    chip = topology.chip
    assert isinstance(chip, Gpu)
    link = comm_s(topology, hand.kind, hand.comm_bytes) if hand.kind else 0.0
    return max(hand.flops / chip.peak_flops, hand.hbm_bytes / chip.hbm_bandwidth, link)


def collectives(figures: Figures, asked: argparse.Namespace) -> None:
    """30 experiments x 4 strategies, on one host and on 8: another reading has the same list."""
    good = of = listed = 0
    with own_lab() as lab:
        for target, mesh in MESHES.items():
            if not target.startswith(asked.only):
                continue
            specs = [
                each | {"target": target, "mesh": mesh} for each in (*EXPERIMENTS, *FSDP_LIKE[:5])
            ]
            for spec, result in results(lab, specs, STRATEGIES):
                for strategy, found in result.strategies.items():
                    of += 1
                    where = f"{target} {spec['workload']} {spec['sharding']} {strategy}"
                    if found.collectives is None:
                        print(f"{where}: {found.error}", flush=True)
                        continue
                    wrong = differences(lab, result.run, spec, strategy, found.collectives)
                    good, listed = good + (not wrong), listed + len(found.collectives)
                    for line in wrong:
                        print(f"{where}: {line}", flush=True)
    note = f"{listed} collectives in all"
    figures.add(f"programs whose list another reading confirms, of {of}", good, least=of, note=note)


def plans(figures: Figures, asked: argparse.Namespace) -> None:
    """30 plans: the instant estimate beside the compiled prediction."""
    asked.data.mkdir(parents=True, exist_ok=True)
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    lab, left = Lab.open(asked.data, settings=settings), asked.compile
    errors: list[float] = []
    try:
        for row in PLANS:
            plan = plan_of(row, "gpu")
            compiled_s, time = compiled(lab, plan, may_compile=False), estimate_step(plan)
            if compiled_s is None and left:
                left, compiled_s = left - 1, compiled(lab, plan, may_compile=True)
            if compiled_s is None or time.predicted_s is None:
                print(f"{row[0]:12} {row[1]:16} {row[2]:20} was not compiled", flush=True)
                continue
            errors.append(time.predicted_s.estimate / compiled_s - 1)
            print(
                f"{row[0]:12} {row[1]:16} {row[2]:20} {compiled_s:8.3f} s compiled, "
                f"{errors[-1]:+6.1%}",
                flush=True,
            )
    finally:
        lab.close()
    off = sorted(map(abs, errors))
    figures.add("plans compiled", len(off), f"of {len(PLANS)}", least=len(PLANS))
    if off:
        figures.add("median error of the estimate", off[len(off) // 2], most=MEDIAN)
        inside = sum(each <= WITHIN for each in off) / len(off)
        figures.add("share within 20 %", inside, least=SHARE, note=f"worst {off[-1]:.1%}")


PARTS = {"formulas": formulas, "collectives": collectives, "plans": plans}


def main(asked: Asked, figures: Figures) -> None:
    for name in asked.parts or PARTS:
        PARTS[name](figures, asked)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        parts={"place": True, "nargs": "*", "metavar": "PART", "help": ", ".join(PARTS)},
        data=(Path("gpu-compiled"), "of compiled plans"),
        compile=(len(PLANS), "at most of plans"),
        only=("", "targets of formulas and collectives, by beginning"),
    )

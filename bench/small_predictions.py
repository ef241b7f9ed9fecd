"""160 small predictions against hand formulas of "How to Scale Your Model"; needs libtpu.

    python -m bench.small_predictions [--quick]

10 programs in 4 sizes on 4 topologies, each sharded over all chips. By hand: FLOPs over the peak,
bytes of operands and results over HBM bandwidth, and the collective over the links' nominal rate,
without latency. No program is faster than the largest of the three, however much overlaps; and the
sum that a product needs, which the compiler wrote synchronous, comes after at least the product.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.compiled import own_lab, results
from bench.figures import Asked, Figures, measure
from spmd_core.facts import Prediction
from spmd_core.machine import Topology, get_topology

TOPOLOGIES = ("v5e:2x4", "v5e:4x4", "v5p:2x2x2", "v5p:4x4x4")
SIZES = (256, 512, 1024, 2048)
BF16 = 2


@dataclass(frozen=True)
class Hand:
    """A program by hand, per device: FLOPs of matmuls, bytes of HBM, and the collective's kind and
    bytes.
    """

    spec: dict[str, Any]
    flops: float
    hbm_bytes: float
    kind: str = ""
    comm_bytes: float = 0.0


def _spec(
    workload: str, dims: dict[str, int], sharding: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {"workload": workload, "dims": dims, "sharding": sharding, "dtype": "bfloat16"} | more


def summed_product(s: int, n: int) -> Hand:
    """a[m, k/x] @ b[k/x, n]: partial sums, added."""
    m, k = 2 * s, 4 * s
    spec = _spec("matmul", {"m": m, "k": k, "n": m}, {"k": "x"})
    return Hand(spec, 2 * m * k * m / n, BF16 * (2 * m * k / n + m * m), "all-reduce", BF16 * m * m)


def gathered_weights(s: int, n: int) -> Hand:
    """x[batch/x, in] @ weights[in/x, out]: the weights are gathered."""
    b, k = 4 * s, 2 * s
    spec = _spec(
        "layer", {"batch": b, "in": k, "out": k}, {"batch": "x"}, overrides={"weights": ["x", None]}
    )
    return Hand(spec, 2 * b * k * k / n, BF16 * (2 * b * k / n + k * k), "all-gather", BF16 * k * k)


def gathered_result(s: int, n: int) -> Hand:
    """x[batch, in] @ weights[in, out/x], the result asked for replicated."""
    b, k = 2 * s, 4 * s
    spec = _spec(
        "layer", {"batch": b, "in": k, "out": k}, {"out": "x"}, overrides={"y": [None, None]}
    )
    return Hand(
        spec, 2 * b * k * k / n, BF16 * (b * k + k * k / n + b * k), "all-gather", BF16 * b * k
    )


def rows_apart(s: int, n: int) -> Hand:
    """x[batch/x, in] @ weights: nothing to send."""
    b, k = 8 * s, 2 * s
    spec = _spec("layer", {"batch": b, "in": k, "out": k}, {"batch": "x"})
    return Hand(spec, 2 * b * k * k / n, BF16 * (2 * b * k / n + k * k))


def two_layers(s: int, n: int) -> Hand:
    """relu(x @ w1) @ w2, hidden sharded: one sum at the end."""
    b, k, h = 2 * s, 2 * s, 8 * s
    spec = _spec("mlp", {"batch": b, "in": k, "hidden": h, "out": k}, {"hidden": "x"})
    return Hand(
        spec, 4 * b * k * h / n, BF16 * (2 * k * h / n + 2 * b * k), "all-reduce", BF16 * b * k
    )


def summed_rows(s: int, n: int) -> Hand:
    """Sum of x[rows/x, cols] over rows."""
    rows, cols = 16 * s, 8 * s
    spec = _spec("contraction", {"rows": rows, "cols": cols}, {"rows": "x"})
    return Hand(spec, 0, BF16 * (rows * cols / n + cols), "all-reduce", BF16 * cols)


def turned(s: int, n: int) -> Hand:
    """y[rows, cols/x] of x[rows/x, cols]: an all-to-all."""
    rows, cols = 16 * s, 8 * s
    spec = _spec(
        "elementwise", {"rows": rows, "cols": cols}, {"rows": "x"}, overrides={"y": [None, "x"]}
    )
    return Hand(spec, 0, BF16 * 2 * rows * cols / n, "all-to-all", BF16 * rows * cols / n)


def elementwise(s: int, n: int) -> Hand:
    """y[rows/x, cols] of x alike: nothing to send."""
    rows, cols = 32 * s, 8 * s
    spec = _spec("elementwise", {"rows": rows, "cols": cols}, {"rows": "x"})
    return Hand(spec, 0, BF16 * 2 * rows * cols / n)


def dots(s: int, n: int) -> Hand:
    """v[n, k/x] . u[n, k/x], row by row: partial sums, added."""
    rows, k = 16 * s, 8 * s
    spec = _spec("dot", {"n": rows, "k": k}, {"k": "x"})
    return Hand(spec, 0, BF16 * 2 * rows * k / n, "all-reduce", BF16 * rows)


def attention(s: int, n: int) -> Hand:
    """Queries sharded along the sequence, keys and values gathered: two gathers."""
    dims = {"batch": 4, "sequence": s, "heads": 8, "kv_heads": 8, "head_dim": 128}
    whole = 4 * s * 8 * 128
    flops = 2 * 2 * 4 * 8 * s * s * 128 / n
    return Hand(
        _spec("attention", dims, {"sequence": "x"}),
        flops,
        BF16 * 4 * whole / n,
        "all-gather",
        BF16 * 2 * whole,
    )


PROGRAMS: tuple[Callable[[int, int], Hand], ...] = (
    summed_product,
    gathered_weights,
    gathered_result,
    rows_apart,
    two_layers,
    summed_rows,
    turned,
    elementwise,
    dots,
    attention,
)


def comm_s(topology: Topology, kind: str, nbytes: float) -> float:
    """The book's chapter 3: over all chips, each physical axis brings its links.

    An all-gather or reduce-scatter takes V (1 - 1/n) / W, an all-reduce twice that, and an
    all-to-all what crosses the middle of the longest axis.
    """
    link = topology.chip.link_bandwidth
    axes = [
        (size, 2 if wraps else 1)
        for size, wraps in zip(topology.shape, topology.wraps, strict=True)
        if size > 1
    ]
    if kind == "all-to-all":
        return max(size * nbytes / (4 * ways) / link for size, ways in axes)
    into_a_chip = sum(link * ways for _, ways in axes)
    once = nbytes * (1 - 1 / topology.devices) / into_a_chip
    return 2 * once if kind == "all-reduce" else once


def least_s(topology: Topology, hand: Hand, found: Prediction) -> float:
    """Seconds that physics asks for."""
    chip = topology.chip
    compute, memory = hand.flops / chip.peak_flops, hand.hbm_bytes / chip.hbm_bandwidth
    link = comm_s(topology, hand.kind, hand.comm_bytes) if hand.kind else 0.0
    blocking = [
        each for each in found.collectives if each.kind == "all-reduce" and not each.asynchronous
    ]
    if hand.kind == "all-reduce" and len(blocking) == len(found.collectives) == 1:
        return max(compute + link, memory)
    return max(compute, memory, link)


def main(options: Asked, figures: Figures) -> None:
    topologies, sizes = (TOPOLOGIES[:1], SIZES[-1:]) if options.quick else (TOPOLOGIES, SIZES)
    good = of = 0
    tightest = math.inf
    with own_lab() as lab:
        for name in topologies:
            topology = get_topology(name)
            hands = [program(size, topology.devices) for program in PROGRAMS for size in sizes]
            specs = [
                hand.spec | {"target": topology.target, "mesh": {"x": topology.devices}}
                for hand in hands
            ]
            for hand, (spec, result) in zip(hands, results(lab, specs, ["shard_map"]), strict=True):
                of += 1
                outcome = result.strategies["shard_map"]
                if outcome.prediction is None or outcome.predicted_s is None:
                    print(f"{name} {spec['workload']} {spec['dims']}: {outcome.error}", flush=True)
                    continue
                time, least = outcome.predicted_s, least_s(topology, hand, outcome.prediction)
                holds = least * (1 - 1e-9) <= time.low <= time.estimate <= time.high
                good += holds
                tightest = min(tightest, time.low / least)
                if not holds:
                    print(
                        f"{name} {spec['workload']} {spec['dims']} {spec['sharding']}: by hand "
                        f"{least * 1e6:.1f}, low {time.low * 1e6:.1f}, "
                        f"estimate {time.estimate * 1e6:.1f}, high {time.high * 1e6:.1f} us",
                        flush=True,
                    )
    figures.add(
        f"physics <= low <= estimate <= high, of {of}",
        good,
        least=of,
        note=f"low is {tightest:.3f} of physics at least",
    )


if __name__ == "__main__":
    measure(main, __doc__, quick=False)

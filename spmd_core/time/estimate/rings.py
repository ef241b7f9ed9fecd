"""Weights that pass in a ring beside parts of their matmul (collective matmul): what the links and
HBM hold up.

On few devices the compiler splits such a matmul into as many parts as there are shards, or half as
many where two shards arrive at once, from both sides.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from spmd_core.plan import ShardedArray
from spmd_core.time.cost.constants import hbm_s
from spmd_core.time.cost.links import paths_along, permute_s
from spmd_core.time.estimate.constants import (
    ADDED_PASSES,
    CHAINED,
    RING_STREAM,
    RING_WIDE,
    UNCHAINED,
)
from spmd_core.time.estimate.memory import experts_ring
from spmd_core.time.estimate.shapes import LEAST, Shapes

# the matmul of each weight whose ring goes over the contracted dim, in either pass
FORWARD, BACKWARD = ("query", "key", "value", "mlp_up", "mlp_gate"), ("out", "mlp_down")


@dataclass(frozen=True, slots=True)
class Ring:
    """`steps` parts of a matmul, between which each permute takes `permute_s`; `both`: one each
    way.
    """

    steps: int
    both: bool
    permute_s: float

    @property
    def permutes(self) -> int:
        """Permutes of one device, one after the other."""
        return 2 * self.steps + 1 if self.both else self.steps - 1

    @property
    def seconds(self) -> float:
        """Of the links."""
        return self.permutes * self.permute_s

    def gather_exposed_s(self, part_s: float) -> float:
        """Seconds that parts of `part_s` wait for the shards of an operand.

        A ring that is folded into a grid of links has none that both directions do not use, as the
        walk through a schedule counts them: permutes of one part take turns.
        """
        if not self.both:
            return self.permutes * max(0.0, self.permute_s - part_s)
        return self.steps * max(0.0, 2 * self.permute_s - part_s)

    def sum_exposed_s(self, part_s: float) -> float:
        """Seconds that partial sums are waited for: each part is added to what the one before
        passed on.
        """
        longer = part_s / self.permute_s
        chained = min(1.0, max(0.0, (UNCHAINED - longer) / (UNCHAINED - CHAINED)))
        late = max(0.0, self.permute_s - part_s) if self.both else 0.0
        return (self.steps if self.both else self.permutes) * (chained * self.permute_s + late)


def ring_of(shapes: Shapes, nbytes: float) -> Ring:
    """The ring of an array of `nbytes`. It passes on in the order of the mesh, so that each permute
    takes as many hops as the longest way between two that follow each other: from the last device
    back to the first, across a topology without wraparound.
    """
    devices, plan = shapes.ring, shapes.plan
    both = devices % 4 == 0 and devices > 4
    ways = paths_along(shapes.topology, plan.mesh, plan.device_order)
    permute = permute_s(shapes.topology, ways, nbytes / devices)
    return Ring(devices // 2 if both else devices, both, permute)


def parts_s(shapes: Shapes, name: str, matmul_s: float) -> tuple[float, float]:
    """Seconds of a part of a matmul, and of one whose products are added to those before."""
    steps, result = ring_of(shapes, 0.0).steps, shapes.result_bytes(name)
    once = hbm_s(shapes.chip, shapes.passed_bytes(shapes.sum_width * result))
    return max(matmul_s / steps, once), max(matmul_s / steps, ADDED_PASSES * once)


def reread_s(shapes: Shapes, wide: float, matmul_s: float) -> float:
    """Seconds that HBM adds to a matmul whose parts each read all of its wide operand, of so many
    bytes: parts of its result, not of its contracted dim.
    """
    read_s = ring_of(shapes, 0.0).steps * hbm_s(shapes.chip, shapes.passed_bytes(wide))
    return max(0.0, read_s - matmul_s)


def summed_s(shapes: Shapes, arrays: Iterable[ShardedArray]) -> float:
    """Seconds that HBM takes to add each part of these arrays' gradients to the sum that passes."""
    nbytes = shapes.sum_width * sum(shapes.unsharded_bytes(each) for each in arrays)
    return hbm_s(shapes.chip, ADDED_PASSES * nbytes)


def _beside_experts_s(shapes: Shapes) -> tuple[float, float]:
    """The same of shared experts, and of those with a capacity that pass in rings themselves: every
    second part of a product over the width is added to the one before, and all parts of sums.
    """
    size, precision = shapes.size, shapes.plan.precision
    narrow, wide = precision.gathered_dtype != "bfloat16", precision.matmul_dtype != "bfloat16"
    shared = 2 * shapes.matmul_rows * size.shared_mlp / shapes.tensor
    slots = 2 * shapes.experts_here * shapes.expert_rows * shapes.mlp_here
    into = shared + slots * experts_ring(shapes.plan, 1.0 if narrow else 2.0)
    added = ring_of(shapes, 0.0).steps / 2 * ADDED_PASSES * shapes.sum_width
    back = hbm_s(shapes.chip, added * shapes.passed_bytes(shared))
    if experts_ring(shapes.plan, 4.0 if wide else 2.0):
        back += summed_s(shapes, (each for each in shapes.weights if "experts" in dict(each.dims)))
    return hbm_s(shapes.chip, added * (1 + size.gated) * shapes.passed_bytes(into)), back


def ring_memory_s(
    shapes: Shapes, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> tuple[float, float]:
    """Seconds that HBM adds to one layer's forward and backward pass where weights pass in rings:
    among experts, those of attention. The gradient of each weight passes in parts of itself.
    """
    if not shapes.rings_layers:
        return 0.0, 0.0
    of_experts = () if shapes.size.experts == 1 else ("mlp_up", "mlp_gate", "mlp_down")
    names = [each for each in (*FORWARD, *BACKWARD) if each in matmuls and each not in of_experts]
    late = [0.0, 0.0]
    for name in names:
        seconds, again = matmuls[name], reread_s(shapes, shapes.wide_bytes(name), matmuls[name])
        added = ring_of(shapes, 0.0).steps * sum(parts_s(shapes, name, seconds)) / 2 - seconds
        late[0] += added if name in FORWARD else again
        if name not in recomputed and recomputed != LEAST:
            late[1] += added if name in BACKWARD else again
        late[1] += again
    late[1] += summed_s(
        shapes, (each for each in shapes.weights if "experts" not in dict(each.dims))
    )
    if of_experts:
        forward, backward = _beside_experts_s(shapes)
        return late[0] + forward, late[1] + backward
    wide, stream = shapes.result_bytes("mlp_up"), shapes.result_bytes("mlp_down")
    unfused = [
        RING_WIDE[way] * shapes.passed_bytes(wide) + RING_STREAM[way] * shapes.passed_bytes(stream)
        for way in (0, 1)
    ]
    return late[0] + hbm_s(shapes.chip, unfused[0]), late[1] + hbm_s(shapes.chip, unfused[1])

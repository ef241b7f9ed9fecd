"""Passes that turn the operands of matmuls into 8 bits, and the sums that their scales need."""

from spmd_core.time.cost.constants import hbm_s
from spmd_core.time.cost.flops import narrow_cycles
from spmd_core.time.cost.links import collective_s, route_of
from spmd_core.time.estimate.shapes import Shapes

# bytes moved over an array's bytes in bfloat16: two bytes are read and one written; by the largest
# value of an array, two more are read before
CAST, SCALED = 1.5, 2.5
MATMULS = 7  # of a layer, with a gate
# the same of experts' weights where the chip does not multiply them: XLA writes them in float32 in two
# layouts, and copies one, for a grouped product in 8 bits; read off a step of v5p
WIDENED = 8.0


def scaled_s(shapes: Shapes) -> tuple[float, float]:
    """Returns seconds of one layer's scaling, forward and backward: of a matmul's inputs, of weights
    that are gathered in bfloat16, and of gradients. MaxText's recipes for fp8_full fix the scales of
    weights and activations alone; on GPUs those of gradients are known before, too
    (flax.linen.fp8_ops: of earlier steps).
    """
    precision, a, plan = shapes.plan.precision, shapes.arrays, shapes.plan
    if precision.matmul_dtype == "bfloat16":
        return 0.0, 0.0
    stream = a.stream * shapes.tensor
    routed = stream * (plan.visits if shapes.size.experts > 1 else 1.0)
    by, sums = (CAST, 0.0) if precision.static_scales else (SCALED, _sums_s(shapes))
    inputs = stream + routed + a.mixed + a.wide
    if precision.gathered_dtype == "bfloat16":  # all of a weight, again on every device
        inputs += shapes.layer_weight_bytes
    forward = hbm_s(shapes.chip, by * inputs) + 2 * sums
    if shapes.element("backward") == "bf16":
        return forward, 0.0
    gradients, late = a.query + a.key + a.value + a.stream + 2 * a.wide + routed, 0.0
    if precision.static_scales and shapes.chip.is_gpu:
        return forward, hbm_s(shapes.chip, CAST * gradients)
    if plan.dropless and narrow_cycles(shapes.chip, shapes.element("backward")) >= 1:
        experts = (each for each in shapes.weights if "experts" in dict(each.dims))
        late = hbm_s(shapes.chip, WIDENED * sum(map(shapes.unsharded_bytes, experts)))
    return forward, hbm_s(shapes.chip, SCALED * gradients) + _sums_s(shapes) + late


def _sums_s(shapes: Shapes) -> float:
    """Seconds of the largest value over all devices, of one array of each matmul."""
    plan = shapes.plan
    where = route_of(shapes.topology, plan.mesh, plan.device_order, tuple(shapes.mesh))
    return MATMULS * collective_s(shapes.topology, "all-reduce", where, 4.0)

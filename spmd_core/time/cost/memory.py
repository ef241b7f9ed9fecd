"""Whether a training step fits, from its sizes alone, before anything is compiled.

What is live at the worst moment, which is either the backward pass of one block or that of the
logits: parameters with their optimizer
state (donated), their bfloat16 copies, gradients, what the forward pass keeps, and the working set
of that moment. The counts of arrays
in the working sets were read off the buffers of compiled steps.
"""

from dataclasses import dataclass

from spmd_core.experiment import Plan, batch_shards, parameter_share
from spmd_core.time.cost.constants import NEARLY_FULL

_BYTES = {"float32": 4, "bfloat16": 2}
LANES = 128  # the attention kernel leaves its row sums once per lane; they are kept once


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes per device: `peak`, and its parts by name; `host` is what is offloaded."""

    peak: int
    host: int
    parts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Arrays:
    """Bytes of one layer's arrays on a device: residual stream, one projection of the mlp, queries,
    keys, row sums, mlp weights made whole.
    """

    stream: float
    wide: float
    query: float
    key: float
    sums: float
    weights: float


def estimate_memory(plan: Plan, share: float | None = None) -> MemoryEstimate:
    """The peak of a plan's step. `share` of the weights is on one device: worked out where it is
    not given.
    """
    arrays = layer_arrays(plan)
    stored, host = _kept(plan, arrays)
    parameters = plan.size.parameters * (parameter_share(plan) if share is None else share)
    parts = {
        "parameters and optimizer": parameters
        * (_BYTES[plan.parameter_dtype] + sum(_BYTES[dtype] for dtype in plan.moment_dtypes)),
        "bfloat16 copies": 2 * parameters if plan.parameter_dtype == "float32" else 0.0,
        "kept by the forward pass": stored,
    }
    gradients, block, spare = parameters * _BYTES[plan.parameter_dtype], *_block(plan, arrays)
    scores, tables = _logits(plan)
    # the first block's backward pass is taken out of the loop, and runs beside that of the logits
    if plan.topology.slices > 1:
        logits = _rows(plan) * plan.size.vocab * (4 if plan.size.logits_float32 else 2)
        parts |= {"gradients": gradients, "one block's backward pass": block, "logits": logits}
        spare += logits  # or after it
    elif block + gradients >= scores + tables:
        parts |= {"gradients": gradients, "one block's backward pass": block}
    else:
        parts |= {"logits and output table": scores + tables}
    return MemoryEstimate(
        int(_squeezed(plan, sum(parts.values()), spare if "gradients" in parts else 0.0)),
        int(host),
        {name: int(value) for name, value in parts.items()},
    )


def _squeezed(plan: Plan, peak: float, spare: float) -> float:
    """Near the capacity the compiler makes some arrays anew or later: `spare` bytes of them at
    most, and no more than it has to.
    """
    nearly = NEARLY_FULL * plan.topology.chip.device_hbm_bytes
    return max(min(peak, nearly), peak - spare)


def _rows(plan: Plan) -> float:
    """Tokens of a device's rows, sharded over `tensor` and `sequence` as its activations are."""
    axes = plan.axis_sizes
    shards = batch_shards(plan) * axes.get("tensor", 1) * axes.get("sequence", 1)
    return plan.tokens / shards


def layer_arrays(plan: Plan) -> Arrays:
    """Bytes of one layer's arrays on a device, as the plan cuts them."""
    model, axes, rows = plan.size, plan.axis_sizes, _rows(plan)
    tensor = axes.get("tensor", 1)
    weights = (
        (3 if model.gated else 2)
        * model.embed
        * (model.mlp * model.experts / axes.get("expert", 1) + model.shared_mlp)
        * 2
        / tensor
    )
    return Arrays(
        rows * model.embed * 2,
        rows * (model.mlp * plan.visits + model.shared_mlp) * 2,
        rows * model.heads * model.head_dim * 2,
        rows * tensor * model.kv_heads * model.head_dim * 2 / min(tensor, model.kv_heads),
        rows * model.heads * LANES * 4,
        weights,
    )


def _named(plan: Plan, a: Arrays) -> dict[str, float]:
    """Bytes of what a layer may keep, by its name. The output of `mlp_down` is not kept: the next
    block's input holds it.
    """
    return {
        "input": a.stream,
        "query": a.query,
        "key": a.key,
        "value": a.key,
        "out": a.stream,
        "mlp_up": a.wide,
        "mlp_gate": a.wide if plan.size.gated else 0.0,
        "mlp_down": 0.0,
        "attention": a.query + a.sums / LANES,
    }


def _kept(plan: Plan, arrays: Arrays) -> tuple[float, float]:
    """(bytes kept on the device, bytes offloaded) by the forward pass of all layers."""
    layers, named = plan.size.layers, _named(plan, arrays)
    if plan.remat == "none":
        return layers * (sum(named.values()) + 4 * arrays.stream + arrays.wide), 0.0
    names = {"input", *plan.save} | (
        {"query", "key", "value", "out", "mlp_up", "mlp_gate"} if plan.remat == "minimal" else set()
    )
    # a scanned block of several layers: once
    times = {
        name: -(-layers // len(plan.size.windows)) if name == "input" else layers for name in named
    }
    return sum(times[name] * named[name] for name in names - set(plan.offload)), sum(
        times[name] * named[name] for name in plan.offload
    )


def _block(plan: Plan, a: Arrays) -> tuple[float, float]:
    """(working set of one block's backward pass, what of it the compiler can do without)."""
    tensor = plan.axis_sizes.get("tensor", 1)
    block = (
        (4 if plan.size.gated else 3) * a.wide
        + 2 * a.weights
        + 2 * a.query
        + 2 * a.key
        + a.sums
        + 4 * a.stream
    )
    if tensor > 1:  # of full width, on the way into and out of the projections
        block += 4 * a.stream * tensor
    # one kernel for all gradients leaves that of the queries once per block of keys
    if plan.fused_attention_backward:
        block += a.query * (plan.sequence // plan.kernel_blocks[1])
    named = _named(plan, a)
    # one set at work, one on its way to or from the host unless memory is short
    offloaded = sum(named[name] for name in plan.offload)
    return block + 2 * offloaded, offloaded + 4 * a.stream + (
        a.wide if plan.size.experts == 1 else 0.0
    )


def _logits(plan: Plan) -> tuple[float, float]:
    """(logits with their gradients, tables made whole).

    Gradients of float32 logits are bfloat16, and the gradient of the table is all that is left of
    it beside them. Those of bfloat16 logits
    take their place, unless a cap has to be undone, beside the table, its gradient and the
    embedding where it is another.
    """
    model, tensor = plan.size, plan.axis_sizes.get("tensor", 1)
    each = 6 if model.logits_float32 else 4 if model.logits_cap else 2
    tables = 4 if model.logits_float32 or model.tied else 6
    return _rows(plan) * model.vocab * each, model.embed * model.vocab * tables / tensor

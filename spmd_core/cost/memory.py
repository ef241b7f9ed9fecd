"""Whether a training step fits, from its sizes alone, before anything is compiled.

What is live at the worst moment, which is either the backward pass of one block or the output table: parameters with their optimizer
state (donated), their bfloat16 copies, gradients, what the forward pass keeps, and the working set of that moment. The counts of arrays
in the working sets were read off the buffers of compiled steps.
"""

import math
from dataclasses import dataclass

from spmd_core.plan import DATA_AXES, Plan

_BYTES = {"float32": 4, "bfloat16": 2}
LANES = 128  # the attention kernel stores its row sums once per lane


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes per device: `peak`, and its parts by name; `host` is what is offloaded."""

    peak: int
    host: int
    parts: dict[str, int]


def estimate_memory(plan: Plan) -> MemoryEstimate:
    """The peak of a plan's step."""
    model, axes = plan.size, plan.axis_sizes
    rows = plan.tokens / math.prod(axes.get(name, 1) for name in DATA_AXES)  # tokens of a device's rows
    tensor, sequence = axes.get("tensor", 1), axes.get("sequence", 1)
    shards = math.prod(size for name, size in plan.mesh if name != "data")
    parameters = model.parameters / shards
    stream = rows * model.embed * 2 / tensor / sequence
    wide = rows * model.mlp * 2 / tensor / sequence * (model.experts_per_token * 1.25 if model.experts > 1 else 1)
    query = rows * model.heads * model.head_dim * 2 / tensor / sequence
    key = rows * model.kv_heads * model.head_dim * 2 / min(tensor, model.kv_heads) / sequence
    sums = rows * model.heads * LANES * 4 / tensor / sequence
    arrays = {"input": stream, "query": query, "key": key, "value": key, "out": stream, "mlp_up": wide, "mlp_gate": wide if model.gated else 0.0,
              "mlp_down": 0.0, "attention": query + sums}
    blocks = model.layers // len(model.windows)  # scanned blocks; one of several layers keeps its input once
    layers = model.layers
    kept = set(plan.save)
    if plan.remat == "minimal":
        kept |= {"query", "key", "value", "out", "mlp_up", "mlp_gate"}
    if "input" not in plan.offload:
        kept.add("input")
    kept -= set(plan.offload)
    times = {name: blocks if name == "input" else layers for name in arrays}
    stored = sum(times[name] * arrays[name] for name in kept) if plan.remat != "none" else layers * (sum(arrays.values()) + 4 * stream + wide)
    host = sum(times[name] * arrays[name] for name in plan.offload)
    weights = (3 if model.gated else 2) * model.embed * model.mlp * model.experts * 2 / tensor / axes.get("expert", 1)
    gathered = 4 * stream * tensor if tensor > 1 else 0.0  # of full width, on the way into and out of the projections
    block = (4 if model.gated else 3) * wide + 2 * weights + 2 * query + 2 * key + sums + 4 * stream + gathered
    if plan.fused_attention_backward:  # one kernel for all gradients leaves that of the queries once per block of keys
        block += query * (plan.sequence // plan.attention_block)
    block += 2 * sum(arrays[name] for name in plan.offload)  # one set on its way to or from the host, one at work
    # once in float32, or in bfloat16 once, and once more where a cap has to be undone
    scores = rows * model.vocab * (4 if model.logits_float32 or model.logits_cap else 2) / tensor / sequence
    logits = scores + 2 * model.embed * model.vocab * (4 if model.logits_float32 else 2) / tensor
    state = parameters * (_BYTES[plan.parameter_dtype] + 2 * _BYTES[plan.state_dtype])
    copies = 2 * parameters if plan.parameter_dtype == "float32" else 0.0
    gradients = parameters * _BYTES[plan.parameter_dtype]
    parts = {"parameters and optimizer": state, "bfloat16 copies": copies, "kept by the forward pass": stored}
    if plan.topology.slices > 1:  # the first block's backward pass is taken out of the loop, and runs beside that of the logits
        parts |= {"gradients": gradients, "one block's backward pass": block, "logits": scores}
    elif block + gradients >= logits:
        parts |= {"gradients": gradients, "one block's backward pass": block}
    else:
        parts |= {"logits and output table": logits}
    return MemoryEstimate(int(sum(parts.values())), int(host), {name: int(value) for name, value in parts.items()})

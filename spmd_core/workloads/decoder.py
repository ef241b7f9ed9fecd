"""The workload of a transformer's training step, which is only ever compiled."""

from __future__ import annotations

from typing import Any

from spmd_core.plan.models import VARIABLE
from spmd_core.workloads.workload import Flag, Text, Whole, Workload

NAME = "decoder"

DECODER = Workload(
    NAME, "Transformer training step", "gradients and AdamW of a decoder: embedding, scanned blocks, loss", ("batch", "sequence", *VARIABLE),
    {"batch": 32, "sequence": 2048}, (), (), lambda sizes: 0, optional_dims=VARIABLE, dtypes=("bfloat16",), strategies=("auto",),
    default_strategies=("auto",), compile_only=True,
    options={
        "remat": ("full", "minimal", "none"), "model": Text("scaled:1", later=False), "save": Text(), "offload": Text(), "fused_qkv": Flag(),
        "fused_mlp": Flag(), "attention_blocks": Whole(0, 0, 8192), "state_dtype": Text("float32"), "parameter_dtype": Text("float32"),
        "compiler_flags": Text(),
    })

# What a screen begins with: a minute or two of a core. Fewer layers or tokens would hardly shorten that.
DEFAULT_SPEC: dict[str, Any] = {
    "workload": NAME, "target": "tpu:v5e:4x4", "mesh": {"fsdp": 16}, "dims": {"batch": 32, "sequence": 2048},
    "options": {"model": "scaled:1", "remat": "full"}, "strategies": ["auto"],
}

"""Compiles the training step of a plan for TPUs that are not attached."""

import time
from dataclasses import asdict, fields

from spmd_core.engine.absent.topology import Compiled, compile_lowered, mesh_over
from spmd_core.plan.plan import Plan
from spmd_core.programs.decoder import Decoder
from spmd_core.programs.decoder_step import lower_train_step


def decoder(plan: Plan) -> Decoder:
    """The decoder's configuration that a plan describes."""
    known = {field.name for field in fields(Decoder)}
    sizes = {name: value for name, value in asdict(plan.size).items() if name in known}
    return Decoder(**sizes, remat=plan.remat, save=plan.save, offload=plan.offload, fused_qkv=plan.fused_qkv, fused_mlp=plan.fused_mlp,
                   attention_block=plan.attention_block, fused_attention_backward=plan.fused_attention_backward, state_dtype=plan.state_dtype,
                   parameter_dtype=plan.parameter_dtype)


def compile_plan(plan: Plan) -> Compiled:
    """Lower and compile the step; WorkerError without a compiler, JaxRuntimeError with the compiler's words where it refuses."""
    started = time.perf_counter()
    mesh = mesh_over(plan.topology, plan.mesh, plan.device_order)
    return compile_lowered(lower_train_step(decoder(plan), mesh, plan.batch, plan.sequence), mesh, started)

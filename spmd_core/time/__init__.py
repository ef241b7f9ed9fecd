"""How long a program takes: compiled, planned or serving requests."""

from spmd_core.time.cost.attached import cluster_of
from spmd_core.time.cost.clocks import Segment, Walk
from spmd_core.time.cost.constants import MATMUL_SHARE, MEMORY_HIGH, hbm_share
from spmd_core.time.cost.flops import matmul, valid_positions
from spmd_core.time.cost.kernels import KERNELS
from spmd_core.time.cost.limits import Limits, limits_of
from spmd_core.time.cost.links import AxisSpan, dcn_bandwidth, hops_between, host_s, route
from spmd_core.time.cost.mesh_axes import (
    MeshAxis,
    Pairs,
    group_words,
    mesh_axes,
    mesh_collective_s,
    narrowed_by,
    nominal_links,
)
from spmd_core.time.cost.module_costs import ModuleCosts
from spmd_core.time.cost.predict import Keep, Useful, predict
from spmd_core.time.cost.traffic import moved_bytes
from spmd_core.time.cost.version import versions
from spmd_core.time.estimate.gap import gap_parts
from spmd_core.time.estimate.in_parts import estimate_memory, estimate_step, pipeline_of
from spmd_core.time.estimate.memory import MemoryEstimate, may_pass_in_rings
from spmd_core.time.estimate.mesh_estimates import MeshEstimates
from spmd_core.time.estimate.nearest_fit import NearestFit, nearest_fit
from spmd_core.time.estimate.step import step_mfu
from spmd_core.time.estimate.step_transfer import is_of_context
from spmd_core.time.pipeline import PieceRun, SimulatedPipeline, simulate_pipeline
from spmd_core.time.predicting import CompiledText, is_current, is_outdated, of_experiment
from spmd_core.time.serving.contiguous import contiguous_time
from spmd_core.time.serving.held import (
    Pool,
    cache_bytes,
    check_dtypes,
    engine_of,
    has_unit,
    passed_bytes,
    pool_of,
    weight_bytes,
)
from spmd_core.time.serving.simulate import (
    Lengths,
    Served,
    ServingLoad,
    prompt_time,
    simulate,
    steady_per_s,
)
from spmd_core.time.serving.step import StepLoad, StepTime, step_time

__all__ = [
    "KERNELS",
    "MATMUL_SHARE",
    "MEMORY_HIGH",
    "AxisSpan",
    "CompiledText",
    "Keep",
    "Lengths",
    "Limits",
    "MemoryEstimate",
    "MeshAxis",
    "MeshEstimates",
    "ModuleCosts",
    "NearestFit",
    "Pairs",
    "PieceRun",
    "Pool",
    "Segment",
    "Served",
    "ServingLoad",
    "SimulatedPipeline",
    "StepLoad",
    "StepTime",
    "Useful",
    "Walk",
    "cache_bytes",
    "check_dtypes",
    "cluster_of",
    "contiguous_time",
    "dcn_bandwidth",
    "engine_of",
    "estimate_memory",
    "estimate_step",
    "gap_parts",
    "group_words",
    "has_unit",
    "hbm_share",
    "hops_between",
    "host_s",
    "is_current",
    "is_of_context",
    "is_outdated",
    "limits_of",
    "matmul",
    "may_pass_in_rings",
    "mesh_axes",
    "mesh_collective_s",
    "moved_bytes",
    "narrowed_by",
    "nearest_fit",
    "nominal_links",
    "of_experiment",
    "passed_bytes",
    "pipeline_of",
    "pool_of",
    "predict",
    "prompt_time",
    "route",
    "simulate",
    "simulate_pipeline",
    "steady_per_s",
    "step_mfu",
    "step_time",
    "valid_positions",
    "versions",
    "weight_bytes",
]

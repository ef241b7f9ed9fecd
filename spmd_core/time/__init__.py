"""How long a program takes: compiled, planned or serving requests."""

from spmd_core.time.cost import baseline
from spmd_core.time.cost.attached import cluster_of
from spmd_core.time.cost.clocks import Segment, Walk
from spmd_core.time.cost.constants import (
    HOP_LATENCY_S,
    LAUNCH_S,
    MATMUL_SHARE,
    MEMORY_HIGH,
    hbm_share,
)
from spmd_core.time.cost.flops import matmul, valid_positions
from spmd_core.time.cost.kernels import KERNELS
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL,
    AxisSpan,
    LinkRates,
    collective_s,
    dcn_bandwidth,
    hops_between,
    host_s,
    paths,
    permute_s,
    route,
    route_of,
)
from spmd_core.time.cost.mesh_axes import MeshAxis, mesh_axes
from spmd_core.time.cost.module_costs import ModuleCosts
from spmd_core.time.cost.predict import Keep, Useful, predict
from spmd_core.time.cost.traffic import moved_bytes
from spmd_core.time.cost.version import versions
from spmd_core.time.estimate.gap import gap_parts, unexplained_s
from spmd_core.time.estimate.in_parts import estimate_memory, estimate_step, pipeline_of
from spmd_core.time.estimate.memory import Fits, MemoryEstimate
from spmd_core.time.estimate.mesh_estimates import MeshEstimates
from spmd_core.time.estimate.nearest_fit import NearestFit, larger, nearest_fit
from spmd_core.time.estimate.step import step_mfu
from spmd_core.time.estimate.transfers import is_of_context
from spmd_core.time.gpu.constants import COLLECTIVE_S
from spmd_core.time.gpu.matmuls import peak_of
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
from spmd_core.time.training import TrainingCost, least_chip_days, training_run

__all__ = [
    "COLLECTIVE_S",
    "EXPECTED",
    "HOP_LATENCY_S",
    "KERNELS",
    "LAUNCH_S",
    "MATMUL_SHARE",
    "MEMORY_HIGH",
    "NOMINAL",
    "AxisSpan",
    "CompiledText",
    "Fits",
    "Keep",
    "Lengths",
    "LinkRates",
    "MemoryEstimate",
    "MeshAxis",
    "MeshEstimates",
    "ModuleCosts",
    "NearestFit",
    "PieceRun",
    "Pool",
    "Segment",
    "Served",
    "ServingLoad",
    "SimulatedPipeline",
    "StepLoad",
    "StepTime",
    "TrainingCost",
    "Useful",
    "Walk",
    "baseline",
    "cache_bytes",
    "check_dtypes",
    "cluster_of",
    "collective_s",
    "contiguous_time",
    "dcn_bandwidth",
    "engine_of",
    "estimate_memory",
    "estimate_step",
    "gap_parts",
    "has_unit",
    "hbm_share",
    "hops_between",
    "host_s",
    "is_current",
    "is_of_context",
    "is_outdated",
    "larger",
    "least_chip_days",
    "matmul",
    "mesh_axes",
    "moved_bytes",
    "nearest_fit",
    "of_experiment",
    "passed_bytes",
    "paths",
    "peak_of",
    "permute_s",
    "pipeline_of",
    "pool_of",
    "predict",
    "prompt_time",
    "route",
    "route_of",
    "simulate",
    "simulate_pipeline",
    "steady_per_s",
    "step_mfu",
    "step_time",
    "training_run",
    "unexplained_s",
    "valid_positions",
    "versions",
    "weight_bytes",
]

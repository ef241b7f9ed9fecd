"""How long: the only wing that answers in seconds, whatever the source."""

from spmd_core.time.bandwidth.fits import busy_facts, ceiling, fits
from spmd_core.time.bandwidth.operations import operations_of, operations_of_turn
from spmd_core.time.bandwidth.roofline import (
    ProgramTime,
    partitioned_s,
    program_time,
    with_roofline,
)
from spmd_core.time.closed_form.bound import bound_s, closed_form_s, least_s
from spmd_core.time.closed_form.formula import formula_of
from spmd_core.time.closed_form.sharded_formula import ShardedFormula
from spmd_core.time.cost import baseline
from spmd_core.time.cost.attached import cluster_of
from spmd_core.time.cost.clocks import Segment, Walk
from spmd_core.time.cost.flops import valid_positions
from spmd_core.time.cost.kernels import KERNELS
from spmd_core.time.cost.links import AxisSpan, dcn_bandwidth, hops_between, host_s, route
from spmd_core.time.cost.mesh_axes import MeshAxis, mesh_axes
from spmd_core.time.cost.module_costs import ModuleCosts
from spmd_core.time.cost.predict import Keep, Useful, predict
from spmd_core.time.cost.version import versions
from spmd_core.time.estimate.gap import gap_parts, unexplained_s
from spmd_core.time.estimate.in_parts import estimate_memory, estimate_step, pipeline_of
from spmd_core.time.estimate.memory import Fits, MemoryEstimate
from spmd_core.time.estimate.mesh_estimates import MeshEstimates
from spmd_core.time.estimate.nearest_fit import NearestFit, larger, nearest_fit
from spmd_core.time.estimate.step import step_mfu
from spmd_core.time.estimate.transfers import is_of_context
from spmd_core.time.model.calibration import ALONE, Calibration
from spmd_core.time.model.duration import NOT_CALIBRATED, Duration, Unknown
from spmd_core.time.model.stored_results import (
    Case,
    calibration,
    calibration_of,
    calibration_on,
    cases,
    measured,
    on_topology,
    times_where_run,
    with_expected,
)
from spmd_core.time.model.time_model import TimeModel, data_sheet, link_s, time_model, tokens_needed
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
from spmd_core.time.serving.step import PARTS, StepLoad, StepTime, step_time
from spmd_core.time.training import TrainingCost, least_chip_days, training_run

__all__ = [
    "ALONE",
    "KERNELS",
    "NOT_CALIBRATED",
    "PARTS",
    "AxisSpan",
    "Calibration",
    "Case",
    "CompiledText",
    "Duration",
    "Fits",
    "Keep",
    "Lengths",
    "MemoryEstimate",
    "MeshAxis",
    "MeshEstimates",
    "ModuleCosts",
    "NearestFit",
    "PieceRun",
    "Pool",
    "ProgramTime",
    "Segment",
    "Served",
    "ServingLoad",
    "ShardedFormula",
    "SimulatedPipeline",
    "StepLoad",
    "StepTime",
    "TimeModel",
    "TrainingCost",
    "Unknown",
    "Useful",
    "Walk",
    "baseline",
    "bound_s",
    "busy_facts",
    "cache_bytes",
    "calibration",
    "calibration_of",
    "calibration_on",
    "cases",
    "ceiling",
    "check_dtypes",
    "closed_form_s",
    "cluster_of",
    "contiguous_time",
    "data_sheet",
    "dcn_bandwidth",
    "engine_of",
    "estimate_memory",
    "estimate_step",
    "fits",
    "formula_of",
    "gap_parts",
    "has_unit",
    "hops_between",
    "host_s",
    "is_current",
    "is_of_context",
    "is_outdated",
    "larger",
    "least_chip_days",
    "least_s",
    "link_s",
    "measured",
    "mesh_axes",
    "nearest_fit",
    "of_experiment",
    "on_topology",
    "operations_of",
    "operations_of_turn",
    "partitioned_s",
    "passed_bytes",
    "pipeline_of",
    "pool_of",
    "predict",
    "program_time",
    "prompt_time",
    "route",
    "simulate",
    "simulate_pipeline",
    "steady_per_s",
    "step_mfu",
    "step_time",
    "time_model",
    "times_where_run",
    "tokens_needed",
    "training_run",
    "unexplained_s",
    "valid_positions",
    "versions",
    "weight_bytes",
    "with_expected",
    "with_roofline",
]

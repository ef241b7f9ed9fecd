"""How long: the only room that answers in seconds, whatever the source."""

from spmd_core.time.bandwidth.beside import FEWEST_RANKED, Pair, median_error, pairs_of, spearman
from spmd_core.time.bandwidth.cases import Case, cases
from spmd_core.time.bandwidth.ceilings import ceiling, noted
from spmd_core.time.bandwidth.expected import ALONE, Machine
from spmd_core.time.bandwidth.fits import fits
from spmd_core.time.bandwidth.known import (
    calibration,
    calibration_of,
    machine_on,
    measured,
    with_expected,
)
from spmd_core.time.bandwidth.operations import operations_of
from spmd_core.time.bandwidth.predicted import expected, on_topology
from spmd_core.time.bandwidth.roofline import TOO_HIGH, beyond_floor_s, with_roofline, with_roofs
from spmd_core.time.cost import baseline
from spmd_core.time.cost.attached import cluster_of
from spmd_core.time.cost.clocks import Segment, Walk
from spmd_core.time.cost.constants import (
    HBM_EFFICIENCY,
    HOP_LATENCY_S,
    HOST_EFFICIENCY,
    LAUNCH_S,
    MATMUL_SHARE,
)
from spmd_core.time.cost.links import (
    EXPECTED,
    Span,
    collective_s,
    hops_between,
    paths,
    permute_s,
    route,
)
from spmd_core.time.cost.memory import MemoryEstimate, estimate_memory
from spmd_core.time.cost.mesh_axes import MeshAxis, mesh_axes
from spmd_core.time.cost.predict import Keep, Useful, predict
from spmd_core.time.cost.predicting import Answer, is_current, is_outdated, of_experiment
from spmd_core.time.cost.schedule import Walker
from spmd_core.time.cost.version import versions
from spmd_core.time.estimate.bound import step_bound
from spmd_core.time.estimate.nearest_fit import NearestFit, larger, nearest_fit
from spmd_core.time.estimate.shapes import Shapes, shapes_of
from spmd_core.time.estimate.step import estimate_step, step_time
from spmd_core.time.estimate.transfers import Transfer, route_of, transfers
from spmd_core.time.estimate.work import StepWork, layer_matmuls, step_work

__all__ = [
    "ALONE",
    "EXPECTED",
    "FEWEST_RANKED",
    "HBM_EFFICIENCY",
    "HOP_LATENCY_S",
    "HOST_EFFICIENCY",
    "LAUNCH_S",
    "MATMUL_SHARE",
    "TOO_HIGH",
    "Answer",
    "Case",
    "Keep",
    "Machine",
    "MemoryEstimate",
    "MeshAxis",
    "NearestFit",
    "Pair",
    "Segment",
    "Shapes",
    "Span",
    "StepWork",
    "Transfer",
    "Useful",
    "Walk",
    "Walker",
    "baseline",
    "beyond_floor_s",
    "calibration",
    "calibration_of",
    "cases",
    "ceiling",
    "cluster_of",
    "collective_s",
    "estimate_memory",
    "estimate_step",
    "expected",
    "fits",
    "hops_between",
    "is_current",
    "is_outdated",
    "larger",
    "layer_matmuls",
    "machine_on",
    "measured",
    "median_error",
    "mesh_axes",
    "nearest_fit",
    "noted",
    "of_experiment",
    "on_topology",
    "operations_of",
    "pairs_of",
    "paths",
    "permute_s",
    "predict",
    "route",
    "route_of",
    "shapes_of",
    "spearman",
    "step_bound",
    "step_time",
    "step_work",
    "transfers",
    "versions",
    "with_expected",
    "with_roofline",
    "with_roofs",
]

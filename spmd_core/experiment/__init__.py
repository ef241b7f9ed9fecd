"""The experiment: one frozen value, its rules, its link, its layout."""

from spmd_core.experiment import link
from spmd_core.experiment.experiment import (
    LOOKS_AFTER,
    MARGIN,
    MAX_TEXT_BYTES,
    STUDY_PROCESSES,
    Experiment,
    Row,
    Timing,
    Variant,
    parse_experiment,
    parse_experiment_text,
    study_of,
)
from spmd_core.experiment.fields import Choice, Field, Integer, Number, Switch, Words
from spmd_core.experiment.json_text import load_json
from spmd_core.experiment.layout import (
    Layout,
    device_numbers,
    dtype_of,
    layout,
    layout_json,
    layout_of,
    read_element,
    shape_text,
    type_text,
)
from spmd_core.experiment.link import encode, link_path, screen_of
from spmd_core.experiment.mapped import AXIS_NAME, MapPlan, read_plan
from spmd_core.experiment.nearest import has_newer, newest, shrink
from spmd_core.experiment.options import BY_POSITION, later_options, option_choices, source_of
from spmd_core.experiment.pasted.pasted_arrays import PastedArray
from spmd_core.experiment.pasted.pasted_text import (
    Pasted,
    PastedLine,
    read_pasted,
    read_spec,
    spec_code,
)
from spmd_core.experiment.plan import sharding
from spmd_core.experiment.plan.configs import MAX_CONFIG_BYTES, Config, read_config
from spmd_core.experiment.plan.fields import NAMES, PLAN_FIELDS
from spmd_core.experiment.plan.flags import OPTIONAL_FLAGS, WITHOUT_RINGS, link_refusal
from spmd_core.experiment.plan.meshes import (
    AXES,
    CONTEXT,
    DATA_AXES,
    GATHERED_AXES,
    LENGTH_AXES,
    LENGTH_HELP,
    LONG_SEQUENCE,
    MESH_AXES,
    STAGE,
)
from spmd_core.experiment.plan.model_rules import VARIABLE
from spmd_core.experiment.plan.model_size import Kind, ModelSize
from spmd_core.experiment.plan.models import get_model, model_names
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.plan.presets import PRESETS
from spmd_core.experiment.plan.reading import parse_mesh, parse_plan
from spmd_core.experiment.plan.schedules import SCHEDULES, Schedule, StagePiece, check_schedule
from spmd_core.experiment.plan.served import (
    MXFP4,
    SERVED_AXES,
    SERVED_DTYPES,
    ServedPlan,
    served_dtype,
)
from spmd_core.experiment.plan.sharding import (
    RULES,
    ShardedArray,
    arrays,
    batch_shards,
    group_rows,
    layer_weights,
    parameter_share,
    plan_notes,
    undivided_axes,
)
from spmd_core.experiment.plans import (
    as_exported,
    check_flags,
    compiler_flags,
    experiment_of,
    own_flags,
    read_spec_words,
    step_experiment,
)
from spmd_core.experiment.reading import TIMING
from spmd_core.experiment.resized import axes_left, on_topology, resized
from spmd_core.experiment.rules import (
    MAX_MESH_AXES,
    check_compiles,
    check_fits_target,
    check_traces,
)
from spmd_core.experiment.sharded import Sharded, rows_dim
from spmd_core.experiment.types import Axes, Mesh, Spec, axes_json, axes_of, padded
from spmd_core.experiment.variants import (
    MAX_NAME,
    MAX_VARIANTS,
    names_of,
    shared_parts,
    with_shared,
)
from spmd_core.experiment.workloads import decoder
from spmd_core.experiment.workloads.arrays import ARRAY_DIMS
from spmd_core.experiment.workloads.catalog import (
    WORKLOADS,
    built_in,
    get_workload,
    named_axes,
    workload_names,
)
from spmd_core.experiment.workloads.decoder import DEFAULT_SPEC, NAME
from spmd_core.experiment.workloads.exported import programs, sources
from spmd_core.experiment.workloads.exported.description import (
    NAME as PROGRAM_FILE,
    Described,
    Leaf,
    Listed,
    as_regex,
    matches,
    patterns,
    with_replaced,
)
from spmd_core.experiment.workloads.exported.held import (
    VALUE,
    Finding,
    Held,
    Program,
    findings,
    grouped,
    moving,
)
from spmd_core.experiment.workloads.exported.state import Continued
from spmd_core.experiment.workloads.exported.workload import ProgramLayout
from spmd_core.experiment.workloads.machine import (
    ALL,
    CALIBRATION,
    COLLECTIVES,
    COLLECTIVES_SWEEP,
    TRANSFERS,
    chosen_axes,
    chosen_kinds,
    ladder,
)
from spmd_core.experiment.workloads.own import files
from spmd_core.experiment.workloads.own.declare import workload
from spmd_core.experiment.workloads.own.files import check_present, newer, version_words
from spmd_core.experiment.workloads.own.steps import DeclaredStep, declared_steps, take_declared
from spmd_core.experiment.workloads.serving import STEP, ServedStep
from spmd_core.experiment.workloads.small_programs import (
    merged_imports,
    program_sizes,
    with_mesh,
    with_sizes,
)
from spmd_core.experiment.workloads.strategies import SEQUENCE_STRATEGIES, STRATEGIES
from spmd_core.experiment.workloads.workload import (
    DTYPE_BYTES,
    FLOATS,
    Array,
    Divides,
    Workload,
    array_bytes,
    element_count,
    item_bytes,
)

__all__ = [
    "ALL",
    "ARRAY_DIMS",
    "AXES",
    "AXIS_NAME",
    "BY_POSITION",
    "CALIBRATION",
    "COLLECTIVES",
    "COLLECTIVES_SWEEP",
    "CONTEXT",
    "DATA_AXES",
    "DEFAULT_SPEC",
    "DTYPE_BYTES",
    "FLOATS",
    "GATHERED_AXES",
    "LENGTH_AXES",
    "LENGTH_HELP",
    "LONG_SEQUENCE",
    "LOOKS_AFTER",
    "MARGIN",
    "MAX_CONFIG_BYTES",
    "MAX_MESH_AXES",
    "MAX_NAME",
    "MAX_TEXT_BYTES",
    "MAX_VARIANTS",
    "MESH_AXES",
    "MXFP4",
    "NAME",
    "NAMES",
    "OPTIONAL_FLAGS",
    "PLAN_FIELDS",
    "PRESETS",
    "PROGRAM_FILE",
    "RULES",
    "SCHEDULES",
    "SEQUENCE_STRATEGIES",
    "SERVED_AXES",
    "SERVED_DTYPES",
    "STAGE",
    "STEP",
    "STRATEGIES",
    "STUDY_PROCESSES",
    "TIMING",
    "TRANSFERS",
    "VALUE",
    "VARIABLE",
    "WITHOUT_RINGS",
    "WORKLOADS",
    "Array",
    "Axes",
    "Choice",
    "Config",
    "Continued",
    "DeclaredStep",
    "Described",
    "Divides",
    "Experiment",
    "Field",
    "Finding",
    "Held",
    "Integer",
    "Kind",
    "Layout",
    "Leaf",
    "Listed",
    "MapPlan",
    "Mesh",
    "ModelSize",
    "Number",
    "Pasted",
    "PastedArray",
    "PastedLine",
    "Plan",
    "Program",
    "ProgramLayout",
    "Row",
    "Schedule",
    "ServedPlan",
    "ServedStep",
    "Sharded",
    "ShardedArray",
    "Spec",
    "StagePiece",
    "Switch",
    "Timing",
    "Variant",
    "Words",
    "Workload",
    "array_bytes",
    "arrays",
    "as_exported",
    "as_regex",
    "axes_json",
    "axes_left",
    "axes_of",
    "batch_shards",
    "built_in",
    "check_compiles",
    "check_fits_target",
    "check_flags",
    "check_present",
    "check_schedule",
    "check_traces",
    "chosen_axes",
    "chosen_kinds",
    "compiler_flags",
    "declared_steps",
    "decoder",
    "device_numbers",
    "dtype_of",
    "element_count",
    "encode",
    "experiment_of",
    "files",
    "findings",
    "get_model",
    "get_workload",
    "group_rows",
    "grouped",
    "has_newer",
    "item_bytes",
    "ladder",
    "later_options",
    "layer_weights",
    "layout",
    "layout_json",
    "layout_of",
    "link",
    "link_path",
    "link_refusal",
    "load_json",
    "matches",
    "merged_imports",
    "model_names",
    "moving",
    "named_axes",
    "names_of",
    "newer",
    "newest",
    "on_topology",
    "option_choices",
    "own_flags",
    "padded",
    "parameter_share",
    "parse_experiment",
    "parse_experiment_text",
    "parse_mesh",
    "parse_plan",
    "patterns",
    "plan_notes",
    "program_sizes",
    "programs",
    "read_config",
    "read_element",
    "read_pasted",
    "read_plan",
    "read_spec",
    "read_spec_words",
    "resized",
    "rows_dim",
    "screen_of",
    "served_dtype",
    "shape_text",
    "sharding",
    "shared_parts",
    "shrink",
    "source_of",
    "sources",
    "spec_code",
    "step_experiment",
    "study_of",
    "take_declared",
    "type_text",
    "undivided_axes",
    "version_words",
    "with_mesh",
    "with_replaced",
    "with_shared",
    "with_sizes",
    "workload",
    "workload_names",
]

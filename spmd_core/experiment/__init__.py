"""The experiment: one frozen value, its rules, its link, its layout."""

from spmd_core.experiment import experiment, link
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
from spmd_core.experiment.plans import (
    as_exported,
    check_flags,
    compiler_flags,
    experiment_of,
    own_flags,
    read_spec_words,
    step_experiment,
)
from spmd_core.experiment.resized import axes_left, on_topology, resized
from spmd_core.experiment.rules import (
    MAX_MESH_AXES,
    check_compiles,
    check_fits_target,
    check_traces,
)
from spmd_core.experiment.sharded import Sharded, rows_dim
from spmd_core.experiment.variants import (
    MAX_NAME,
    MAX_VARIANTS,
    names_of,
    shared_parts,
    with_shared,
)

__all__ = [
    "AXIS_NAME",
    "BY_POSITION",
    "LOOKS_AFTER",
    "MARGIN",
    "MAX_MESH_AXES",
    "MAX_NAME",
    "MAX_TEXT_BYTES",
    "MAX_VARIANTS",
    "STUDY_PROCESSES",
    "Experiment",
    "Layout",
    "MapPlan",
    "Pasted",
    "PastedArray",
    "PastedLine",
    "Row",
    "Sharded",
    "Timing",
    "Variant",
    "as_exported",
    "axes_left",
    "check_compiles",
    "check_fits_target",
    "check_flags",
    "check_traces",
    "compiler_flags",
    "device_numbers",
    "dtype_of",
    "encode",
    "experiment",
    "experiment_of",
    "has_newer",
    "later_options",
    "layout",
    "layout_json",
    "layout_of",
    "link",
    "link_path",
    "names_of",
    "newest",
    "on_topology",
    "option_choices",
    "own_flags",
    "parse_experiment",
    "parse_experiment_text",
    "read_element",
    "read_pasted",
    "read_plan",
    "read_spec",
    "read_spec_words",
    "resized",
    "rows_dim",
    "screen_of",
    "shape_text",
    "shared_parts",
    "shrink",
    "source_of",
    "spec_code",
    "step_experiment",
    "study_of",
    "type_text",
    "with_shared",
]

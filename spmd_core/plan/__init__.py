"""A training or serving plan: the table of its options, its model, its rules and its shardings."""

from spmd_core.plan import sharding
from spmd_core.plan.configs import MAX_CONFIG_BYTES, Config, read_config
from spmd_core.plan.fields import (
    MAX_SEQUENCE,
    NAMES,
    PLAN_FIELDS,
    named_count,
    option_words,
    remat_words,
)
from spmd_core.plan.flags import OPTIONAL_FLAGS, WITHOUT_RINGS, link_refusal
from spmd_core.plan.model_rules import (
    AXES,
    AXES_LINES,
    CONTEXT,
    DATA_AXES,
    GATHERED_AXES,
    LENGTH_AXES,
    LONG_SEQUENCE,
    MESH_AXES,
    STAGE,
    VARIABLE,
)
from spmd_core.plan.model_size import Kind, ModelSize
from spmd_core.plan.models import added_models, get_model, model_names
from spmd_core.plan.plan import AXIS, Basis, Plan, makes_rings
from spmd_core.plan.presets import PRESETS
from spmd_core.plan.schedules import (
    MICROBATCHES,
    SCHEDULES,
    Schedule,
    check_schedule,
    fewer_microbatches,
)
from spmd_core.plan.served import MXFP4, SERVED_AXES, SERVED_DTYPES, ServedPlan, served_dtype
from spmd_core.plan.sharding import (
    ADAPTERS,
    RULES,
    ShardedArray,
    arrays,
    batch_axes,
    batch_shards,
    group_rows,
    layer_weights,
    parameter_share,
    plan_notes,
    state_share,
    undivided_axes,
)

__all__ = [
    "ADAPTERS",
    "AXES",
    "AXES_LINES",
    "AXIS",
    "CONTEXT",
    "DATA_AXES",
    "GATHERED_AXES",
    "LENGTH_AXES",
    "LONG_SEQUENCE",
    "MAX_CONFIG_BYTES",
    "MAX_SEQUENCE",
    "MESH_AXES",
    "MICROBATCHES",
    "MXFP4",
    "NAMES",
    "OPTIONAL_FLAGS",
    "PLAN_FIELDS",
    "PRESETS",
    "RULES",
    "SCHEDULES",
    "SERVED_AXES",
    "SERVED_DTYPES",
    "STAGE",
    "VARIABLE",
    "WITHOUT_RINGS",
    "Basis",
    "Config",
    "Kind",
    "ModelSize",
    "Plan",
    "Schedule",
    "ServedPlan",
    "ShardedArray",
    "added_models",
    "arrays",
    "batch_axes",
    "batch_shards",
    "check_schedule",
    "fewer_microbatches",
    "get_model",
    "group_rows",
    "layer_weights",
    "link_refusal",
    "makes_rings",
    "model_names",
    "named_count",
    "option_words",
    "parameter_share",
    "plan_notes",
    "read_config",
    "remat_words",
    "served_dtype",
    "sharding",
    "state_share",
    "undivided_axes",
]

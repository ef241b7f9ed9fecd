"""A plan's sharding as MaxText's configuration and Flax's logical axis rules write it."""

from collections.abc import Iterator

from spmd_core.plan import CONTEXT, RULES, Plan

# MaxText's names of our logical dims (`logical_axis_rules` of its base.yml in 2025). Rules that are
# given take the place of all of its own: what has no rule would be replicated
_LOGICAL = {
    "batch": ("activation_batch", "activation_batch_no_exp", "activation_embed_and_logits_batch"),
    "length": ("activation_length", "activation_length_no_exp", "activation_norm_length"),
    "context_length": ("activation_q_length",),
    "act_embed": ("activation_embed",),
    "act_heads": ("activation_heads", "activation_kv_heads"),
    "act_mlp": ("activation_mlp",),
    "act_vocab": ("activation_vocab",),
    "embed": ("embed", "embed_no_exp"),
    "mlp": ("mlp",),
    "heads": ("heads", "q_heads"),
    "kv_heads": ("kv_heads",),
    "vocab": ("vocab",),
    "norm": ("norm",),
    "experts": ("exp", "activation_exp"),
    "rank": ("q_lora_up_proj", "kv_lora_up_proj"),
}


def _rules(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """MaxText's name of a dim, and the axes that shard it; `no_exp` is of arrays whose dim of
    experts has the axis `expert`.
    """
    used = {name for name, size in plan.mesh if size > 1}
    for dim, names in _LOGICAL.items():
        for name in names:
            taken = {"expert"} if name.endswith("_no_exp") else set()
            yield name, [axis for axis in RULES[dim] if axis in used - taken]


def parallelism(plan: Plan) -> dict[str, int]:
    """MaxText's `ici_*` and `dcn_*` settings: the part of each axis within a slice, and between.

    The slices are on the first axis of a mesh that has several.
    """
    slices, settings = plan.topology.slices, {}
    for place, (name, size) in enumerate(plan.mesh):
        between = slices if place == 0 and slices > 1 else 1
        settings[f"ici_{name}_parallelism"] = size // between
        if between > 1:
            settings[f"dcn_{name}_parallelism"] = between
    for name in ("data", "fsdp"):  # MaxText fills what is -1 by itself: both are written
        settings.setdefault(f"ici_{name}_parallelism", 1)
        settings.setdefault(f"dcn_{name}_parallelism", 1)
    return settings


def maxtext(plan: Plan) -> str:
    """The part of a MaxText configuration that this plan is, as YAML."""
    lines = [
        f"per_device_batch_size: {plan.batch_per_device:g}",
        f"max_target_length: {plan.sequence}",
    ]
    lines += [f"{name}: {size}" for name, size in parallelism(plan).items()]
    if CONTEXT in plan.axis_sizes:
        lines.append(f"context_parallel_strategy: {plan.context_attention.replace('-', '_')}")
        lines.append(f"context_parallel_load_balance: {str(plan.is_balanced).lower()}")
    lines += ["shard_optimizer_over_data: true"] * plan.shard_optimizer_over_data
    lines += [f"num_vocab_tiling: {plan.logit_parts}"] * (plan.logit_parts > 1)
    lines += _remat(plan)
    lines.append("logical_axis_rules: [")
    lines += [
        f"  ['{name}', [{', '.join(repr(axis) for axis in axes)}]]," for name, axes in _rules(plan)
    ]
    return "\n".join([*lines, "]"])


def _remat(plan: Plan) -> list[str]:
    """MaxText's policy: a name, or `custom` with a place for each array."""
    if not plan.save and not plan.offload:
        return [f"remat_policy: {plan.remat}"]
    names = {
        "input": "decoder_layer_input",
        "query": "query_proj",
        "key": "key_proj",
        "value": "value_proj",
        "out": "out_proj",
        "mlp_up": "mlpwi_1",
        "mlp_gate": "mlpwi_0",
        "mlp_down": "mlpwo",
        "attention": "context",
    }
    return [
        "remat_policy: custom",
        *(f"{names[name]}: device" for name in plan.save),
        *(f"{names[name]}: offload" for name in plan.offload),
    ]


def flax(plan: Plan) -> str:
    """The rules for `flax.linen.logical_axis_rules`: a tuple of (logical axis, mesh axes)."""
    rows = []
    for name, axes in _rules(plan):
        if not axes:
            value = "None"
        elif len(axes) == 1:
            value = repr(axes[0])
        else:
            value = repr(tuple(axes))
        rows.append(f"    ({name!r}, {value}),")
    return "\n".join(["rules = (", *rows, ")"])

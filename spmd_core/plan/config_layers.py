"""The layers that a model's file describes: windows, mixers with a state, experts and how they are
chosen, latent attention.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from spmd_core.base import refuse, shorten
from spmd_core.plan.architectures import Architecture
from spmd_core.plan.config_fields import Fields, Values
from spmd_core.plan.model_rules import MAX_LAYERS

T = TypeVar("T")
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "relu2": "relu2",
}
_PERIODS = (
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "no_rope_layer_interval",
    "nope_layer_interval",
)


def activation(fields: Fields, *own: str) -> dict[str, object]:
    """Activation and gate. MaxText lists both; transformers has two names for the first."""
    names = [fields.get(name) for name in (*own, "hidden_activation", "hidden_act")]
    named = next((each for each in names if each is not None), "silu")
    gated = not isinstance(named, list) or len(named) > 1
    of_maxtext = fields.label("hidden_act") != "hidden_act"
    first = named[0] if isinstance(named, list) and named and of_maxtext else named
    if first == "sigmoid" and gated:  # times its argument
        first = "silu"
    if not isinstance(first, str) or first not in _ACTIVATIONS:
        raise refuse(
            f"{fields.label(own[0] if own else 'hidden_act')}={shorten(named)}",
            "is not an activation that is read",
            f"use {', '.join(_ACTIVATIONS)}",
        )
    return {"activation": _ACTIVATIONS[first], "gated": gated}


def windows(kind: Architecture, fields: Fields, layers: int) -> tuple[int | None, ...]:
    """The windows of one block: as few layers as repeat."""
    types, rule = fields.get("layer_types"), kind.window
    if rule == "other":  # read with the kinds of layers
        return (None,)
    period = next((each for name in _PERIODS if (each := fields.get(name))), None)
    if types is not None:
        local_type = (
            "chunked_attention"
            if kind.window_field == "attention_chunk_size"
            else "sliding_attention"
        )
        types = _of_each("layer_types", types, (local_type, "full_attention"), layers)
        local = [each == local_type for each in types]
    elif rule == "above":  # layers below this number attend to all
        first = (
            fields.size("max_window_layers", layers)
            if fields.flag("use_sliding_window")
            else layers
        )
        local = [layer >= first for layer in range(layers)]
    elif isinstance(rule, int):
        every = rule if period is None else period
        if type(every) is not int or not 1 < every <= layers:
            label = f"sliding_window_pattern={shorten(period)}"
            raise refuse(label, "is no number of layers", f"use {rule}")
        local = [(layer + 1) % every != 0 for layer in range(layers)]
    else:
        local = [rule == "all"] * layers
    if rule == "above" and not fields.flag("use_sliding_window") and types is None:
        fields.get("sliding_window")
        return (None,)
    window = None
    if any(local) and (rule != "all" or fields.get(kind.window_field) is not None):
        window = fields.size(kind.window_field)
    return repeated([window if each else None for each in local])


def _of_each(name: str, given: Any, known: Sequence[object], layers: int) -> Sequence[Any]:
    """Returns the value of a field for each layer; RequestError if one is not among `known`."""
    is_listed = isinstance(given, list | str) and len(given) == layers
    if not is_listed or any(each not in known for each in given):
        rule = f"does not name one of {', '.join(map(str, known))} for each of {layers} layers"
        raise refuse(f"{name}={shorten(given, 40)}", rule, "write all of them")
    return given


def repeated(values: Sequence[T]) -> tuple[T, ...]:
    """As few of the values as repeat."""
    count = next(
        count
        for count in range(1, len(values) + 1)
        if all(each == values[place % count] for place, each in enumerate(values))
    )
    return tuple(values[:count])


def _chosen(fields: Fields, _: int) -> Values:
    scores, method = fields.get("scoring_func") or "softmax", fields.get("topk_method")
    if (biased := fields.get("use_routing_bias")) is not None:
        method = biased
    if scores == "noaux_tc":  # as dots1 has it, whose scores are sigmoids
        scores = "sigmoid"
    for name, value, known in (
        ("scoring_func", scores, ("softmax", "sigmoid")),
        ("topk_method", method, (*_METHODS, True, False, None)),
    ):
        if value not in known:
            fix = f"use {' or '.join(each for each in known if isinstance(each, str))}"
            label = f"{fields.label(name)}={shorten(value)}"
            raise refuse(label, "is no way to choose experts that is read", fix)
    later = fields.get("num_nextn_predict_layers") if "mtp_num_layers" in fields.labels else 0
    fields.get("mtp_num_hidden_layers")
    return {
        "routing": scores,
        "score_bias": method in ("noaux_tc", True),
        "expert_groups": fields.size("n_group", 1),
        "groups_per_token": fields.size("topk_group", 1),
        "routed_scale": fields.cap("routed_scaling_factor") or 1.0,
        "mtp_layers": later or 0,
    }


_METHODS = ("noaux_tc", "greedy", "group_limited_greedy")


def _shared(fields: Fields, _: int) -> Values:
    width = next(
        (fields.size(name) for name in _SHARED_WIDTHS if fields.get(name) is not None), None
    )
    of_a_width = width is not None and fields.label("n_shared_experts") not in fields.labels
    count = 1 if of_a_width else fields.size("n_shared_experts", 0, least=0)
    if width is None and count:
        width = fields.size("moe_intermediate_size")
    return {"shared_mlp": count * (width or 0)}


_SHARED_WIDTHS = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")


def _dense_first(fields: Fields, layers: int) -> Values:
    """The first layers, whose mlp has no experts; or those that a list names."""
    name, (without, sparse), given = "moe_layer_freq", (0, 1), fields.get("moe_layer_freq")
    if (types := fields.get("mlp_layer_types")) is not None:
        name, (without, sparse), given = "mlp_layer_types", ("dense", "sparse"), types
    if isinstance(given, list) or types is not None:
        given = [*_of_each(name, given, (without, sparse), layers)]
        dense = given.index(sparse) if sparse in given else layers
        if without in given[dense:]:
            rule = "has layers without experts among layers with"
            raise refuse(f"{name}={shorten(given, 40)}", rule, "use sizes of its own")
    else:
        dense = fields.size("first_k_dense_replace", 0, MAX_LAYERS, least=0)
        fields.size("moe_layer_end_index", layers - 1, layers - 1, layers - 1)  # to the last layer
    return {
        "dense_layers": dense,
        "dense_mlp": fields.size("intermediate_size") if dense else 0,
    }


def _qk_norm(fields: Fields, layers: int) -> Values:
    if (kinds := fields.get("attn_type_list")) is not None:  # 0: linear attention, not modeled
        _of_each("attn_type_list", kinds, (1,), layers)
    return {"qk_norm": fields.flag("use_qk_norm")}


def _latent(fields: Fields, _: int) -> Values:
    nope, rope = (fields.size(f"qk_{name}_head_dim") for name in ("nope", "rope"))
    fields.read.add("head_dim")
    return {
        "head_dim": nope + rope,
        "kv_heads": fields.size("num_attention_heads"),
        "rope_dim": rope,
        "value_dim": fields.size("v_head_dim"),
        "q_rank": fields.size("q_lora_rank", 0, least=0),
        "kv_rank": fields.size("kv_lora_rank"),
    }


def _delta(fields: Fields, layers: int) -> Values:
    """Gated delta rules in all but every so-many-th layer, whose attention has a gate."""
    types = fields.get("layer_types")
    known = ("linear_attention", "full_attention")
    if types is None:
        every = fields.size("full_attention_interval", most=MAX_LAYERS)
        types = [known[(layer + 1) % every == 0] for layer in range(layers)]
    types = _of_each("layer_types", types, known, layers)
    fields.read |= {"full_attention_interval", "attn_output_gate"}
    rule = "is attention without a gate in this architecture, which is not modeled"
    fields.only("attn_output_gate", (None, True), rule, "use true, or sizes of its own")
    return {
        "mixers": repeated(["delta" if each == known[0] else "attention" for each in types]),
        "state_heads": fields.size("linear_num_value_heads"),
        "state_groups": fields.size("linear_num_key_heads"),
        "state_dim": fields.size("linear_key_head_dim"),
        "state_value": fields.size("linear_value_head_dim"),
        "conv": fields.size("linear_conv_kernel_dim", most=64),
        "chunk": fields.size("chunk_size", 64),
        "out_gate": True,
    }


_MAMBA = {
    **dict.fromkeys(("M", "mamba"), ("mamba", "none")),
    **dict.fromkeys(("*", "attention"), ("attention", "none")),
    **dict.fromkeys(("E", "moe"), ("none", "mlp")),
    **dict.fromkeys(("-", "mlp"), ("none", "dense")),
}


def _mamba(fields: Fields, layers: int) -> Values:
    """Layers of one part each: Mamba-2, attention, experts or an mlp."""
    pattern, names = fields.get("hybrid_override_pattern"), fields.get("layers_block_type")
    given = names if isinstance(names, list) else pattern
    kinds = [_MAMBA[each] for each in _of_each("hybrid_override_pattern", given, [*_MAMBA], layers)]
    dense = {"dense_mlp": fields.size("intermediate_size")} if _MAMBA["-"] in kinds else {}
    if _MAMBA["E"] in kinds:
        fields.size("n_routed_experts")
    return dense | {
        "mixers": repeated([mixer for mixer, _ in kinds]),
        "mlps": repeated([mlp for _, mlp in kinds]),
        **_state(fields),
        **activation(fields, "mlp_hidden_act"),
        "gated": False,
    }


def _mamba_beside(fields: Fields, layers: int) -> Values:
    """Layers of Mamba-2 or attention, each with an mlp, and with experts where the model has them."""
    types = fields.get("layer_types") or ["mamba"] * layers
    types = _of_each("layer_types", types, ("mamba", "attention"), layers)
    mlp = "shared_mlp" if fields.get("num_local_experts") else "mlp"
    return {
        "mixers": repeated(types),
        mlp: fields.size("shared_intermediate_size"),
        **(_state(fields) if "mamba" in types else {}),
    }


def _state(fields: Fields) -> Values:
    """The state of Mamba-2. Longer chunks than 128 are computed in parts, with the same sums."""
    rule = "is a convolution without a bias, which is not modeled"
    fields.only("use_conv_bias", (True,), rule, "use true, or sizes of its own")
    return {
        "state_heads": fields.size("mamba_num_heads"),
        "state_groups": fields.size("n_groups"),
        "state_dim": fields.size("ssm_state_size"),
        "state_value": fields.size("mamba_head_dim"),
        "conv": fields.size("conv_kernel", most=64),
        "chunk": min(128, fields.size("chunk_size", 128)),
    }


def _two_heads(fields: Fields, _: int) -> Values:
    """Heads of other sizes in layers without a window, as Gemma 4 has them, and an mlp beside the
    experts.
    """
    shared_kv = fields.flag("attention_k_eq_v")
    own = {
        "full_head_dim": fields.size("global_head_dim", 0, least=0),
        "full_kv_heads": fields.size("num_global_key_value_heads", 0, least=0) * shared_kv,
        "full_shared_kv": shared_kv,
    }
    fields.read.add("enable_moe_block")
    if not fields.get("num_experts"):
        return own
    rule = "is not the one mlp beside the experts of this architecture"
    fields.only("n_shared_experts", (None, 1), rule, "use 1")
    return own | {"shared_mlp": fields.size("intermediate_size"), "split_norms": True}


def _by_pattern(fields: Fields, layers: int) -> Values:
    """Windows where `hybrid_layer_pattern` has 1, with key heads of their own."""
    given = fields.get("hybrid_layer_pattern")
    pattern = _of_each("hybrid_layer_pattern", given, (0, 1), layers)
    for name in ("num_attention_heads", "v_head_dim"):
        own = fields.get(name)
        fields.only(f"swa_{name}", (None, own), f"is not {name}", f"use {shorten(own)}")
    window, full = fields.size("sliding_window"), fields.size("num_key_value_heads")
    head_dim = fields.size("head_dim")
    own = fields.size("swa_head_dim", head_dim)
    local, sinks = fields.flag("add_swa_attention_sink_bias"), "add_full_attention_sink_bias"
    fields.read |= {"attention_chunk_size", "sliding_window_size"}
    return {
        "windows": repeated([window if each == 1 else None for each in pattern]),
        "head_dim": own,
        "full_head_dim": head_dim if head_dim != own else 0,
        "kv_heads": fields.size("swa_num_key_value_heads", full),
        "full_kv_heads": full,
        "value_dim": fields.size("v_head_dim", head_dim),
        "sinks": local or fields.flag(sinks),
        "full_sinks": fields.flag(sinks),
    }


def _interleaved(fields: Fields, layers: int) -> Values:
    """Experts in every so-many-th layer, one of which all tokens visit, and norms of queries and keys
    without scales, as Llama 4 has them.
    """
    step = fields.size("interleave_moe_layer_step", 1, layers)
    width, sparse = fields.size("intermediate_size"), [*range(step - 1, layers, step)]
    rule = f"are not the last of each interleave_moe_layer_step={step} layers"
    fields.only("moe_layers", (None, sparse), rule, "leave it out, or use those")
    own = fields.get("moe_intermediate_size")  # MaxText has both widths the other way around
    dense = fields.size("intermediate_size_mlp", width) if own is None else width
    experts = width if own is None else fields.size("moe_intermediate_size")
    rotated = fields.get("no_rope_layers")  # 1: with positions, and chunks
    own_windows = {}
    if rotated:
        rotated = _of_each("no_rope_layers", rotated, (0, 1), layers)
        chunk = fields.size("attention_chunk_size")
        own_windows["windows"] = repeated([chunk if each else None for each in rotated])
    return own_windows | {
        "mlp": experts,
        "dense_mlp": dense if step > 1 else 0,
        "mlps": ("dense",) * (step - 1) + ("mlp",),
        "shared_mlp": fields.size("n_shared_experts", 1, least=0) * experts,
        "qk_norm": fields.flag("use_qk_norm"),
        "qk_norms": "plain" if fields.flag("use_qk_norm") else "head",
    }


Reader = Callable[[Fields, int], Values]
READERS: Mapping[str, Reader] = {
    "chosen": _chosen,
    "shared": _shared,
    "dense first": _dense_first,
    "qk norm": _qk_norm,
    "latent": _latent,
    "delta": _delta,
    "mamba": _mamba,
    "mamba beside": _mamba_beside,
    "two heads": _two_heads,
    "by pattern": _by_pattern,
    "interleaved": _interleaved,
}

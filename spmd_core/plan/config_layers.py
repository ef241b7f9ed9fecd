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
    local[-1] &= "two heads" not in kind.parts  # whose last layer sees all of the past
    if rule == "above" and not fields.flag("use_sliding_window") and types is None:
        fields.get("sliding_window")
        return (None,)
    window = None
    if any(local) and (types is not None or fields.get(kind.window_field) is not None):
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
    width = next((fields.size(name) for name in _SHARED_WIDTHS if fields.get(name)), None)
    if width is not None:
        _one_shared(fields)
    alone = width is not None and fields.labels.get(fields.label("n_shared_experts")) is None
    count = 1 if alone else fields.size("n_shared_experts", 0, least=0)
    if width is None and count:
        width = fields.size("moe_intermediate_size")
    return {"shared_mlp": count * (width or 0)}


def _one_shared(fields: Fields) -> None:
    """RequestError where a file counts shared experts that transformers has one of."""
    if (name := fields.label("n_shared_experts")) == "n_shared_experts":
        rule = "is not the one shared expert that this architecture has"
        fields.only(name, (None, 1), rule, "use 1, or leave it out")


_SHARED_WIDTHS = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")


def _dense_first(fields: Fields, layers: int) -> Values:
    """Layers whose mlp has no experts: the first, or those of a pattern."""
    sparse = _sparse(fields, layers)
    first = sparse.index(True) if True in sparse else layers
    pattern = repeated(["mlp" if each else "dense" for each in sparse])
    kinds = {"dense_layers": first} if all(sparse[first:]) else {"mlps": pattern}
    return kinds | {"dense_mlp": 0 if all(sparse) else fields.size("intermediate_size")}


def _sparse(fields: Fields, layers: int) -> Sequence[bool]:
    """Which layers have experts: as a list names them, or as numbers of layers do."""
    for name, known in (("mlp_layer_types", ("dense", "sparse")), ("moe_layer_freq", (0, 1))):
        if isinstance(given := fields.get(name), list) or (name == "mlp_layer_types" and given):
            return [each == known[1] for each in _of_each(name, given, known, layers)]
    dense = fields.size("first_k_dense_replace", 0, MAX_LAYERS, least=0)
    last = fields.size("moe_layer_end_index", -1, layers - 1, least=-1) % layers
    every = fields.size("decoder_sparse_step", 1)
    named = _numbers(fields, "mlp_only_layers", layers)
    return [
        dense <= layer <= last and (layer + 1) % every == 0 and layer not in named
        for layer in range(layers)
    ]


def _numbers(fields: Fields, name: str, layers: int) -> Sequence[int]:
    """The numbers of layers that a field lists."""
    named = fields.get(name) or []
    if not isinstance(named, list) or any(each not in range(layers) for each in named):
        rule = f"is not a list of layers from 0 to {layers - 1}"
        raise refuse(f"{name}={shorten(named, 40)}", rule, "write the numbers of layers")
    return named


def _full_attention(fields: Fields, layers: int) -> Values:
    if (kinds := fields.get("attn_type_list")) is not None:  # 0: linear attention, not modeled
        _of_each("attn_type_list", kinds, (1,), layers)
    return {}


def _qk_norm(fields: Fields, _: int) -> Values:
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
    rule = "is a bias of attention's gate, which is not modeled"
    fields.only("attention_bias", (None, False), rule, "use false, or sizes of its own")
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
    **dict.fromkeys(("M", "mamba", "linear_attention"), ("mamba", "none")),
    **dict.fromkeys(("*", "attention", "full_attention"), ("attention", "none")),
    **dict.fromkeys(("E", "moe"), ("none", "mlp")),
    **dict.fromkeys(("-", "mlp"), ("none", "dense")),
}


def layer_list(fields: Fields) -> tuple[str, Sequence[Any]]:
    """The field that names each layer of an architecture with Mamba layers, and what it names."""
    names = ("hybrid_override_pattern", "layers_block_type")
    given = {name: each for name in names if isinstance(each := fields.get(name), list | str)}
    return next(iter(given.items()), (names[0], ()))


def _mamba(fields: Fields, layers: int) -> Values:
    """Layers of one part each: Mamba-2, attention, experts or an mlp."""
    kinds = [_MAMBA[each] for each in _of_each(*layer_list(fields), [*_MAMBA], layers)]
    dense = {"dense_mlp": fields.size("intermediate_size")} if _MAMBA["-"] in kinds else {}
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
    types = [_MAMBA[each][0] for each in _of_each("layer_types", types, _MIXERS, layers)]
    mlp = "shared_mlp" if fields.get("num_local_experts") else "mlp"
    return {
        "mixers": repeated(types),
        mlp: fields.size("shared_intermediate_size"),
        **(_state(fields) if "mamba" in types else {}),
    }


_MIXERS = ("mamba", "attention", "linear_attention", "full_attention")


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


def has_experts(kind: Architecture, fields: Fields) -> bool:
    """Returns True if the model has experts, as all of its family or some."""
    if "mamba" in kind.parts:
        return any(each in layer_list(fields)[1] for each in ("E", "moe"))
    in_all = not {"two heads", "mamba beside"} & {*kind.parts}
    given = kind.experts and (in_all or fields.get(kind.experts[0]))
    return bool(given) and fields.get("enable_moe_block") is not False


def _two_heads(fields: Fields, layers: int) -> Values:
    """Heads of other sizes in layers without a window, as Gemma 4 has them, and an mlp beside the
    experts.
    """
    rule = "is embeddings for each layer, which a file without this field has too"
    fields.only("hidden_size_per_layer_input", (None, 0), rule, "write 0, or use sizes of its own")
    shared_kv = fields.flag("attention_k_eq_v")
    if shared_kv:
        rule = "is a bias of keys that are values too, which is not modeled"
        fields.only("attention_bias", (None, False), rule, "use false, or sizes of its own")
    own = {
        "full_head_dim": fields.size("global_head_dim", 0, least=0),
        "full_kv_heads": fields.size("num_global_key_value_heads", 0, least=0) * shared_kv,
        **_of_full_layers(fields, layers),
        "full_shared_kv": shared_kv,
    }
    if not fields.get("num_experts") or fields.get("enable_moe_block") is False:
        return own
    rule = "is not the one mlp beside the experts of this architecture"
    fields.only("n_shared_experts", (None, 1), rule, "use 1")
    return own | {"shared_mlp": fields.size("intermediate_size"), "split_norms": True}


def _of_full_layers(fields: Fields, layers: int) -> Values:
    """Sizes of layers without a window, as transformers 5 writes them: for each of these by number."""
    given, types = fields.get("per_layer_config"), fields.get("layer_types") or ()
    if given is None:
        return {}
    full = {place for place, each in enumerate(types) if each == "full_attention"}
    of_layers = given if isinstance(given, dict) else {}
    heads = next(iter(of_layers.values()), None)
    if (
        not isinstance(heads, dict)
        or {*heads} - {"head_dim", "num_key_value_heads"}
        or any(each != heads for each in of_layers.values())
        or {int(each) for each in of_layers if each.isdecimal()} != full
    ):
        rule = "is not one size of heads for all layers without a window"
        raise refuse(f"per_layer_config={shorten(given, 40)}", rule, "use global_head_dim instead")
    inner = Fields(heads, {})
    return {
        "full_head_dim": inner.size("head_dim", 0, least=0),
        "full_kv_heads": inner.size("num_key_value_heads", 0, least=0),
    }


def _by_pattern(fields: Fields, layers: int) -> Values:
    """Windows where `hybrid_layer_pattern` has 1, with key heads of their own."""
    name, known = "hybrid_layer_pattern", (0, 1)
    if fields.get(name) is None:  # as transformers 5 writes it
        name, known = "layer_types", ("full_attention", "sliding_attention")
    local = [each == known[1] for each in _of_each(name, fields.get(name), known, layers)]
    for name in ("num_attention_heads", "v_head_dim"):
        own = fields.get(name)
        fields.only(f"swa_{name}", (None, own), f"is not {name}", f"use {shorten(own)}")
    window = fields.size("sliding_window_size", fields.size("sliding_window"))
    full = fields.size("num_key_value_heads")
    head_dim = fields.size("head_dim")
    own = fields.size("swa_head_dim", head_dim)
    has_sinks, sinks = fields.flag("add_swa_attention_sink_bias"), "add_full_attention_sink_bias"
    fields.read.add("attention_chunk_size")
    return {
        "windows": repeated([window if each else None for each in local]),
        "head_dim": own,
        "full_head_dim": head_dim if head_dim != own else 0,
        "kv_heads": fields.size("swa_num_key_value_heads", 2 * full),
        "full_kv_heads": full,
        "value_dim": fields.size("v_head_dim", head_dim),
        "sinks": has_sinks or fields.flag(sinks),
        "full_sinks": fields.flag(sinks),
    }


def _interleaved(fields: Fields, layers: int) -> Values:
    """Experts in every so-many-th layer, one of which all tokens visit, and norms of queries and keys
    without scales, as Llama 4 has them.
    """
    step = fields.size("interleave_moe_layer_step", 1, layers)
    named = _numbers(fields, "moe_layers", layers)
    sparse = named or range(step - 1, layers, step)
    width = fields.size("intermediate_size")
    own = fields.get("moe_intermediate_size")  # MaxText has both widths the other way around
    dense = fields.size("intermediate_size_mlp", width) if own is None else width
    experts = width if own is None else fields.size("moe_intermediate_size")
    _one_shared(fields)
    rotated = fields.get("no_rope_layers")  # 1: with positions, and chunks
    own_windows = {}
    if rotated and fields.get("layer_types") is None:
        rotated = _of_each("no_rope_layers", rotated, (0, 1), layers)
        chunk = fields.size("attention_chunk_size")
        own_windows["windows"] = repeated([chunk if each else None for each in rotated])
    return own_windows | {
        "mlp": experts,
        "dense_mlp": dense if len(sparse) < layers else 0,
        "mlps": repeated(["mlp" if each in sparse else "dense" for each in range(layers)]),
        "shared_mlp": fields.size("n_shared_experts", 1, least=0) * experts,
        "qk_norm": fields.flag("use_qk_norm"),
        "qk_norms": "plain" if fields.flag("use_qk_norm") else "head",
    }


Reader = Callable[[Fields, int], Values]
READERS: Mapping[str, Reader] = {
    "chosen": _chosen,
    "shared": _shared,
    "dense first": _dense_first,
    "full attention": _full_attention,
    "qk norm": _qk_norm,
    "latent": _latent,
    "delta": _delta,
    "mamba": _mamba,
    "mamba beside": _mamba_beside,
    "two heads": _two_heads,
    "by pattern": _by_pattern,
    "interleaved": _interleaved,
}

"""What the config files of each architecture may leave out, and what all its models have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_SIZES = (  # hidden_size is not one of them: a file has to give it
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
)


def _sizes(*values: int | None) -> dict[str, object]:
    return dict(zip(_SIZES, values, strict=True))


@dataclass(frozen=True, slots=True)
class Architecture:
    """`usual`: values of fields that a file leaves out, as in the configuration classes of
    transformers 4.57; `traits`: fields of a ModelSize; `window`: the layers that have one: "all",
    those "above" max_window_layers, or all but every so-many-th; "other": none of these; `experts`:
    the fields of their number and width; `reads`: fields that would be refused of another
    architecture; `names`: fields by which its files call those of others; `stored`: the methods by which its published weights are quantized, which training
    does not see; `parts`: readers of its layers (`config_layers.READERS`).
    """

    usual: Mapping[str, Any]
    traits: Mapping[str, Any] = field(default_factory=dict)
    window: str | int = ""
    experts: tuple[str, str] | None = None
    reads: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    window_field: str = "sliding_window"
    names: Mapping[str, str] = field(default_factory=dict)


_EXPERTS = ("num_local_experts", "num_experts", "num_experts_per_tok")
_POST_NORMS = {"post_norms": True}
_GEMMA_HEADS = {"head_dim": 256, "tie_word_embeddings": True, "hidden_activation": "gelu"}
_BIASES = {"mlp_bias": True, "router_bias": True}
_LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_ROUTED = ("n_routed_experts", *_EXPERTS)
_FIRST = ("first_k_dense_replace", "n_routed_experts", "n_shared_experts")
# as the configuration class of transformers has them, but for what MaxText has another default of
_DEEPSEEK = Architecture(
    _sizes(18432, 61, 128, 128, 129280)
    | dict(zip(_LATENT, (1536, 512, 128, 64, 128), strict=True))
    | dict(zip(_FIRST, (3, 256, 1), strict=True))
    | {"moe_intermediate_size": 2048, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4}
    | {"routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    experts=("n_routed_experts", "moe_intermediate_size"),
    parts=("latent", "dense first", "shared", "chosen"),
    reads=(
        *(*_LATENT, *_FIRST, "num_nextn_predict_layers", "num_experts", *_EXPERTS),
        "mlp_layer_types",
    ),
    stored=("fp8", "compressed-tensors"),
)
_NO_GROUPS = {"n_group": 1, "topk_group": 1}


def _latent_experts(**usual: object) -> Architecture:
    return replace(_DEEPSEEK, usual={**_DEEPSEEK.usual, **_NO_GROUPS, **usual})


_GATED_DELTA = {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_SHARED_SIGMOID = {"scoring_func": "sigmoid", "topk_method": "noaux_tc"}
_GLM = Architecture(
    _sizes(10944, 46, 96, 8, 151552)
    | dict(zip(_FIRST, (1, 128, 1), strict=True))
    | {"moe_intermediate_size": 1408, "num_experts_per_tok": 8}
    | {"routed_scaling_factor": 1.0, **_NO_GROUPS, **_SHARED_SIGMOID},
    {"out_bias": False},
    experts=("n_routed_experts", "moe_intermediate_size"),
    parts=("qk norm", "dense first", "shared", "chosen"),
    reads=(
        *("attention_bias", "use_qk_norm", "num_nextn_predict_layers", "mlp_layer_types"),
        *_FIRST,
        *_EXPERTS,
    ),
    stored=("fp8",),
)
_LING = replace(
    _GLM,
    usual={**_GLM.usual, **_sizes(5120, 20, 16, 4, 157184), "moe_intermediate_size": 512}
    | {"scoring_func": "softmax", "topk_method": "greedy", "n_routed_experts": 256},
    names={
        "n_routed_experts": "num_experts",
        "n_shared_experts": "num_shared_experts",
        "scoring_func": "score_function",
        "topk_method": "moe_router_enable_expert_bias",
    },
    reads=(*_GLM.reads, "moe_shared_expert_intermediate_size"),
    stored=(),
)
_DELTA_READS = (
    *("linear_num_value_heads", "attention_bias", "use_qk_norm", "mtp_num_hidden_layers"),
    *("n_shared_experts", "shared_expert_intermediate_size", *_EXPERTS),
)


def _delta_experts(layers: int, vocab: int, experts: int, chosen: int) -> Architecture:
    return Architecture(
        _sizes(5632, layers, 16, 2, vocab)
        | _GATED_DELTA
        | {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}
        | {"num_experts": experts, "num_experts_per_tok": chosen},
        {"qk_norm": True, "shared_gate": True},
        "other",
        experts=("num_experts", "moe_intermediate_size"),
        parts=("delta", "shared", "chosen"),
        reads=_DELTA_READS,
        stored=("fp8",),
    )


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(_sizes(11008, 32, 32, None, 32000), reads=("attention_bias", "mlp_bias")),
    "mistral": Architecture(
        _sizes(14336, 32, 32, 8, 32000) | {"sliding_window": 4096}, window="all"
    ),
    "mixtral": Architecture(
        _sizes(14336, 32, 32, 8, 32000) | {"num_local_experts": 8, "num_experts_per_tok": 2},
        window="all",
        experts=("num_local_experts", "intermediate_size"),
        reads=_EXPERTS,
    ),
    "granitemoe": Architecture(
        _sizes(11008, 32, 32, None, 32000) | {"num_local_experts": 8, "num_experts_per_tok": 2},
        experts=("num_local_experts", "intermediate_size"),
        parts=("shared",),
        reads=("attention_bias", "shared_intermediate_size", *_EXPERTS),
        names={"shared_expert_intermediate_size": "shared_intermediate_size"},
    ),
    "granitemoehybrid": Architecture(
        _sizes(11008, 32, 32, None, 32000)
        | {"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 1024}
        | {"mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 1, "ssm_state_size": 256}
        | {"conv_kernel": 4, "chunk_size": 256, "use_conv_bias": True},
        window="other",
        experts=("num_local_experts", "intermediate_size"),
        parts=("mamba beside",),
        reads=("attention_bias", "mamba_d_state", "shared_intermediate_size", *_EXPERTS),
        names={
            "chunk_size": "mamba_chunk_size",
            "conv_kernel": "mamba_d_conv",
            "mamba_head_dim": "mamba_d_head",
            "mamba_num_heads": "mamba_n_heads",
            "n_groups": "mamba_n_groups",
            "ssm_state_size": "mamba_d_state",
            "use_conv_bias": "mamba_conv_bias",
        },
    ),
    "qwen2": Architecture(
        _sizes(22016, 32, 32, 32, 151936) | {"sliding_window": 4096, "max_window_layers": 28},
        {"qkv_bias": True},
        "above",
    ),
    "qwen3": Architecture(
        _sizes(22016, 32, 32, 32, 151936)
        | {"head_dim": 128, "sliding_window": 4096, "max_window_layers": 28},
        {"qk_norm": True},
        "above",
        reads=("attention_bias", "use_qk_norm"),
    ),
    "qwen3_moe": Architecture(
        _sizes(6144, 24, 32, 4, 151936)
        | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
        | {"sliding_window": 4096, "max_window_layers": 28},
        {"qk_norm": True},
        "above",
        ("num_experts", "moe_intermediate_size"),
        ("attention_bias", "use_qk_norm", "mlp_only_layers", "decoder_sparse_step", *_EXPERTS),
        parts=("dense first",),
    ),
    "qwen2_moe": Architecture(
        _sizes(5632, 24, 16, 16, 151936)
        | {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408}
        | {"shared_expert_intermediate_size": 5632, "max_window_layers": 28}
        | {"attention_bias": True},
        {"out_bias": False, "shared_gate": True},
        "above",
        ("num_experts", "moe_intermediate_size"),
        (
            *("attention_bias", "qkv_bias", "shared_expert_intermediate_size", *_EXPERTS),
            *("mlp_only_layers", "decoder_sparse_step"),
        ),
        parts=("shared", "dense first"),
        names={"attention_bias": "qkv_bias"},
    ),
    "gemma": Architecture(
        _sizes(24576, 28, 16, 16, 256000) | _GEMMA_HEADS, reads=("attention_bias",)
    ),
    "gemma2": Architecture(
        _sizes(9216, 26, 8, 4, 256000)
        | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
        | {"sliding_window": 4096, **_GEMMA_HEADS},
        _POST_NORMS,
        2,
        reads=("attention_bias",),
    ),
    "gemma3": Architecture(
        _sizes(9216, 26, 8, 4, 262208) | {"sliding_window": 4096, **_GEMMA_HEADS},
        _POST_NORMS | {"qk_norm": True},
        6,
        reads=("attention_bias",),
    ),
    "gpt_oss": Architecture(
        _sizes(2880, 36, 64, 8, 201088)
        | {"head_dim": 64, "sliding_window": 128, "attention_bias": True}
        | {"num_local_experts": 128, "num_experts_per_tok": 4},
        _BIASES | {"activation": "clamped_silu", "sinks": True},
        2,
        ("num_local_experts", "intermediate_size"),
        ("attention_bias", "mlp_bias", "routed_bias", *_EXPERTS),
        ("mxfp4",),
    ),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _latent_experts(),
    "deepseek_v2": _latent_experts(
        **_sizes(11008, 32, 32, None, 102400),
        **dict(zip(_FIRST, (0, 64, 2), strict=True)),
        moe_intermediate_size=1407,
        num_experts_per_tok=None,
        scoring_func="softmax",
        topk_method="greedy",
        routed_scaling_factor=1.0,
    ),
    "glm4_moe_lite": _latent_experts(
        **_sizes(10240, 47, 20, 20, 154880),
        **dict(zip((*_LATENT, *_FIRST), (768, 512, 192, 64, 256, 1, 64, 1), strict=True)),
        moe_intermediate_size=1536,
        num_experts_per_tok=4,
        routed_scaling_factor=1.8,
    ),
    "mistral4": _latent_experts(
        **_sizes(12288, 36, 32, 32, 131072),
        **dict(zip((*_LATENT, *_FIRST), (1024, 256, 64, 64, 128, 0, 128, 1), strict=True)),
        num_experts_per_tok=4,
        scoring_func="softmax",
        topk_method="greedy",
        routed_scaling_factor=1.0,
    ),
    "qwen3_next": replace(
        _delta_experts(48, 151936, 512, 10),
        parts=("delta", "dense first", "shared", "chosen"),
        reads=(*_DELTA_READS, "mlp_only_layers", "decoder_sparse_step"),
    ),
    "qwen3_5_moe": _delta_experts(40, 248320, 256, 8),
    "qwen3_5": Architecture(
        _sizes(12288, 32, 16, 4, 248320) | _GATED_DELTA,
        {"qk_norm": True},
        "other",
        parts=("delta",),
        reads=("linear_num_value_heads", "attention_bias", "mtp_num_hidden_layers"),
    ),
    "glm4_moe": _GLM,
    "dots1": replace(
        _GLM,
        usual={**_GLM.usual, **_sizes(10944, 62, 32, 32, 152064)}
        | {"first_k_dense_replace": 0, "n_routed_experts": None, "num_experts_per_tok": None},
        traits={"qk_norm": True},
        parts=("dense first", "shared", "chosen"),
    ),
    "solar_open": replace(
        _GLM,
        usual={**_GLM.usual, **_sizes(10944, 48, 64, 8, 196608), "moe_intermediate_size": 1280}
        | {"head_dim": 128},
        parts=("shared", "chosen"),
        reads=("attention_bias", "num_nextn_predict_layers", "n_shared_experts", *_ROUTED),
    ),
    "hy_v3": replace(
        _GLM,
        usual={**_GLM.usual, **_sizes(13312, 80, 64, 8, 120832), "moe_intermediate_size": 1536}
        | {"head_dim": 128, "n_routed_experts": 192, "routed_scaling_factor": 2.826},
        names={
            "n_routed_experts": "num_experts",
            "n_shared_experts": "num_shared_experts",
            "routed_scaling_factor": "router_scaling_factor",
        },
        traits={"qk_norm": True},
        parts=("dense first", "shared", "chosen"),
    ),
    "deepseek": replace(
        _GLM,
        usual={
            **_GLM.usual,
            **_sizes(11008, 30, 32, 32, 102400),
        }
        | {"scoring_func": "softmax", "topk_method": "greedy"},
        stored=(),
    ),
    "minimax_m2": Architecture(
        _sizes(1536, 62, 48, 8, 200064)
        | {"num_local_experts": 256, "num_experts_per_tok": 8}
        | {"head_dim": 128, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
        {"qk_norm": True, "qk_norms": "all"},
        experts=("num_local_experts", "intermediate_size"),
        parts=("full attention", "chosen"),
        reads=("use_qk_norm", "attn_type_list", *_EXPERTS),
        stored=("fp8",),
    ),
    "gemma4": Architecture(
        _sizes(9216, 30, 8, 4, 262144)
        | {"sliding_window": 512, "num_experts_per_tok": None, "global_head_dim": 512}
        | {"hidden_size_per_layer_input": 256, "enable_moe_block": False}
        | {"tie_word_embeddings": True, "head_dim": 256, "hidden_activation": "gelu"}
        | {"final_logit_softcapping": 30.0},
        _POST_NORMS | {"qk_norm": True, "value_norm": True},
        6,
        experts=("num_experts", "moe_intermediate_size"),
        parts=("two heads",),
        reads=("attention_bias", "n_shared_experts", "per_layer_config", *_EXPERTS),
    ),
    "llama4": Architecture(
        _sizes(8192, 48, 40, 8, 202048)
        | {"num_local_experts": 16, "num_experts_per_tok": 1, "head_dim": 128}
        | {"attention_chunk_size": 8192, "intermediate_size_mlp": 16384, "use_qk_norm": True},
        {"chunked": True, "routing": "sigmoid"},
        4,
        window_field="attention_chunk_size",
        experts=("num_local_experts", "intermediate_size"),
        parts=("interleaved",),
        reads=(
            *("attention_bias", "attention_chunk_size", "use_qk_norm", "n_shared_experts"),
            *("interleave_moe_layer_step", *_EXPERTS),
        ),
    ),
    "nemotron_h": Architecture(
        {
            "vocab_size": 131072,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 21504,
            "head_dim": 128,
            "use_conv_bias": True,
            "mlp_hidden_act": "relu2",
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "n_groups": 8,
            "ssm_state_size": 128,
            "conv_kernel": 4,
            "chunk_size": 128,
            **_SHARED_SIGMOID,
        },
        {"routing": "sigmoid", "score_bias": True},
        "other",
        experts=("n_routed_experts", "moe_intermediate_size"),
        parts=("mamba", "shared", "chosen"),
        reads=(
            *("ssm_state_size", "n_shared_experts", "moe_shared_expert_intermediate_size"),
            *_ROUTED,
        ),
    ),
    "mimo_v2_flash": Architecture(
        _sizes(16384, 48, 64, 4, 152576)
        | {"head_dim": 192, "v_head_dim": 128, "sliding_window": 128, **_SHARED_SIGMOID}
        | {"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
        | {"add_swa_attention_sink_bias": True, "first_k_dense_replace": 1},
        {},
        "other",
        experts=("n_routed_experts", "moe_intermediate_size"),
        parts=("by pattern", "dense first", "chosen"),
        reads=(
            *("hybrid_layer_pattern", "attention_chunk_size", "moe_layer_freq", "mlp_layer_types"),
            *_ROUTED,
        ),
        stored=("fp8",),
    ),
    "olmo3": Architecture(
        _sizes(11008, 32, 32, None, 50304) | {"sliding_window": 4096},
        {"pre_norms": False, **_POST_NORMS, "qk_norm": True, "qk_norms": "all"},
        4,
        reads=("attention_bias", "use_qk_norm"),
    ),
    "olmo2": Architecture(
        _sizes(11008, 32, 32, None, 50304),
        {"pre_norms": False, **_POST_NORMS, "qk_norm": True, "qk_norms": "all"},
        reads=("attention_bias",),
    ),
    "exaone4": Architecture(
        _sizes(16384, 32, 32, 32, 102400) | {"sliding_window": 4096},
        {"pre_norms": False, **_POST_NORMS, "qk_norm": True},
        4,
    ),
    "arcee": Architecture(
        _sizes(18432, 32, 32, None, 32000) | {"hidden_act": "relu2"},
        {"gated": False},
        reads=("attention_bias", "mlp_bias"),
    ),
    "olmoe": Architecture(
        _sizes(2048, 16, 16, None, 50304) | {"num_experts": 64, "num_experts_per_tok": 8},
        {"qk_norm": True, "qk_norms": "all"},
        experts=("num_experts", "intermediate_size"),
        reads=("attention_bias", *_EXPERTS),
    ),
    "seed_oss": Architecture(
        _sizes(27648, 64, 80, 8, 155136) | {"attention_bias": True, "head_dim": 128},
        {"out_bias": False},
        reads=("attention_bias", "mlp_bias"),
    ),
    "smollm3": Architecture(
        _sizes(11008, 36, 16, 4, 128256) | {"tie_word_embeddings": True},
        reads=("attention_bias", "mlp_bias"),
    ),
    "phi3": Architecture(_sizes(8192, 32, 32, None, 32064), window="all"),
    "ministral3": Architecture(_sizes(14336, 34, 32, 8, 131072), stored=("fp8",)),
    "mimo": Architecture(
        _sizes(11008, 36, 32, 8, 151680),
        {"qkv_bias": True, "out_bias": False},
        reads=("attention_bias", "num_nextn_predict_layers"),
    ),
    "glm4": Architecture(
        _sizes(13696, 40, 32, 2, 151552) | {"head_dim": 128, "attention_bias": True},
        _POST_NORMS | {"out_bias": False},
        reads=("attention_bias",),
    ),
    "glm": Architecture(
        _sizes(13696, 40, 32, 2, 151552) | {"head_dim": 128, "attention_bias": True},
        {"out_bias": False},
        reads=("attention_bias",),
    ),
    "hunyuan_v1_moe": Architecture(
        _sizes(11008, 32, 32, None, 290943) | {"n_shared_experts": 1},
        {"qk_norm": True},
        experts=("num_experts", "intermediate_size"),
        parts=("dense first", "shared"),
        names={
            "first_k_dense_replace": "moe_layer_num_skipped",
            "moe_intermediate_size": "intermediate_size",
            "n_shared_experts": "num_shared_expert",
            "num_experts_per_tok": "moe_topk",
        },
        reads=("attention_bias", "use_qk_norm", *_EXPERTS),
    ),
    "hunyuan_v1_dense": Architecture(
        _sizes(11008, 32, 32, None, 290943),
        {"qk_norm": True},
        reads=("attention_bias", "use_qk_norm"),
    ),
    "ernie4_5": Architecture(
        _sizes(3072, 18, 16, 2, 103424) | {"head_dim": 128, "tie_word_embeddings": True},
        reads=("attention_bias", "mlp_bias", "use_bias"),
        names={"attention_bias": "use_bias", "mlp_bias": "use_bias"},
    ),
    "ernie4_5_moe": Architecture(
        _sizes(12288, 28, 20, 4, 103424)
        | {"first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 2}
        | {"moe_intermediate_size": 1536, "num_experts_per_tok": 6}
        | {"tie_word_embeddings": True, "topk_method": "noaux_tc"},
        experts=("n_routed_experts", "moe_intermediate_size"),
        parts=("dense first", "shared", "chosen"),
        names={
            "first_k_dense_replace": "moe_layer_start_index",
            "decoder_sparse_step": "moe_layer_interval",
            "n_routed_experts": "moe_num_experts",
            "n_shared_experts": "moe_num_shared_experts",
            "num_experts_per_tok": "moe_k",
        },
        reads=("decoder_sparse_step",),
    ),
    "exaone_moe": replace(
        _GLM,
        usual={**_GLM.usual, **_sizes(16384, 32, 32, 32, 102400), "moe_intermediate_size": 1024}
        | {"n_routed_experts": 64, "routed_scaling_factor": 2.5, "sliding_window": 4096},
        traits={"qk_norm": True},
        window=4,
        parts=("dense first", "shared", "chosen"),
        reads=(*_FIRST, *_EXPERTS, "mlp_layer_types", "num_nextn_predict_layers", "use_qk_norm"),
        names={"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"},
    ),
    "flex_olmo": Architecture(
        _sizes(11008, 32, 32, None, 100352) | {"num_experts": 7, "num_experts_per_tok": 5},
        {"pre_norms": False, **_POST_NORMS, "qk_norm": True, "qk_norms": "all"},
        experts=("num_experts", "intermediate_size"),
        reads=("attention_bias", *_EXPERTS),
    ),
    "sarvam_moe": replace(
        _GLM,
        usual={**_GLM.usual, **_sizes(8192, 19, 64, 4, 262144), "num_experts_per_tok": 6}
        | {"moe_intermediate_size": 1024, "head_dim": 64, "routed_scaling_factor": 2.5}
        | {"use_qk_norm": True},
    ),
    "vaultgemma": Architecture(
        _sizes(9216, 26, 8, 4, 256000)
        | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
        | {"sliding_window": 4096, **_GEMMA_HEADS},
        window=2,
        reads=("attention_bias",),
    ),
    "cwm": Architecture(
        _sizes(21504, 64, 48, 8, 128256) | {"head_dim": 128, "sliding_window": 8192},
        window=4,
        reads=("mlp_bias",),
    ),
    "bailing_moe": _LING,
    "bailing_moe_v2": replace(
        _LING,
        usual={**_LING.usual, **_SHARED_SIGMOID, "use_qk_norm": True}
        | {"n_group": 8, "topk_group": 4},
    ),
}

# the same decoder under other names: of models that see, and of later ones
SAME: Mapping[str, str] = {
    "kimi_k25": "kimi_k2",
    "glm4v": "glm4",
    "glm4v_moe": "glm4_moe",
    "granite": "llama",
    "ministral": "mistral",
    "granitemoeshared": "granitemoe",
    "qwen3_omni_moe": "qwen3_moe",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}
# fields of transformers that change a model, and what they mean; refused where they are not read
NOT_MODELED: Mapping[str, str] = {
    "index_topk": "attention to the keys that an indexer chooses",
    "hybrid_layer_pattern": "heads of other sizes in layers with a window",
    "kv_lora_rank": "latent attention of another architecture",
    "q_lora_rank": "latent attention of another architecture",
    "quantization_config": "quantization",
    "quantization": "quantization",
    "num_local_experts": "a mixture of experts of another architecture",
    "num_experts": "a mixture of experts of another architecture",
    "n_routed_experts": "a mixture of experts of another architecture",
    "n_shared_experts": "shared experts beside those of this architecture",
    "shared_expert_intermediate_size": "shared experts beside those of this architecture",
    "moe_shared_expert_intermediate_size": "shared experts beside those of this architecture",
    "shared_intermediate_size": "shared experts beside those of this architecture",
    "first_k_dense_replace": "layers with experts among layers without",
    "mlp_only_layers": "layers without experts among layers with",
    "num_nextn_predict_layers": "the prediction of several tokens of another architecture",
    "mtp_num_hidden_layers": "the prediction of several tokens of another architecture",
    "linear_num_value_heads": "linear attention",
    "mamba_d_state": "Mamba layers",
    "ssm_state_size": "Mamba layers",
    "attention_chunk_size": "chunked attention",
    "cross_attention_layers": "cross attention",
    "is_encoder_decoder": "an encoder beside the decoder",
    "use_bidirectional_attention": "attention to later tokens",
    "hidden_size_per_layer_input": "embeddings for each layer",
    "num_kv_shared_layers": "keys that layers share",
    "block_configs": "layers of different sizes",
    "attention_bias": "biases that this architecture does not have",
    "mlp_bias": "biases that this architecture does not have",
    "attention_out_bias": "biases that this architecture does not have",
    "qkv_bias": "biases under another name than attention_bias",
    "use_bias": "biases under another name than attention_bias",
    "use_qk_norm": "norms of queries and keys that this architecture does not have",
    "use_sliding_window": "a window that this architecture does not have",
    "use_cla": "keys that layers share",
    "use_double_wide_mlp": "a wider mlp in layers that share keys",
    "mamba_proj_bias": "biases of a mixer's projections",
    "moe_latent_size": "experts of a narrower stream",
    "mlp_layer_types": "layers without experts among layers with",
    "num_attention_heads_per_layer": "heads of another number in each layer",
    "per_layer_config": "sizes of their own for each layer",
    "attn_type_list": "linear attention of another architecture",
    "linear_attn_config": "a delta rule with a decay for each channel",
}
# of them those that many architectures have, also some that are read
COMMON = (
    *(name for name, what in NOT_MODELED.items() if "biases" in what or "experts" in what),
    "quantization_config",
    "quantization",
    "num_nextn_predict_layers",
    "use_qk_norm",
)
# how the names of models begin that the decoder does not have, and what they have instead
LACKING: Mapping[str, str] = {
    **dict.fromkeys(
        ("deepseekv32", "deepseekv4", "deepseek4", "glm5", "glmmoedsa"), "attention to chosen keys"
    ),
    "minicpm3": "latent attention of another architecture",
    **dict.fromkeys(("kimilinear", "kimik3"), "a delta rule with a decay for each channel"),
    **dict.fromkeys(
        ("mamba", "jamba", "falconh", "bamba", "zamba"), "Mamba layers of another architecture"
    ),
    "apertus": "an activation with parameters of its own",
    "cohere": "attention and an mlp side by side",
    "lfm2": "short convolutions in place of attention",
    "minimax": "linear attention of another architecture",
    **dict.fromkeys(("t5", "flant5", "bart", "whisper"), "an encoder beside the decoder"),
    **dict.fromkeys(("gemma3n", "gemma4small"), "embeddings for each layer"),
    "bert": "attention to later tokens",
}
ONE = (
    "decoder_sparse_step",
    "global_parameter_scale",
    "interleave_moe_layer_step",
    "moe_layer_freq",
)

MAXTEXT_BLOCKS: Mapping[str, str] = {
    **dict.fromkeys(("llama2", "default"), "llama"),
    "deepseek": "deepseek_v3",
    "hy3": "glm4_moe",
    **dict.fromkeys(("phi", "phi4"), "phi3"),
    **{
        name: name
        for name in (
            *("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"),
            *("qwen3_5", "gemma", "gemma2", "gemma3", "gemma4", "gpt_oss", "llama4", "olmo3"),
            "nemotron_h",
        )
    },
}
# a block of MaxText's whose yml names experts
WITH_EXPERTS: Mapping[str, str] = {
    "llama": "mixtral",
    "mistral": "mixtral",
    "qwen3_5": "qwen3_5_moe",
}
# names that MaxText's yml of one architecture has besides those of all
MAXTEXT_OWN: Mapping[str, Mapping[str, str]] = {
    "qwen2_moe": {"shared_expert_intermediate_size": "base_mlp_dim"},
    "nemotron_h": {
        "chunk_size": "mamba_chunk_size",
        "moe_shared_expert_intermediate_size": "base_moe_shared_expert_intermediate_size",
    },
}
MAXTEXT_NAMES: Mapping[str, str] = {
    "hidden_size": "base_emb_dim",
    "intermediate_size": "base_mlp_dim",
    "moe_intermediate_size": "base_moe_mlp_dim",
    "num_hidden_layers": "base_num_decoder_layers",
    "num_attention_heads": "base_num_query_heads",
    "num_key_value_heads": "base_num_kv_heads",
    "num_local_experts": "num_experts",
    "n_routed_experts": "num_experts",
    "n_shared_experts": "shared_experts",
    "first_k_dense_replace": "first_num_dense_layers",
    "n_group": "n_routing_groups",
    "topk_group": "topk_routing_group",
    "scoring_func": "routed_score_func",
    "topk_method": "routed_bias",
    "num_nextn_predict_layers": "mtp_num_layers",
    "tie_word_embeddings": "logits_via_embedding",
    "hidden_act": "mlp_activations",
    "hidden_activation": "mlp_activations",
    "sliding_window": "sliding_window_size",
    "attention_chunk_size": "chunk_attn_window_size",
    "full_attention_interval": "inhomogeneous_layer_cycle_interval",
    "linear_num_value_heads": "gdn_num_value_heads",
    "linear_num_key_heads": "gdn_num_key_heads",
    "linear_key_head_dim": "gdn_key_head_dim",
    "linear_value_head_dim": "gdn_value_head_dim",
    "linear_conv_kernel_dim": "gdn_conv_kernel_dim",
    "chunk_size": "gdn_chunk_size",
    "num_global_key_value_heads": "global_num_kv_heads",
    "attention_k_eq_v": "share_kv_projections",
    "attn_logit_softcapping": "attn_logits_soft_cap",
    "final_logit_softcapping": "final_logits_soft_cap",
}
NOT_MODELED_BY_MAXTEXT: Mapping[str, str] = {
    "quantization": "quantization, which is a field of a plan",
    "first_num_dense_layers": "layers without experts of another architecture",
    "mtp_num_layers": "the prediction of several tokens of another architecture",
    "shared_experts": "shared experts beside those of this architecture",
    "use_indexer": "attention to the keys that an indexer chooses",
    "index_topk": "attention to the keys that an indexer chooses",
}
# values of base.yml of MaxText, for what a yml of a model leaves out
MAXTEXT_USUAL: Mapping[str, Any] = {
    "head_dim": 128,
    "tie_word_embeddings": False,
    "q_lora_rank": 0,
    "first_k_dense_replace": 0,
    "n_shared_experts": 0,
    "n_group": 1,
    "topk_group": 1,
    "scoring_func": "",
    "topk_method": False,
    "chunk_size": 64,
    "routed_scaling_factor": 1.0,
    "shared_expert_intermediate_size": None,
    "enable_moe_block": None,
    "hidden_size_per_layer_input": 0,
}

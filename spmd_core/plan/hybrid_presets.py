"""Decoders whose layers are of several kinds, by their published sizes."""

from typing import Any

from spmd_core.plan.model_size import ModelSize

_CONFIG = "the config.json of {}"
_MAXTEXT = "the {}.yml of AI-Hypercomputer/maxtext"


def _qwen_delta(
    name: str, layers: int, vocab: int, experts: int, chosen: int, source: str
) -> ModelSize:
    """A model of this family: three gated delta rules before each attention, which has a gate."""
    return ModelSize(
        name,
        layers,
        2048,
        16,
        2,
        256,
        512,
        vocab,
        source,
        mixers=("delta",) * 3 + ("attention",),
        logits_float32=False,
        experts=experts,
        experts_per_token=chosen,
        shared_mlp=512,
        shared_gate=True,
        qk_norm=True,
        out_gate=True,
        state_heads=32,
        state_groups=16,
        state_dim=128,
        state_value=128,
        context=262144,
    )


def _gemma_4(
    name: str, layers: int, embed: int, heads: int, kv_heads: int, full: int, mlp: int, **more: Any
) -> ModelSize:
    """A model of this family: five layers with a window before each with fewer, wider heads."""
    return ModelSize(
        f"gemma-4-{name}",
        layers,
        embed,
        heads,
        kv_heads,
        256,
        mlp,
        262144,
        _CONFIG.format(f"google/gemma-4-{name}-it, its text_config"),
        activation="gelu",
        post_norms=True,
        tied=True,
        windows=(1024,) * 5 + (None,),
        logits_cap=30.0,
        logits_float32=False,
        qk_norm=True,
        value_norm=True,
        full_head_dim=512,
        full_kv_heads=full,
        full_shared_kv=True,
        context=262144,
        **more,
    )


# M: Mamba-2; *: attention; E: experts, each a layer of its own (`hybrid_override_pattern`)
_NEMOTRON = "MEMEM*E" * 5 + "MEMEMEM*E" + "MEMEMEME"
_PARTS = {"M": ("mamba", "none"), "*": ("attention", "none"), "E": ("none", "mlp")}

HYBRID = (
    _qwen_delta("qwen3-next-80b-a3b", 48, 151936, 512, 10, _MAXTEXT.format("qwen3-next-80b-a3b")),
    _qwen_delta("qwen3.5-35b-a3b", 40, 248320, 256, 8, _CONFIG.format("Qwen/Qwen3.5-35B-A3B")),
    _gemma_4(
        "26b-a4b",
        30,
        2816,
        16,
        8,
        2,
        704,
        experts=128,
        experts_per_token=8,
        shared_mlp=2112,
        split_norms=True,
    ),
    _gemma_4("31b", 60, 5376, 32, 16, 4, 21504),
    ModelSize(
        "llama-4-scout-17b-16e",
        48,
        5120,
        40,
        8,
        128,
        8192,
        202048,
        _CONFIG.format("meta-llama/Llama-4-Scout-17B-16E, its text_config"),
        windows=(8192,) * 3 + (None,),
        chunked=True,
        logits_float32=False,
        experts=16,
        shared_mlp=8192,
        qk_norm=True,
        qk_norms="plain",
        routing="sigmoid",
        context=10485760,
    ),
    ModelSize(
        "mimo-v2-flash",
        48,
        4096,
        64,
        8,
        192,
        2048,
        152576,
        _CONFIG.format("XiaomiMiMo/MiMo-V2-Flash"),
        windows=(None, *(128,) * 4, *(None, *(128,) * 5) * 7),
        logits_float32=False,
        experts=256,
        experts_per_token=8,
        sinks=True,
        full_kv_heads=4,
        full_sinks=False,
        value_dim=128,
        dense_layers=1,
        dense_mlp=16384,
        routing="sigmoid",
        score_bias=True,
        context=262144,
    ),
    ModelSize(
        "nemotron-3-nano-30b-a3b",
        52,
        2688,
        32,
        2,
        128,
        1856,
        131072,
        _CONFIG.format("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
        gated=False,
        activation="relu2",
        mixers=tuple(_PARTS[each][0] for each in _NEMOTRON[:48]),
        mlps=tuple(_PARTS[each][1] for each in _NEMOTRON[:48]),
        logits_float32=False,
        experts=128,
        experts_per_token=6,
        shared_mlp=3712,
        state_heads=64,
        state_groups=8,
        state_dim=128,
        state_value=64,
        chunk=128,
        routing="sigmoid",
        score_bias=True,
        routed_scale=2.5,
        context=262144,
    ),
    ModelSize(
        "olmo-3-32b",
        64,
        5120,
        40,
        8,
        128,
        27648,
        100278,
        _MAXTEXT.format("olmo3-32b"),
        pre_norms=False,
        post_norms=True,
        windows=(4096,) * 3 + (None,),
        logits_float32=False,
        qk_norm=True,
        qk_norms="all",
        context=65536,
    ),
)

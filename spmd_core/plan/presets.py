"""Decoders by their published sizes."""

from typing import Any

from spmd_core.plan.hybrid_presets import HYBRID
from spmd_core.plan.model_size import ModelSize

_LLAMA_2 = "arXiv:2307.09288 table 1, and the released configurations"
_LLAMA_3 = "arXiv:2407.21783 table 3"
_GEMMA_2 = "arXiv:2408.00118 table 1"
_GEMMA_3 = "arXiv:2503.19786 table 1, and the text_config of google/gemma-3-{}-pt"
_QWEN_3 = "arXiv:2505.09388 tables 1 and 2, and the config.json of Qwen/Qwen3-{}"
_GPT_OSS = "arXiv:2508.10925 table 1, and the config.json of openai/gpt-oss-{}"


def _qwen_3(
    name: str, layers: int, embed: int, heads: int, kv_heads: int, mlp: int, **more: Any
) -> ModelSize:
    return ModelSize(
        f"qwen3-{name.lower()}",
        layers,
        embed,
        heads,
        kv_heads,
        128,
        mlp,
        151936,
        _QWEN_3.format(name),
        qk_norm=True,
        logits_float32=False,
        context=40960,
        **more,
    )


def _gemma_3(
    name: str, layers: int, embed: int, heads: int, kv_heads: int, head_dim: int, mlp: int
) -> ModelSize:
    """A model of this family: five layers with a window of 1,024 before each without."""
    return ModelSize(
        f"gemma-3-{name}",
        layers,
        embed,
        heads,
        kv_heads,
        head_dim,
        mlp,
        262208,
        _GEMMA_3.format(name),
        activation="gelu",
        post_norms=True,
        tied=True,
        windows=(1024,) * 5 + (None,),
        qk_norm=True,
        logits_float32=False,
        context=131072,
    )


def _gpt_oss(name: str, layers: int, experts: int) -> ModelSize:
    """A model of this family: sinks, biases, and experts; every other layer has a window of 128."""
    return ModelSize(
        f"gpt-oss-{name}",
        layers,
        2880,
        64,
        8,
        64,
        2880,
        201088,
        _GPT_OSS.format(name),
        activation="clamped_silu",
        windows=(128, None),
        experts=experts,
        experts_per_token=4,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        router_bias=True,
        sinks=True,
        logits_float32=False,
        context=131072,
    )


def _deepseek_3(
    name: str, source: str, heads: int, vocab: int, experts: int, **more: Any
) -> ModelSize:
    """A model of this family: latent attention, sigmoid scores with a bias, one shared expert."""
    return ModelSize(
        name,
        61,
        7168,
        heads,
        heads,
        192,
        2048,
        vocab,
        source,
        logits_float32=False,
        experts=experts,
        experts_per_token=8,
        shared_mlp=2048,
        q_rank=1536,
        kv_rank=512,
        rope_dim=64,
        value_dim=128,
        dense_mlp=18432,
        routing="sigmoid",
        score_bias=True,
        **more,
    )


_EXPERTS_8_OF_128 = {"experts": 128, "experts_per_token": 8}

PRESETS: dict[str, ModelSize] = {
    size.name: size
    for size in (
        ModelSize("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, _LLAMA_2, context=4096),
        ModelSize("llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, _LLAMA_2, context=4096),
        ModelSize("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, _LLAMA_2, context=4096),
        ModelSize(
            "llama-3.1-8b",
            32,
            4096,
            32,
            8,
            128,
            14336,
            128256,
            _LLAMA_3,
            logits_float32=False,
            context=131072,
        ),
        ModelSize(
            "llama-3.1-70b",
            80,
            8192,
            64,
            8,
            128,
            28672,
            128256,
            _LLAMA_3,
            logits_float32=False,
            context=131072,
        ),
        ModelSize(
            "llama-3.1-405b",
            126,
            16384,
            128,
            8,
            128,
            53248,
            128256,
            _LLAMA_3,
            logits_float32=False,
            context=131072,
        ),
        ModelSize(
            "gemma-2-9b",
            42,
            3584,
            16,
            8,
            256,
            14336,
            256128,
            _GEMMA_2,
            activation="gelu",
            post_norms=True,
            tied=True,
            windows=(4096, None),
            context=8192,
            attention_cap=50.0,
            logits_cap=30.0,
            logits_float32=False,
        ),
        ModelSize(
            "gemma-2-27b",
            46,
            4608,
            32,
            16,
            128,
            36864,
            256128,
            _GEMMA_2,
            activation="gelu",
            post_norms=True,
            tied=True,
            windows=(4096, None),
            context=8192,
            attention_cap=50.0,
            logits_cap=30.0,
            logits_float32=False,
        ),
        ModelSize(
            "gpt-3-175b",
            96,
            12288,
            96,
            96,
            128,
            49152,
            50304,
            "arXiv:2005.14165 table 2.1; vocabulary padded as MLPerf does",
            gated=False,
            activation="gelu",
            norm="layer",
            positions=2048,
            context=2048,
            tied=True,
        ),
        ModelSize(
            "mixtral-8x7b",
            32,
            4096,
            32,
            8,
            128,
            14336,
            32000,
            "arXiv:2401.04088 table 1",
            context=32768,
            logits_float32=False,
            experts=8,
            experts_per_token=2,
        ),
        ModelSize(
            "mixtral-8x22b",
            56,
            6144,
            48,
            8,
            128,
            16384,
            32000,
            "the config.json of mistralai/Mixtral-8x22B-v0.1",
            context=65536,
            logits_float32=False,
            experts=8,
            experts_per_token=2,
        ),
        ModelSize(
            "mistral-7b",
            32,
            4096,
            32,
            8,
            128,
            14336,
            32000,
            "arXiv:2310.06825 table 1",
            context=32768,
            logits_float32=False,
            windows=(4096,),
        ),
        _qwen_3("4B", 36, 2560, 32, 8, 9728, tied=True),
        _qwen_3("8B", 36, 4096, 32, 8, 12288),
        _qwen_3("14B", 40, 5120, 40, 8, 17408),
        _qwen_3("32B", 64, 5120, 64, 8, 25600),
        _qwen_3("30B-A3B", 48, 2048, 32, 4, 768, **_EXPERTS_8_OF_128),
        _qwen_3("235B-A22B", 94, 4096, 64, 4, 1536, **_EXPERTS_8_OF_128),
        _gemma_3("12b", 48, 3840, 16, 8, 256, 15360),
        _gemma_3("27b", 62, 5376, 32, 16, 128, 21504),
        _deepseek_3(
            "deepseek-v3-671b",
            "arXiv:2412.19437 section 4.2, and the config.json of deepseek-ai/DeepSeek-V3",
            128,
            129280,
            256,
            dense_layers=3,
            expert_groups=8,
            groups_per_token=4,
            routed_scale=2.5,
            context=163840,
        ),
        _deepseek_3(
            "kimi-k2-1t",
            "arXiv:2507.20534 table 2, and the config.json of moonshotai/Kimi-K2-Instruct",
            64,
            163840,
            384,
            dense_layers=1,
            routed_scale=2.827,
            context=131072,
        ),
        _gpt_oss("20b", 24, 32),
        _gpt_oss("120b", 36, 128),
        *HYBRID,
    )
}

"""Published configs: parameters to the last one, what is refused and by which name, hostile texts."""

import json

import pytest

from spmd_core.base import RequestError
from spmd_core.plan import MAX_CONFIG_BYTES, PRESETS, get_model, read_config
from spmd_core.plan.architectures import ARCHITECTURES
from spmd_core.plan.model_rules import MOST

GEMMA_VISION = {"vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}}


def transformers(kind, layers, hidden, mlp, heads, keys=None, vocab=None, **more):
    """A config.json by its sizes; None: the file leaves it out."""
    given = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocab,
    }
    return {name: value for name, value in given.items() if value is not None} | more


QWEN = {"use_sliding_window": False, "sliding_window": None, "attention_dropout": 0.0}
QWEN_MOE = {"num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1}
QWEN_MOE |= {"mlp_only_layers": [], "norm_topk_prob": True, "head_dim": 128}
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "experts_per_token": 4,
    "num_experts_per_tok": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    "tie_word_embeddings": False,
}

DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "auto_map": {"AutoModel": "modeling_deepseek.DeepseekV3Model"},  # code: never followed
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
    "n_group": 8,
    "topk_group": 4,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.5,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"},
}
KIMI = DEEPSEEK | {"first_k_dense_replace": 1, "n_routed_experts": 384, "n_group": 1}
KIMI |= {"topk_group": 1, "routed_scaling_factor": 2.827, "num_nextn_predict_layers": 0}

PACKED = {"quantization_config": {"quant_method": "compressed-tensors"}}
DEEPSEEK_V2 = DEEPSEEK | {"first_k_dense_replace": 1, "n_routed_experts": 160, "topk_group": 3}
DEEPSEEK_V2 |= {"moe_intermediate_size": 1536, "n_shared_experts": 2, "num_experts_per_tok": 6}
DEEPSEEK_V2 |= {"scoring_func": "softmax", "topk_method": "group_limited_greedy"}
DEEPSEEK_V2_LITE = DEEPSEEK_V2 | {"q_lora_rank": None, "moe_intermediate_size": 1408}
DEEPSEEK_V2_LITE |= {"n_routed_experts": 64, "n_group": 1, "topk_group": 1, "topk_method": "greedy"}
GLM_FLASH = {"first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 1}
GLM_FLASH |= {"num_experts_per_tok": 4, "moe_intermediate_size": 1536, "kv_lora_rank": 512}
GLM_FLASH |= {"q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64}
GLM_FLASH |= {"v_head_dim": 256, "routed_scaling_factor": 1.8}
MINIMAX = {"attn_type_list": [1] * 62, "head_dim": 128, "num_local_experts": 256}
MINIMAX |= {"num_experts_per_tok": 8, "qk_norm_type": "per_layer", "use_qk_norm": True}
MINIMAX |= {"scoring_func": "sigmoid", "use_routing_bias": True, "num_mtp_modules": 3}
MINIMAX |= {"quantization_config": {"quant_method": "fp8"}}
ERNIE = {"head_dim": 128, "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536}
ERNIE |= {"moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 27}
ERNIE |= {"moe_layer_interval": 1, "use_bias": False, "tie_word_embeddings": True}
LING = {"head_dim": 128, "num_experts": 256, "num_shared_experts": 1, "num_experts_per_tok": 8}
LING |= {"moe_intermediate_size": 512, "first_k_dense_replace": 1, "use_qk_norm": True}
LING_1 = {"head_dim": 128, "num_experts": 64, "num_shared_experts": 2, "num_experts_per_tok": 6}
LING_1 |= {"moe_intermediate_size": 1408, "first_k_dense_replace": 0, "use_qkv_bias": False}
HUNYUAN = {"head_dim": 128, "num_experts": 64, "moe_topk": [8] * 32, "num_shared_expert": [1] * 32}
HUNYUAN |= {"moe_intermediate_size": [3072] * 32, "use_qk_norm": True, "use_cla": False}
GRANITE_4 = {"layer_types": (["mamba"] * 9 + ["attention"]) * 4, "tie_word_embeddings": True}
GRANITE_4 |= {"mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1}
GRANITE_4 |= {"mamba_d_conv": 4, "mamba_chunk_size": 256, "num_local_experts": 64}
GRANITE_4 |= {"num_experts_per_tok": 6, "shared_intermediate_size": 1024}
SOLAR = {"head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8}
SOLAR |= {"moe_intermediate_size": 1280}
MISTRAL_4 = {"n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 4}
MISTRAL_4 |= {"moe_intermediate_size": 2048, "first_k_dense_replace": 0}
NEMOTRON = {
    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
    "mamba_head_dim": 80,
    "mamba_num_heads": 128,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "mlp_hidden_act": "relu2",
}


def gpt_oss(layers, experts):
    types = ["sliding_attention", "full_attention"] * (layers // 2)
    more = {"num_local_experts": experts, "layer_types": types}
    return transformers("gpt_oss", layers, 2880, 2880, 64, 8, 201088, **GPT_OSS, **more)


def gemma_3(**text):
    """A multimodal config.json: its text_config leaves out what is usual."""
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", "sliding_window": 1024, **text},
        **GEMMA_VISION,
    }


# Config and parameters of the text model in all: as `total_parameters` of the safetensors files of
# each repository counts them (of gemma-3 less the vision tower and its projector)
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": (
        transformers("llama", 32, 4096, 11008, 32, 32, 32000),
        6738415616,
    ),
    "meta-llama/Llama-2-13b-hf": (
        transformers("llama", 40, 5120, 13824, 40, 40, 32000),
        13015864320,
    ),
    "meta-llama/Llama-2-70b-hf": (
        transformers("llama", 80, 8192, 28672, 64, 8, 32000),
        68976648192,
    ),
    "meta-llama/Llama-3.1-8B": (
        transformers(
            "llama",
            32,
            4096,
            14336,
            32,
            8,
            128256,
            attention_bias=False,
            mlp_bias=False,
            rope_scaling={"rope_type": "llama3", "factor": 8.0},
        ),
        8030261248,
    ),
    "meta-llama/Llama-3.1-70B": (
        transformers("llama", 80, 8192, 28672, 64, 8, 128256),
        70553706496,
    ),
    "meta-llama/Llama-3.1-405B": (
        transformers("llama", 126, 16384, 53248, 128, 8, 128256),
        405853388800,
    ),
    "meta-llama/Llama-3.2-1B": (
        transformers("llama", 16, 2048, 8192, 32, 8, 128256, head_dim=64, tie_word_embeddings=True),
        1235814400,
    ),
    "meta-llama/Llama-3.2-3B": (
        transformers(
            "llama", 28, 3072, 8192, 24, 8, 128256, head_dim=128, tie_word_embeddings=True
        ),
        3212749824,
    ),
    "mistralai/Mistral-7B-v0.1": (
        transformers("mistral", 32, 4096, 14336, 32, 8, 32000, sliding_window=4096),
        7241732096,
    ),
    "mistralai/Mistral-7B-v0.3": (
        transformers("mistral", 32, 4096, 14336, 32, 8, 32768, sliding_window=None),
        7248023552,
    ),
    "mistralai/Mistral-Nemo-Base-2407": (
        transformers("mistral", 40, 5120, 14336, 32, 8, 131072, head_dim=128),
        12247782400,
    ),
    "mistralai/Mistral-Small-24B-Base-2501": (
        transformers("mistral", 40, 5120, 32768, 32, 8, 131072, head_dim=128),
        23572403200,
    ),
    "deepseek-ai/DeepSeek-V3 (the main model)": (
        transformers("deepseek_v3", 61, 7168, 18432, 128, 128, 129280, **DEEPSEEK),
        671026419200,
    ),
    "moonshotai/Kimi-K2-Instruct": (
        transformers("kimi_k2", 61, 7168, 18432, 64, 64, 163840, **KIMI),
        1026408232448,
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        transformers("mixtral", 32, 4096, 14336, 32, 8, 32000, num_local_experts=8),
        46702792704,
    ),
    "mistralai/Mixtral-8x22B-v0.1": (
        transformers("mixtral", 56, 6144, 16384, 48, 8, 32000, num_local_experts=8),
        140620634112,
    ),
    "Qwen/Qwen2.5-0.5B": (
        transformers("qwen2", 24, 896, 4864, 14, 2, 151936, tie_word_embeddings=True, **QWEN),
        494032768,
    ),
    "Qwen/Qwen2.5-7B": (
        transformers("qwen2", 28, 3584, 18944, 28, 4, 152064, tie_word_embeddings=False, **QWEN),
        7615616512,
    ),
    "Qwen/Qwen2.5-72B": (
        transformers("qwen2", 80, 8192, 29568, 64, 8, 152064, tie_word_embeddings=False, **QWEN),
        72706203648,
    ),
    "Qwen/Qwen3-0.6B": (
        transformers(
            "qwen3", 28, 1024, 3072, 16, 8, 151936, head_dim=128, tie_word_embeddings=True, **QWEN
        ),
        596049920,
    ),
    "Qwen/Qwen3-4B": (
        transformers(
            "qwen3", 36, 2560, 9728, 32, 8, 151936, head_dim=128, tie_word_embeddings=True, **QWEN
        ),
        4022468096,
    ),
    "Qwen/Qwen3-8B": (
        transformers("qwen3", 36, 4096, 12288, 32, 8, 151936, head_dim=128, **QWEN),
        8190735360,
    ),
    "Qwen/Qwen3-14B": (
        transformers("qwen3", 40, 5120, 17408, 40, 8, 151936, head_dim=128, **QWEN),
        14768307200,
    ),
    "Qwen/Qwen3-32B": (
        transformers("qwen3", 64, 5120, 25600, 64, 8, 151936, head_dim=128, **QWEN),
        32762123264,
    ),
    "Qwen/Qwen3-30B-A3B": (
        transformers(
            "qwen3_moe", 48, 2048, 6144, 32, 4, 151936, moe_intermediate_size=768, **QWEN_MOE
        ),
        30532122624,
    ),
    "Qwen/Qwen3-235B-A22B": (
        transformers(
            "qwen3_moe", 94, 4096, 12288, 64, 4, 151936, moe_intermediate_size=1536, **QWEN_MOE
        ),
        235093634560,
    ),
    "google/gemma-2b": (
        transformers("gemma", 18, 2048, 16384, 8, 1, 256000, head_dim=256, hidden_act="gelu"),
        2506172416,
    ),
    "google/gemma-7b": (
        transformers("gemma", 28, 3072, 24576, 16, 16, 256000, hidden_activation=None),
        8537680896,
    ),
    "google/gemma-2-2b": (
        transformers("gemma2", 26, 2304, 9216, 8, 4, 256000, head_dim=256),
        2614341888,
    ),
    "google/gemma-2-9b": (
        transformers("gemma2", 42, 3584, 14336, 16, 8, 256000, head_dim=256),
        9241705984,
    ),
    "google/gemma-2-27b": (
        transformers("gemma2", 46, 4608, 36864, 32, 16, 256000, head_dim=128),
        27227128320,
    ),
    "google/gemma-3-1b-pt": (
        transformers(
            "gemma3_text", 26, 1152, 6912, 4, 1, 262144, head_dim=256, sliding_window_pattern=6
        ),
        999885952,
    ),
    "google/gemma-3-4b-pt": (
        gemma_3(hidden_size=2560, intermediate_size=10240, num_hidden_layers=34),
        4300079472 - 416866032 - 1152 * 2561,
    ),
    "google/gemma-3-12b-pt": (
        gemma_3(
            hidden_size=3840,
            intermediate_size=15360,
            num_attention_heads=16,
            num_hidden_layers=48,
            num_key_value_heads=8,
        ),
        12187325040 - 416866032 - 1152 * 3841,
    ),
    "google/gemma-3-27b-pt": (
        gemma_3(
            head_dim=128,
            hidden_size=5376,
            intermediate_size=21504,
            num_attention_heads=32,
            num_hidden_layers=62,
            num_key_value_heads=16,
        ),
        27432406640 - 416866032 - 1152 * 5377,
    ),
    "openai/gpt-oss-20b": (gpt_oss(24, 32), 20914757184),
    "openai/gpt-oss-120b": (gpt_oss(36, 128), 116829156672),
    "microsoft/Phi-3-mini-4k-instruct": (
        transformers("phi3", 32, 3072, 8192, 32, 32, 32064, sliding_window=2047),
        3821079552,
    ),
    "microsoft/phi-4": (
        transformers("phi3", 40, 5120, 17920, 40, 10, 100352, sliding_window=None),
        14659507200,
    ),
    "microsoft/Phi-4-mini-instruct": (
        transformers(
            *("phi3", 32, 3072, 8192, 24, 8, 200064),
            tie_word_embeddings=True,
            partial_rotary_factor=0.75,
            lm_head_bias=False,
        ),
        3836021760,
    ),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": (
        transformers(
            *("qwen3_moe", 62, 6144, 8192, 96, 8, 151936),
            **QWEN_MOE | {"num_experts": 160, "use_qk_norm": True, "qkv_bias": False},
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=0,
        ),
        480154875392,
    ),
    "google/gemma-3-270m": (
        transformers(
            *("gemma3_text", 18, 640, 2048, 4, 1, 262144),
            head_dim=256,
            sliding_window=512,
            _sliding_window_pattern=6,
            layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3,
        ),
        268098176,
    ),
    "HuggingFaceTB/SmolLM2-135M": (
        transformers("llama", 30, 576, 1536, 9, 3, 49152, tie_word_embeddings=True),
        134515008,
    ),
    "mistralai/Mistral-Large-Instruct-2407": (
        transformers(
            *("mistral", 88, 12288, 28672, 96, 8, 32768), head_dim=128, sliding_window=None
        ),
        122610069504,
    ),
    "deepseek-ai/DeepSeek-V2": (
        transformers("deepseek_v2", 60, 5120, 12288, 128, 128, 102400, **DEEPSEEK_V2),
        235741434880,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": (
        transformers("deepseek_v2", 27, 2048, 10944, 16, 16, 102400, **DEEPSEEK_V2_LITE),
        15706484224,
    ),
    # less a layer that predicts a later token, with tables of its own
    "zai-org/GLM-4.7-Flash": (
        transformers("glm4_moe_lite", 47, 2048, 10240, 20, 20, 154880, head_dim=64, **GLM_FLASH),
        31221488576 - 1278094656,
    ),
    # less one scale for each 128 x 128 elements
    "MiniMaxAI/MiniMax-M2": (
        transformers("minimax_m2", 62, 3072, 1536, 48, 8, 200064, **MINIMAX),
        228703644928 - 62 * 223872,
    ),
    "moonshotai/Kimi-K2.5 (text)": (
        transformers(
            "kimi_k25", 61, 7168, 18432, 64, 64, 163840, **KIMI | PACKED, vision_config={}
        ),
        1026408232448,
    ),
    "Qwen/Qwen3-VL-235B-A22B (text)": (
        {
            "architectures": ["Qwen3VLMoeForConditionalGeneration"],
            "model_type": "qwen3_vl_moe",
            "text_config": transformers(
                *("qwen3_vl_moe_text", 94, 4096, 12288, 64, 4, 151936),
                **QWEN_MOE,
                moe_intermediate_size=1536,
            ),
        },
        235093634560,
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": (
        transformers(
            *("qwen2_moe", 24, 2048, 5632, 16, 16, 151936),
            **QWEN | {"decoder_sparse_step": 1, "num_experts": 60, "num_experts_per_tok": 4},
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
        ),
        14315784192,
    ),
    "rednote-hilab/dots.llm1.base": (
        transformers(
            *("dots1", 62, 4096, 10944, 32, 32, 152064),
            first_k_dense_replace=1,
            n_routed_experts=128,
            n_shared_experts=2,
            num_experts_per_tok=6,
            scoring_func="noaux_tc",
            topk_method="noaux_tc",
            moe_intermediate_size=1408,
        ),
        142774381696,
    ),
    "allenai/OLMoE-1B-7B": (
        transformers(
            *("olmoe", 16, 2048, 1024, 16, 16, 50304), num_experts=64, num_experts_per_tok=8
        ),
        6919161856,
    ),
    "allenai/OLMo-2-1124-7B": (
        transformers("olmo2", 32, 4096, 11008, 32, 32, 100352),
        7298617344,
    ),
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": (
        transformers("nemotron_h", 56, 4480, 15680, 40, 8, 131072, **NEMOTRON),
        8888227328,
    ),
    "ByteDance-Seed/Seed-OSS-36B": (
        transformers("seed_oss", 64, 5120, 27648, 80, 8, 155136, head_dim=128, attention_bias=True),
        36151104512,
    ),
    "HuggingFaceTB/SmolLM3-3B": (
        transformers("smollm3", 36, 2048, 11008, 16, 4, 128256, no_rope_layers=[1, 1, 1, 0] * 9),
        3075098624,
    ),
    "zai-org/GLM-4-9B-0414": (
        transformers("glm4", 40, 4096, 13696, 32, 2, 151552, head_dim=128, attention_bias=True),
        9400279040,
    ),
    "ibm-granite/granite-3.1-8b-base": (
        transformers(
            *("granite", 40, 4096, 12800, 32, 8, 49155),
            tie_word_embeddings=True,
            residual_multiplier=0.22,
        ),
        8170848256,
    ),
    # less the layer that predicts a later token, counted by hand, as are those below
    "XiaomiMiMo/MiMo-7B-Base": (
        transformers(
            *("mimo", 36, 4096, 11008, 32, 8, 151680),
            attention_bias=True,
            num_nextn_predict_layers=1,
        ),
        2 * 151680 * 4096
        + 4096
        + 36 * (4096 * 128 * (2 * 32 + 2 * 8) + 128 * 48 + 3 * 4096 * 11008 + 2 * 4096),
    ),
    "baidu/ERNIE-4.5-0.3B": (
        transformers(
            *("ernie4_5", 18, 1024, 3072, 16, 2, 103424),
            head_dim=128,
            use_bias=False,
            tie_word_embeddings=True,
        ),
        103424 * 1024 + 1024 + 18 * (1024 * 128 * (2 * 16 + 2 * 2) + 3 * 1024 * 3072 + 2 * 1024),
    ),
    "baidu/ERNIE-4.5-21B-A3B": (
        transformers("ernie4_5_moe", 28, 2560, 12288, 20, 4, 103424, **ERNIE),
        103424 * 2560
        + 2560
        + 28 * (2560 * 128 * (2 * 20 + 2 * 4) + 2 * 2560)
        + 3 * 2560 * 12288
        + 27 * (66 * 3 * 2560 * 1536 + 64 * 2560 + 64),
    ),
    "inclusionAI/Ling-mini-2.0": (
        transformers("bailing_moe_v2", 20, 2048, 5120, 16, 4, 157184, **LING),
        2 * 157184 * 2048
        + 2048
        + 20 * (2048 * 128 * (2 * 16 + 2 * 4) + 2 * 128 + 2 * 2048)
        + 3 * 2048 * 5120
        + 19 * (257 * 3 * 2048 * 512 + 256 * 2048 + 256),
    ),
    "inclusionAI/Ling-lite-1.5": (
        transformers("bailing_moe", 28, 2048, 5632, 16, 4, 126464, **LING_1),
        2 * 126464 * 2048
        + 2048
        + 28 * (2048 * 128 * (2 * 16 + 2 * 4) + 2 * 2048)
        + 28 * (66 * 3 * 2048 * 1408 + 64 * 2048),
    ),
    "mistralai/Ministral-8B-Instruct-2410": (
        transformers("mistral", 36, 4096, 12288, 32, 8, 131072, head_dim=128, sliding_window=32768),
        8019808256,
    ),
    "tencent/Hunyuan-A13B-Instruct": (
        transformers(
            "hunyuan_v1_moe", 32, 4096, 3072, 32, 8, 128167, tie_word_embeddings=True, **HUNYUAN
        ),
        80393183232,
    ),
    "deepseek-ai/deepseek-moe-16b-base": (
        transformers(
            *("deepseek", 28, 2048, 10944, 16, 16, 102400),
            first_k_dense_replace=1,
            n_routed_experts=64,
            n_shared_experts=2,
            num_experts_per_tok=6,
            moe_intermediate_size=1408,
            scoring_func="softmax",
        ),
        16375728128,
    ),
    "ibm-granite/granite-3.1-1b-a400m-base": (
        transformers(
            *("granitemoe", 24, 1024, 512, 16, 8, 49155),
            num_local_experts=32,
            num_experts_per_tok=8,
            tie_word_embeddings=True,
        ),
        1334628352,
    ),
    "ibm-granite/granite-4.0-h-tiny": (
        transformers("granitemoehybrid", 40, 1536, 512, 12, 4, 100352, **GRANITE_4),
        100352 * 1536
        + 1536
        + 40 * (64 * 3 * 1536 * 512 + 64 * 1536 + 3 * 1536 * 1024 + 2 * 1536)
        + 4 * 1536 * 128 * (2 * 12 + 2 * 4)
        + 36 * (1536 * (3 * 3072 + 2 * 128 + 48) + 5 * (3072 + 2 * 128) + 3 * 48 + 3072),
    ),
    "mistralai/Mistral-Small-4-119B-2603": (
        transformers("mistral4", 36, 4096, 12288, 32, 32, 131072, **MISTRAL_4),
        2 * 131072 * 4096
        + 4096
        + 36 * (4096 * 1024 + 1024 * 32 * 128 + 4096 * (256 + 64) + 256 * 32 * (64 + 128))
        + 36 * (32 * 128 * 4096 + 1024 + 256 + 2 * 4096)
        + 36 * (129 * 3 * 4096 * 2048 + 128 * 4096),
    ),
    "upstage/Solar-Open-100B": (
        transformers("solar_open", 48, 4096, 10240, 64, 8, 196608, **SOLAR),
        2 * 196608 * 4096
        + 4096
        + 48 * (4096 * 128 * (2 * 64 + 2 * 8) + 2 * 4096)
        + 48 * (129 * 3 * 4096 * 1280 + 128 * 4096 + 128),
    ),
    "LGAI-EXAONE/EXAONE-4.0-32B": (
        transformers(
            *("exaone4", 64, 5120, 27392, 40, 8, 102400),
            head_dim=128,
            sliding_window=4096,
            layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16,
        ),
        2 * 102400 * 5120
        + 5120
        + 64 * (5120 * 128 * (2 * 40 + 2 * 8) + 2 * 128 + 3 * 5120 * 27392 + 2 * 5120),
    ),
    "arcee-ai/AFM-4.5B": (
        transformers("arcee", 36, 2560, 18432, 20, 4, 128004, head_dim=128, hidden_act="relu2"),
        2 * 128004 * 2560
        + 2560
        + 36 * (2560 * 128 * (2 * 20 + 2 * 4) + 2 * 2560 * 18432 + 2 * 2560),
    ),
    "zai-org/glm-4-9b-chat-hf": (
        transformers("glm", 40, 4096, 13696, 32, 2, 151552, head_dim=128, attention_bias=True),
        9399951360,
    ),
    "Qwen/Qwen2-57B-A14B": (
        transformers(
            *("qwen2_moe", 28, 3584, 18944, 28, 4, 151936),
            **QWEN | {"num_experts": 64, "num_experts_per_tok": 8, "qkv_bias": True},
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=20480,
        ),
        2 * 151936 * 3584
        + 3584
        + 28 * (3584 * 128 * (2 * 28 + 2 * 4) + 128 * (28 + 2 * 4) + 2 * 3584)
        + 28 * (64 * 3 * 3584 * 2560 + 64 * 3584 + 3 * 3584 * 20480 + 3584),
    ),
    "OpenGVLab/InternVL3-8B (text)": (
        {
            "model_type": "internvl_chat",
            "architectures": ["InternVLChatModel"],
            "llm_config": transformers("qwen2", 28, 3584, 18944, 28, 4, 151674, **QWEN)
            | {"architectures": ["Qwen2ForCausalLM"]},
        },
        2 * 151674 * 3584
        + 3584
        + 28 * (3584 * 128 * (2 * 28 + 2 * 4) + 128 * (28 + 2 * 4) + 3 * 3584 * 18944 + 2 * 3584),
    ),
}
# layers with experts, experts, those that a token visits, parameters of one
VISITED = {
    "deepseek-ai/DeepSeek-V3 (the main model)": (58, 256, 8, 3 * 7168 * 2048),
    "moonshotai/Kimi-K2-Instruct": (60, 384, 8, 3 * 7168 * 2048),
    "moonshotai/Kimi-K2.5 (text)": (60, 384, 8, 3 * 7168 * 2048),
    "mistralai/Mixtral-8x7B-v0.1": (32, 8, 2, 3 * 4096 * 14336),
    "mistralai/Mixtral-8x22B-v0.1": (56, 8, 2, 3 * 6144 * 16384),
    "deepseek-ai/DeepSeek-V2": (59, 160, 6, 3 * 5120 * 1536),
    "deepseek-ai/DeepSeek-V2-Lite": (26, 64, 6, 3 * 2048 * 1408),
    "zai-org/GLM-4.7-Flash": (46, 64, 4, 3 * 2048 * 1536),
    "MiniMaxAI/MiniMax-M2": (62, 256, 8, 3 * 3072 * 1536),
    "Qwen/Qwen3-VL-235B-A22B (text)": (94, 128, 8, 3 * 4096 * 1536),
    "Qwen/Qwen1.5-MoE-A2.7B": (24, 60, 4, 3 * 2048 * 1408),
    "rednote-hilab/dots.llm1.base": (61, 128, 6, 3 * 4096 * 1408),
    "allenai/OLMoE-1B-7B": (16, 64, 8, 3 * 2048 * 1024),
    "Qwen/Qwen3-30B-A3B": (48, 128, 8, 3 * 2048 * 768),
    "Qwen/Qwen3-235B-A22B": (94, 128, 8, 3 * 4096 * 1536),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": (62, 160, 8, 3 * 6144 * 2560),
    "openai/gpt-oss-20b": (24, 32, 4, 3 * 2880 * 2881),
    "openai/gpt-oss-120b": (36, 128, 4, 3 * 2880 * 2881),
    "baidu/ERNIE-4.5-21B-A3B": (27, 64, 6, 3 * 2560 * 1536),
    "inclusionAI/Ling-mini-2.0": (19, 256, 8, 3 * 2048 * 512),
    "inclusionAI/Ling-lite-1.5": (28, 64, 6, 3 * 2048 * 1408),
    "tencent/Hunyuan-A13B-Instruct": (32, 64, 8, 3 * 4096 * 3072),
    "deepseek-ai/deepseek-moe-16b-base": (27, 64, 6, 3 * 2048 * 1408),
    "ibm-granite/granite-3.1-1b-a400m-base": (24, 32, 8, 3 * 1024 * 512),
    "ibm-granite/granite-4.0-h-tiny": (40, 64, 6, 3 * 1536 * 512),
    "mistralai/Mistral-Small-4-119B-2603": (36, 128, 4, 3 * 4096 * 2048),
    "upstage/Solar-Open-100B": (48, 128, 8, 3 * 4096 * 1280),
    "Qwen/Qwen2-57B-A14B": (28, 64, 8, 3 * 3584 * 2560),
}
# what the publishers say that a token visits; gpt-oss counts no input table
ACTIVE = {
    "deepseek-ai/DeepSeek-V3 (the main model)": 37.5e9,  # 37 billion, rounded down
    "moonshotai/Kimi-K2-Instruct": 32.5e9,
    "mistralai/Mixtral-8x7B-v0.1": 12.9e9,
    "mistralai/Mixtral-8x22B-v0.1": 39e9,
    "deepseek-ai/DeepSeek-V2": 21.4e9,
    "deepseek-ai/DeepSeek-V2-Lite": 2.66e9,
    "zai-org/GLM-4.7-Flash": 3.9e9,
    "MiniMaxAI/MiniMax-M2": 11e9,  # of both tables; 10 billion without
    "moonshotai/Kimi-K2.5 (text)": 32.5e9,
    "Qwen/Qwen3-VL-235B-A22B (text)": 22e9,
    "Qwen/Qwen1.5-MoE-A2.7B": 2.7e9,
    "rednote-hilab/dots.llm1.base": 14e9,
    "allenai/OLMoE-1B-7B": 1.3e9,
    "Qwen/Qwen3-30B-A3B": 3.3e9,
    "Qwen/Qwen3-235B-A22B": 22e9,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 35e9,
    "baidu/ERNIE-4.5-21B-A3B": 3.35e9,  # 3 billion, rounded down
    "inclusionAI/Ling-mini-2.0": 1.43e9,
    "inclusionAI/Ling-lite-1.5": 2.75e9,
    "tencent/Hunyuan-A13B-Instruct": 13e9,
    "deepseek-ai/deepseek-moe-16b-base": 2.8e9,
    "ibm-granite/granite-3.1-1b-a400m-base": 0.43e9,
    "ibm-granite/granite-4.0-h-tiny": 1.46e9,  # 1 billion, rounded down
    "upstage/Solar-Open-100B": 12e9,
    "Qwen/Qwen2-57B-A14B": 14.2e9,
    "openai/gpt-oss-20b": 3.61e9 + 201088 * 2880,
    "openai/gpt-oss-120b": 5.13e9 + 201088 * 2880,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_published_parameters(name):
    config, parameters = PUBLISHED[name]
    found = read_config(json.dumps(config))
    assert found.size.parameters == parameters
    layers, experts, visited, each = VISITED.get(name, (0, 0, 0, 0))
    assert found.size.active_parameters == parameters - layers * (experts - visited) * each
    if name in ACTIVE:
        assert found.size.active_parameters == pytest.approx(ACTIVE[name], rel=0.02)
    assert get_model(found.size.name) == found.size  # its name is all that a link has to carry


def test_a_config_of_a_preset_is_the_preset():
    for name, preset in (
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("google/gemma-3-27b-pt", "gemma-3-27b"),
        ("mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
    ):
        assert read_config(json.dumps(PUBLISHED[name][0])).size is PRESETS[preset]


def test_what_is_of_no_size_is_listed():
    config = PUBLISHED["google/gemma-3-4b-pt"][0] | {"torch_dtype": "bfloat16"}
    found = read_config(json.dumps(config))
    assert (found.architecture, found.ignored) == ("gemma3", ("torch_dtype", "vision_config"))
    assert found.size.windows == (1024,) * 5 + (None,) and found.size.layers == 34
    assert "quantization_config" in read_config(json.dumps(gpt_oss(24, 32))).ignored
    # transformers' Qwen2-MoE has a bias by `qkv_bias` alone
    qwen = PUBLISHED["Qwen/Qwen1.5-MoE-A2.7B"][0]
    found = read_config(json.dumps(qwen | {"attention_bias": False}))
    assert "attention_bias" in found.ignored and found.size.qkv_bias
    assert not read_config(json.dumps(qwen | {"qkv_bias": False})).size.qkv_bias


def test_windows_are_those_of_the_layers():
    above = QWEN | {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 3}
    qwen = read_config(json.dumps(transformers("qwen2", 4, 512, 512, 4, 4, 512, **above)))
    assert qwen.size.windows == (None, None, None, 512)
    assert get_model(qwen.size.name) == qwen.size
    types = ["full_attention", "sliding_attention"] * 2
    config = transformers("qwen3", 4, 512, 512, 4, 4, 512, layer_types=types, sliding_window=256)
    assert read_config(json.dumps(config)).size.windows == (None, 256)
    llama = transformers("llama", 4, 512, 512, 4, 4, 512, sliding_window=128)
    assert read_config(json.dumps(llama)).size.windows == (None,)


MAXTEXT = """# model config for {name}
base_num_decoder_layers: {layers}
base_emb_dim: {embed}
base_num_query_heads: {heads}
base_num_kv_heads: {keys}
base_mlp_dim: {mlp}
head_dim: {head_dim}   # of each
mlp_activations: ["{activation}","linear"]
vocab_size: {vocab}
normalization_layer_epsilon: 1.0e-5
decoder_block: "{block}"
"""


@pytest.mark.parametrize(
    ("preset", "block", "more"),
    [
        ("llama-3.1-8b", "llama2", "rope_max_timescale: 500_000"),
        ("qwen3-8b", "qwen3", "use_qk_norm: True"),
        ("mixtral-8x7b", "mixtral", "num_experts: 8\nnum_experts_per_tok: 2"),
        ("gemma-3-27b", "gemma3", "sliding_window_size: 1024\nlogits_via_embedding: True"),
        (
            "gemma-2-9b",
            "gemma2",
            "sliding_window_size: 4096\nlogits_via_embedding: True\n"
            "final_logits_soft_cap: 30.0\nattn_logits_soft_cap: 50.0",
        ),
        (
            "gpt-oss-20b",
            "gpt_oss",
            "attention_bias: True\nnum_experts: 32\nnum_experts_per_tok: 4\nsliding_window_size: 128",
        ),
    ],
)
def test_maxtext_s_yml_is_the_preset(preset, block, more):
    size = PRESETS[preset]
    text = MAXTEXT.format(
        name=preset,
        layers=size.layers // (2 if block == "gemma2" else 1),
        embed=size.embed,
        heads=size.heads,
        keys=size.kv_heads,
        mlp=size.mlp,
        head_dim=size.head_dim,
        activation={"clamped_silu": "sigmoid"}.get(size.activation, size.activation),
        vocab=f"{size.vocab:_}",
        block=block,
    )
    assert read_config(f"{text}\n{more}\n").size is size


DEEPSEEK_YML = """base_emb_dim: 7168
base_num_query_heads: 128
base_num_kv_heads: 128
base_mlp_dim: 18432
base_moe_mlp_dim: 2048
base_num_decoder_layers: 61
first_num_dense_layers: 3
mlp_activations: ["silu","linear"]
vocab_size: 129280
num_experts: 256
num_experts_per_tok: 8
shared_experts: 1
n_routing_groups: 8
topk_routing_group: 4
routed_scaling_factor: 2.5
routed_score_func: "sigmoid"
routed_bias: true
decoder_block: "deepseek"
attention_type: "mla"
q_lora_rank: 1536
kv_lora_rank: 512
qk_nope_head_dim: 128
qk_rope_head_dim: 64
v_head_dim: 128
"""


RULES = """mesh_axes: ['data', 'fsdp']
logical_axis_rules: [  # which go on in the next lines
    ['embed', ['fsdp']],
]
"""
LAYERS = "".join(
    {"M": "'mamba', ", "*": "'attention', ", "E": "'moe',\n  "}[each] for each in "MEM*E"
)
NEMOTRON_YML = f"""base_emb_dim: 2688
base_num_query_heads: 32
base_num_kv_heads: 2
base_num_decoder_layers: 5
vocab_size: 131072
decoder_block: "nemotron_h"
mamba_num_heads: 64
mamba_chunk_size: 128
num_experts: 128
num_experts_per_tok: 6
shared_experts: 1
base_moe_mlp_dim: 1856
base_moe_shared_expert_intermediate_size: 3712
layers_block_type: [
  {LAYERS}
]
"""


def test_lists_of_maxtext_s_yml_go_on_in_the_next_lines():
    assert read_config(DEEPSEEK_YML + RULES).size is PRESETS["deepseek-v3-671b"]
    given, preset = read_config(NEMOTRON_YML).size, PRESETS["nemotron-3-nano-30b-a3b"]
    assert given.mixers == ("mamba", "none", "mamba", "attention", "none")
    wanted = preset.varied(layers=5, mixers=given.mixers, mlps=given.mlps)
    assert given.parameters == wanted.parameters and given.routing == preset.routing


@pytest.mark.parametrize(
    ("block", "experts", "as_published"),
    [("qwen3_5", 512, "qwen3_5_moe"), ("qwen3_5", 1, "qwen3_5"), ("hy3", 192, "glm4_moe")],
)
def test_a_block_of_maxtext_s_is_read_with_experts_and_without(block, experts, as_published):
    text = "base_emb_dim: 4096\nbase_num_query_heads: 32\nbase_num_kv_heads: 2\nvocab_size: 512\n"
    more = f"num_experts_per_tok: 1\nbase_moe_mlp_dim: 1024\nnum_experts: {experts}\n"
    found = read_config(f"{text}{more}base_mlp_dim: 1024\ndecoder_block: {block}\n")
    assert found.architecture == as_published and found.size.experts == experts


def test_maxtext_s_yml_and_the_config_of_deepseek_are_the_preset():
    assert read_config("\ufeff" + DEEPSEEK_YML).size is PRESETS["deepseek-v3-671b"]
    later = read_config(DEEPSEEK_YML + "mtp_num_layers: 1\n").size
    assert later.mtp_layers == 1 and later.parameters == 671026419200
    # a layer with experts, the matrix that joins two streams, three norms
    layer = 187_107_328 + 11_320_164_352 + 256 + 2 * 7168
    assert later.stored_parameters - later.parameters == layer + 2 * 7168**2 + 3 * 7168


def test_flops_of_a_token_are_those_counted_by_hand():
    size, sequence = get_model("deepseek-v3-671b"), 4096
    attention = 7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    expert, router = 3 * 7168 * 2048, 7168 * 256
    matmuls = 61 * attention + 3 * 3 * 7168 * 18432 + 58 * (9 * expert + router) + 7168 * 129280
    pairs = 3 * 2 * 61 * 128 * (192 + 128) * sequence
    assert size.train_flops(1, sequence) == 6 * matmuls + pairs
    assert size.matmul_parameters == matmuls


SMALL = transformers("llama", 2, 256, 512, 2, 2, 512)
NO_EXPERTS = {"model_type": "nemotron_h", "hybrid_override_pattern": "ME"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "config is empty"),
        ("[1, 2]", "is not a JSON object"),
        ("{", "is not JSON"),
        ("[" * 5000, "is not JSON"),
        ('{"model_type": "llama"' + " " * MAX_CONFIG_BYTES + "}", "is too long"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        ("hello", "is neither JSON nor a line of MaxText's yml"),
        (json.dumps(SMALL | {"hidden_size": 10**400}), "hidden_size=.* is not a size"),
        (json.dumps(SMALL | {"hidden_size": [256]}), r"hidden_size=\[256\] is not a size"),
        (json.dumps(SMALL | {"hidden_act": ["silu"]}), "hidden_act=.* is not an activation"),
        (json.dumps({"text_config": SMALL | {"text_config": {"x": 1}}}), "without hidden_size"),
        (json.dumps(SMALL | {"text_config": {}}), "without hidden_size"),
        (
            json.dumps(SMALL | DEEPSEEK | {"model_type": "kimi_k2", "v_head_dim": 300}),
            "v_head_dim=300 does not fit the attention kernel's lanes of 128: use 256",
        ),
        (
            json.dumps(SMALL | DEEPSEEK | {"model_type": "kimi_k2", "routed_scaling_factor": "x"}),
            "routed_scaling_factor='x' is not a number above 0: use one, or null",
        ),
        (json.dumps(SMALL | {"model_type": "cohere2"}), "has attention and an mlp side by side"),
        (json.dumps(SMALL | {"model_type": "hunyuan_v1_moe", "use_cla": True}), "layers share"),
        (json.dumps(SMALL | {"hidden_size": 256.0}), "hidden_size=256.0 is not a size"),
        (json.dumps(SMALL | {"hidden_size": True}), "hidden_size=True is not a size"),
        (json.dumps(SMALL | {"hidden_size": "a\n<b>"}), "is not a size"),
        (json.dumps(SMALL | {"num_hidden_layers": 2000}), "use a whole number from 1 to 1,024"),
        (json.dumps(SMALL | {"num_hidden_layers": 10**9}), "num_hidden_layers=1000000000 is not"),
        (
            json.dumps(SMALL | {"num_key_value_heads": 3}),
            "num_key_value_heads=3 does not divide num_attention_heads=2: use 2",
        ),
        (json.dumps(SMALL | {"hidden_act": "mish"}), "hidden_act='mish' is not an activation"),
        (
            json.dumps(SMALL | {"model_type": "minicpm3", "kv_lora_rank": 512}),
            "model_type 'minicpm3' has latent attention of another architecture",
        ),
        (
            json.dumps(SMALL | {"model_type": "nobody_s", "kv_lora_rank": 512}),
            "model_type 'nobody_s' has latent attention of another architecture, which is not",
        ),
        (json.dumps(SMALL | {"model_type": "nobody_s", "mamba_d_state": 16}), "has Mamba layers"),
        (json.dumps(SMALL | {"model_type": "nobody_s", "num_experts": 8}), "is not an architec"),
        (json.dumps(SMALL | {"use_sliding_window": True}), "is a window that this architecture"),
        (
            json.dumps(SMALL | {"model_type": "kimi_k2", "moe_layer_freq": 2}),
            "moe_layer_freq=2 is not modeled: use 1",
        ),
        (
            json.dumps(SMALL | ERNIE | {"model_type": "ernie4_5_moe", "num_hidden_layers": 20}),
            "moe_layer_end_index=27 is not a size: use a whole number from -1 to 19",
        ),
        ("decoder_block: minimax", "decoder_block 'minimax' has linear attention"),
        ("decoder_block: deepseek", "config without base_emb_dim is incomplete: add"),
        (
            json.dumps(
                DEEPSEEK
                | SMALL
                | {"model_type": "kimi_k2", "first_k_dense_replace": 1, "n_group": 7}
            ),
            "n_group=7 does not divide n_routed_experts=256: use 8",
        ),
        (
            json.dumps(SMALL | DEEPSEEK | {"model_type": "kimi_k2", "scoring_func": "tanh"}),
            "scoring_func='tanh' is no way to choose experts that is read: use softmax or sigmoid",
        ),
        (
            json.dumps(
                SMALL | DEEPSEEK | {"model_type": "deepseek_v3", "first_k_dense_replace": 2}
            ),
            "first_k_dense_replace=2 leaves none of 2 layers with experts: use at most 1",
        ),
        (
            json.dumps(SMALL | {"model_type": "deepseek_v33"}),
            "model_type 'deepseek_v33' is not .*: use deepseek_v3",
        ),
        (json.dumps(SMALL | {"model_type": "falcon"}), "'falcon' is not an archi.*: use llama, or"),
        (
            json.dumps(SMALL | DEEPSEEK | {"model_type": "longcat_flash", "num_hidden_layers": 8}),
            "'longcat_flash' has latent attention .*: use deepseek_v3, or sizes of its own",
        ),
        (
            json.dumps(SMALL | {"model_type": "phimoe", "num_local_experts": 8}),
            "'phimoe' is not .*: use mixtral, or",
        ),
        (json.dumps({"model_type": "opt"}), "'opt' is not .*: use llama, or"),
        ("decoder_block: llama5", "'llama5' is not one that is read: use llama4"),
        (json.dumps(SMALL | {"model_type": ["llama"]}), "is not an architecture that is read"),
        (json.dumps(SMALL | {"quantization_config": {"quant_method": "gptq"}}), "is quantization"),
        (json.dumps(SMALL | {"quantization_config": {"quant_method": ["fp8"]}}), "leave it out: a"),
        (
            json.dumps(SMALL | {"model_type": "minimax_m2", "attn_type_list": [1, 0]}),
            "one of 1 for",
        ),
        (
            json.dumps(SMALL | {"model_type": "minimax_m2", "shared_intermediate_size": 64}),
            "shared_intermediate_size=64 is shared experts",
        ),
        (json.dumps(SMALL | DEEPSEEK | {"model_type": "kimi_k2", "mlp_layer_types": "x"}), "dense"),
        (
            json.dumps(
                SMALL | DEEPSEEK | {"model_type": "kimi_k2", "mlp_layer_types": ["sparse", "moe"]}
            ),
            "mlp_layer_types=.* does not name one of dense, sparse for each of",
        ),
        (
            json.dumps(SMALL | {"model_type": "olmo2", "num_attention_heads_per_layer": [2]}),
            "heads",
        ),
        (json.dumps(SMALL | {"model_type": "nemotron_h", "layers_block_type": ["x"]}), "one of M"),
        (
            json.dumps(SMALL | NEMOTRON | NO_EXPERTS),
            "config without n_routed_experts is incomplete",
        ),
        ("x" + " " * 200_000, "is neither JSON nor a line of MaxText's yml"),
        ("a: [1,\n" + "\n" * 100_000, "is"),
        ("base_emb_dim: [\n" * 10_000, "appears twice"),
        (json.dumps(SMALL) + "\0", "is not JSON: give the config.json beside the weights"),
        ("decoder_block: deepseek4", "decoder_block 'deepseek4' has attention to chosen keys"),
        ("decoder_block: gemma4_small", "has embeddings for each layer"),
        (json.dumps(SMALL | {"num_local_experts": 8}), "num_local_experts=8 is a mixture"),
        (json.dumps(SMALL | {"model_type": "mistral", "attention_bias": True}), "is biases that"),
        (json.dumps(SMALL | {"layer_types": ["linear_attention"] * 2}), "layer_types=.* does not"),
        (json.dumps(SMALL | {"architectures": ["LlamaModel"]}), "has no table of outputs"),
        (json.dumps(SMALL)[:-1] + ', "vocab_size": 3}', "key 'vocab_size' appears twice"),
        (json.dumps(SMALL)[:-1] + ', "eps": NaN}', "number NaN is not JSON"),
        ("decoder_block: llama2\nattention_type: mla", "is latent or chunked attention"),
        ("decoder_block: gpt3", "decoder_block 'gpt3' is not one that is read"),
        ("quantization: int8", "quantization='int8' is quantization, which is a field"),
        ("base_emb_dim: 64\nglobal_parameter_scale: 4", "global_parameter_scale=4 is not modeled"),
    ],
)
def test_what_cannot_be_a_model_is_refused_in_one_sentence(text, said):
    with pytest.raises(RequestError, match=said) as caught:
        read_config(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        ("kimi_linear", "a delta rule with a decay for each channel"),
        ("jamba", "Mamba layers of another architecture"),
        ("minimax_text_01", "linear attention of another architecture"),
        ("deepseek_v32", "attention to chosen keys"),
        ("glm_moe_dsa", "attention to chosen keys"),
    ],
)
def test_an_architecture_with_experts_is_refused_by_what_lacks_beside_them(kind, lacks):
    with pytest.raises(RequestError, match=f"model_type '{kind}' has {lacks}, which is not mod"):
        read_config(json.dumps(SMALL | {"model_type": kind, "num_experts": 8}))


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_config_without_its_hidden_size_is_refused(kind):
    with pytest.raises(RequestError, match="without hidden_size is incomplete: add 'hidden_size'"):
        read_config(json.dumps({"model_type": kind}))


@pytest.mark.parametrize(
    "name",
    [
        "llama(layers=2)",
        "llama(layers=2,embed=64,heads=1,kv_heads=1,head_dim=64,mlp=8,vocab=9,windows=0*999999999)",
        "llama(layers=x,embed=64,heads=1,kv_heads=1,head_dim=64,mlp=8,vocab=9)",
        "llama(layers=2,layers=2,embed=64,heads=1,kv_heads=1,head_dim=64,mlp=8,vocab=9)",
        "llama(layers=2,embed=64,heads=0,kv_heads=1,head_dim=64,mlp=8,vocab=9)",
        "llama(layers=2,embed=64,heads=1,kv_heads=0,head_dim=64,mlp=8,vocab=9)",
        "llama(layers=2,embed=64,heads=1,kv_heads=1,head_dim=64,mlp=8,vocab=9,activation=mish)",
        "llama(name=3)",
    ],
)
def test_a_name_that_no_config_gives_is_refused(name):
    with pytest.raises(RequestError):
        get_model(name)


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(RequestError, match="use qwen3-8b, the model's config, or scaled:16 with"):
        get_model("Qwen3-9B")


@pytest.mark.parametrize(
    ("more", "sees"),
    [
        ({}, 40960),
        ({"max_position_embeddings": 262144}, 262144),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, 81920),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, 81920),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 40960),
        ({"rope_scaling": {"rope_type": "yarn", "factor": "x"}}, 40960),
    ],
)  # fmt: skip
def test_a_config_says_how_many_tokens_its_model_sees(more, sees):
    values = transformers("qwen3", 64, 5120, 25600, 64, 8, 151936, head_dim=128, **QWEN)
    size = read_config(json.dumps(values | {"max_position_embeddings": 40960} | more)).size
    assert size.context == sees and (size.name == "qwen3-32b") == (sees == 40960)
    assert get_model(size.name).context == sees


def test_a_factor_beyond_all_floats_is_as_many_tokens_as_are_counted():
    values = transformers("qwen3", 64, 5120, 25600, 64, 8, 151936, head_dim=128, **QWEN)
    scaled = {"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 0.5}}
    text = json.dumps(values | scaled).replace('"factor": 0.5', '"factor": 1e999')
    assert read_config(text).size.context == MOST

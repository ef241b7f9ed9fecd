"""Published configs of models whose layers are of several kinds: parameters and FLOPs by hand."""

import json
from pathlib import Path

import pytest

from spmd_core.base import RequestError
from spmd_core.plan import PRESETS, get_model, read_config

CONFIGS = Path(__file__).parent / "configs"


def delta(embed, norms):
    """A gated delta rule of 16 keys and 32 values of 128: projections, taps, two vectors, a norm."""
    keys, values = 16 * 128, 32 * 128
    return embed * (2 * keys + 3 * values + 2 * 32) + 4 * (2 * keys + values) + 2 * 32 + norms


def gated_attention(embed):
    """16 queries and gates of 256, 2 keys and values, two norms."""
    return embed * 256 * (3 * 16 + 2 * 2) + 2 * 256


def moe(embed, experts, mlp, shared, matrices=3):
    return embed * (matrices * (experts * mlp + shared) + experts)


QWEN_MOE = 2048 + 2 * 2048  # the gate of the shared expert, and two norms
E = 2688
NEMOTRON = {
    "M": E * (2 * 4096 + 2 * 1024 + 64) + 5 * 6144 + 3 * 64 + 4096 + 4096 * E + E,
    "*": E * 128 * (2 * 32 + 2 * 2) + E,
    "E": moe(E, 128, 1856, 3712, 2) + 128 + E,
}
MIMO = {
    kv: 4096 * (64 * (192 + 128) + kv * (192 + 128)) + 2 * 4096 + 64 * (kv == 8) for kv in (4, 8)
}
BY_HAND = {
    "qwen3-next-80b-a3b": 2 * 151936 * 2048
    + 2048
    + 36 * delta(2048, 128)
    + 12 * gated_attention(2048)
    + 48 * (moe(2048, 512, 512, 512) + QWEN_MOE),
    "qwen3.5-35b-a3b": 2 * 248320 * 2048
    + 2048
    + 30 * delta(2048, 128)
    + 10 * gated_attention(2048)
    + 40 * (moe(2048, 256, 512, 512) + QWEN_MOE),
    "nemotron-3-nano-30b-a3b": 2 * 131072 * E
    + E
    + sum(NEMOTRON[each] for each in "MEMEM*E" * 5 + "MEMEMEM*E" + "MEMEMEME"),
    # keys and values of 8 heads of 256 in five layers; keys of 2 of 512 in the sixth
    "gemma-4-26b-a4b": 262144 * 2816
    + 2816
    + 25 * (2816 * 256 * (2 * 16 + 2 * 8) + 2 * 256)
    + 5 * (2816 * 512 * (2 * 16 + 2) + 2 * 512)
    + 30 * (moe(2816, 128, 704, 2112) + 8 * 2816 + 128),
    "gemma-4-31b": 262144 * 5376
    + 5376
    + 50 * (5376 * 256 * (2 * 32 + 2 * 16) + 2 * 256)
    + 10 * (5376 * 512 * (2 * 32 + 4) + 2 * 512)
    + 60 * (3 * 5376 * 21504 + 4 * 5376),
    "llama-4-scout-17b-16e": 2 * 202048 * 5120
    + 5120
    + 48 * (5120 * 128 * (2 * 40 + 2 * 8) + moe(5120, 16, 8192, 8192) + 2 * 5120),
    "mimo-v2-flash": 2 * 152576 * 4096
    + 4096
    + 9 * MIMO[4]
    + 39 * MIMO[8]
    + 3 * 4096 * 16384
    + 47 * (moe(4096, 256, 2048, 0) + 256),
    "olmo-3-32b": 2 * 100278 * 5120
    + 5120
    + 64 * (5120 * 128 * (2 * 40 + 2 * 8) + 48 * 128 + 3 * 5120 * 27648 + 2 * 5120),
}
FILES = {
    "qwen3-next-80b-a3b.yml": "qwen3-next-80b-a3b",
    "Qwen3.5-35B-A3B.json": "qwen3.5-35b-a3b",
    "gemma-4-26B-A4B.json": "gemma-4-26b-a4b",
    "gemma4-26b.yml": "gemma-4-26b-a4b",
    "gemma4-31b.yml": "gemma-4-31b",
    "llama4-17b-16e.yml": "llama-4-scout-17b-16e",
    "Llama-4-Scout-17B-16E-Instruct.json": "llama-4-scout-17b-16e",
    "MiMo-V2-Flash.json": "mimo-v2-flash",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json": "nemotron-3-nano-30b-a3b",
    "olmo3-32b.yml": "olmo-3-32b",
}


@pytest.mark.parametrize("file", FILES)
def test_a_published_config_is_the_preset_with_parameters_counted_by_hand(file):
    size = read_config((CONFIGS / file).read_text()).size
    assert size is PRESETS[FILES[file]]
    assert size.parameters == BY_HAND[FILES[file]]
    changed = size.varied(vocab=512)
    assert get_model(size.name) == size and changed.parameters < size.parameters


def test_what_a_token_visits_is_what_the_publishers_say():
    for name, billions in (
        ("qwen3.5-35b-a3b", 3.45),
        ("gemma-4-26b-a4b", 3.8),
        ("llama-4-scout-17b-16e", 17.2),
        ("mimo-v2-flash", 15.4),
        ("nemotron-3-nano-30b-a3b", 3.58),
    ):
        assert PRESETS[name].active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_flops_of_a_token_are_those_counted_by_hand():
    """As MaxText counts a gated delta rule, 8 for each element of the state and pass."""
    size, sequence = PRESETS["qwen3-next-80b-a3b"], 4096
    projected = 36 * (delta(2048, 128) - 2 * 32 - 128) + 12 * (gated_attention(2048) - 512)
    visited = 48 * (moe(2048, 10, 512, 512) + 502 * 2048 + 2048) + 2048 * 151936
    pairs = 12 * 12 * 16 * 256 * sequence
    state = 3 * 8 * 36 * 32 * 128 * 128
    assert size.train_flops(1, sequence) == 6 * (projected + visited) + pairs + state
    halved = 12 * 12 * 16 * 256 * (sequence + 1) // 2
    assert size.causal_flops(sequence, sequence) == sequence * (
        6 * (projected + visited) + halved + state
    )


def test_mamba_layers_are_counted_as_megatron_counts_them():
    size = PRESETS["nemotron-3-nano-30b-a3b"]
    state = 3 * 7 * 23 * 4096 * 128
    pairs = 12 * 6 * 32 * 128 * 4096
    assert size.train_flops(1, 4096) == 6 * size.matmul_parameters + pairs + state


def test_chunks_keep_fewer_pairs_than_windows():
    scout = PRESETS["llama-4-scout-17b-16e"]
    within, beyond = (scout.causal_flops(length, length) / length for length in (8192, 16384))
    pairs = 6 * 40 * 256
    assert beyond - within == pairs * 12 * (16385 - 8193) // 2  # of the layers without chunks


CHANGES = [
    ("Qwen3.5-35B-A3B.json", {"attn_output_gate": False}, "attn_output_gate=False is attention"),
    ("Qwen3.5-35B-A3B.json", {"layer_types": ["mamba"] * 40}, "layer_types=.* does not name one"),
    (
        "Qwen3.5-35B-A3B.json",
        {"linear_num_key_heads": 5},
        "linear_num_key_heads=5 does not divide linear_num",
    ),
    ("Qwen3.5-35B-A3B.json", {"linear_num_value_heads": 0}, "linear_num_value_heads=0 is not a"),
    ("Qwen3.5-35B-A3B.json", {"mlp_only_layers": [1]}, "mlp_only_layers=.* is layers without"),
    ("gemma-4-26B-A4B.json", {"hidden_size_per_layer_input": 256}, "is embeddings for each layer"),
    ("gemma-4-26B-A4B.json", {"num_kv_shared_layers": 20}, "is keys that layers share"),
    ("gemma-4-26B-A4B.json", {"use_double_wide_mlp": True}, "is a wider mlp in layers"),
    ("gemma-4-26B-A4B.json", {"use_bidirectional_attention": "all"}, "attention to later tokens"),
    ("MiMo-V2-Flash.json", {"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern=.* does not"),
    ("MiMo-V2-Flash.json", {"swa_num_attention_heads": 32}, "swa_num_attention_heads=32 is not"),
    ("MiMo-V2-Flash.json", {"moe_layer_freq": [1, 2] * 24}, "moe_layer_freq=.* does not name one"),
    ("Llama-4-Scout-17B-16E-Instruct.json", {"interleave_moe_layer_step": 49}, "from 1 to 48"),
    (
        "Llama-4-Scout-17B-16E-Instruct.json",
        {"moe_layers": [48]},
        "is not a list of layers from 0 to",
    ),
    ("Llama-4-Scout-17B-16E-Instruct.json", {"no_rope_layers": [1] * 47}, "no_rope_layers=.* does"),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
        {"hybrid_override_pattern": "MX"},
        "hybrid_override_pattern='MX' does not name one of M",
    ),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
        {"use_conv_bias": False},
        "use_conv_bias=False is a convolution without a bias",
    ),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
        {"moe_latent_size": 512},
        "moe_latent_size=512 is experts of a narrower stream",
    ),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
        {"mlp_hidden_act": "mish"},
        "mlp_hidden_act='mish' is not an activation",
    ),
]


@pytest.mark.parametrize(("file", "change", "said"), CHANGES)
def test_a_field_that_makes_another_model_is_refused_by_name(file, change, said):
    config = json.loads((CONFIGS / file).read_text())
    inner = config.get("text_config", config)
    inner.update(change)
    with pytest.raises(RequestError, match=said) as caught:
        read_config(json.dumps(config))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_glm_has_biases_of_its_projections_and_dense_layers_first():
    config = {
        "model_type": "glm4_moe",
        "hidden_size": 5120,
        "num_hidden_layers": 92,
        "intermediate_size": 12288,
        "head_dim": 128,
        "first_k_dense_replace": 3,
        "n_routed_experts": 160,
        "moe_intermediate_size": 1536,
        "attention_bias": True,
        "use_qk_norm": True,
        "routed_scaling_factor": 2.5,
        "num_nextn_predict_layers": 1,
    }
    size = read_config(json.dumps(config)).size
    attention = 5120 * 128 * (2 * 96 + 2 * 8) + 128 * (96 + 2 * 8) + 2 * 128
    layers = 92 * (attention + 2 * 5120) + 3 * 3 * 5120 * 12288
    layers += 89 * (moe(5120, 160, 1536, 1536) + 160)
    assert size.parameters == 2 * 151552 * 5120 + 5120 + layers
    assert size.dense_layers == 3 and size.routing == "sigmoid" and size.score_bias


def test_experts_in_every_other_layer_leave_dense_ones():
    config = json.loads((CONFIGS / "Llama-4-Scout-17B-16E-Instruct.json").read_text())
    config["text_config"] |= {"interleave_moe_layer_step": 2, "num_local_experts": 128}
    size = read_config(json.dumps(config)).size
    assert [kind.mlp for kind in size.kinds[:4]] == ["dense", "mlp"] * 2
    attention = 5120 * 128 * (2 * 40 + 2 * 8) + 2 * 5120
    experts = moe(5120, 128, 8192, 8192)
    dense = 3 * 5120 * 16384
    assert size.parameters == 2 * 202048 * 5120 + 5120 + 48 * attention + 24 * (experts + dense)

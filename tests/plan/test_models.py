"""Presets: parameter counts as published, FLOPs as MaxText counts them, the doubling rule."""

import pytest

from spmd_core.base import RequestError
from spmd_core.plan.models import PRESETS, get_model, scaled


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-2-7b", 6.74),
        ("llama-2-13b", 13.02),
        ("llama-2-70b", 68.98),
        ("llama-3.1-8b", 8.03),
        ("llama-3.1-70b", 70.55),
        ("llama-3.1-405b", 405.85),
        ("gemma-2-9b", 9.24),
        ("gemma-2-27b", 27.23),
        ("gpt-3-175b", 174.6),
        ("mixtral-8x7b", 46.70),
    ],
)
def test_a_preset_has_the_published_number_of_parameters(name, billions):
    assert get_model(name).parameters / 1e9 == pytest.approx(billions, rel=2e-3)
    assert name in PRESETS


@pytest.mark.parametrize(
    ("scale", "sizes"),
    [
        (1, (16, 2048, 16, 7168)),
        (2, (16, 2048, 32, 14336)),
        (4, (16, 4096, 32, 14336)),
        (8, (32, 4096, 32, 14336)),
        (16, (32, 4096, 64, 28672)),
        (32, (32, 8192, 64, 28672)),
        (1024, (128, 16384, 256, 114688)),
    ],
)
def test_scaled_decoders_double_heads_and_mlp_then_width_then_layers(scale, sizes):
    model = scaled(scale)
    assert (model.layers, model.embed, model.heads, model.mlp) == sizes
    assert model.vocab == 32000


@pytest.mark.parametrize("name", ["scaled:3", "scaled:0", "llama-9", "scaled:x"])
def test_other_names_are_refused(name):
    with pytest.raises(RequestError):
        get_model(name)


def test_flops_agree_with_the_published_tokens_and_utilization():
    """Llama-3.1 8B on v6e: 7,207 tokens/s/chip at 45.46% of 918 TFLOP/s, sequence 8192."""
    per_token = get_model("llama-3.1-8b").train_flops(1, 8192)
    assert 7207 * per_token / 918e12 == pytest.approx(0.4546, rel=2e-3)


def test_sizes_can_be_varied_by_name_only():
    assert scaled(1).varied(layers=3).layers == 3
    with pytest.raises(RequestError, match="is not one of a decoder's"):
        scaled(1).varied(colour=3)


def test_the_decoder_of_2023_is_ungated_with_heads_of_256_and_one_table():
    model = get_model("scaled-2023:16")
    assert (model.layers, model.embed, model.heads, model.head_dim, model.mlp) == (
        32,
        5120,
        32,
        256,
        32768,
    )
    assert (model.gated, model.activation, model.tied, model.vocab) == (False, "relu", True, 32768)
    with pytest.raises(
        RequestError,
        match="scaled-2023:3 is not a power of two: use scaled-2023:2 or scaled-2023:4",
    ):
        get_model("scaled-2023:3")


def test_keys_follow_the_heads_where_each_head_has_its_own():
    assert scaled(1).varied(heads=8).kv_heads == 8
    assert get_model("llama-3.1-8b").varied(heads=16).kv_heads == 8
    assert scaled(1).varied(gated=False).parameters == scaled(1).parameters - 16 * 2048 * 7168


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "attention to chosen keys"),
        ("MiniCPM3-4B", "latent attention of another architecture"),
        ("Kimi-Linear-48B-A3B", "a delta rule with a decay for each channel"),
        ("falcon-h1-34b", "Mamba layers of another architecture"),
        ("MiniMax-M1", "linear attention of another architecture"),
        ("gemma-3n-e4b", "embeddings for each layer"),
        ("t5-11b", "an encoder beside the decoder"),
    ],
)
def test_a_model_that_the_decoder_is_not_is_refused_by_what_it_lacks(name, lacks):
    with pytest.raises(RequestError) as refused:
        get_model(name)
    said = str(refused.value)
    assert f"has {lacks}, which this decoder does not: use a preset such as llama" in said
    assert len(said.split()) <= 25
    assert not any(f"use {preset}" in str(refused.value) for preset in PRESETS)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("llama-3-8b", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-405", "llama-3.1-405b"),
        ("qwen3-7b", "qwen3-8b"),
        ("deepseek-v3", "deepseek-v3-671b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3-671b"),
        ("Kimi-K2", "kimi-k2-1t"),
        ("mixtral", "mixtral-8x7b"),
        ("gpt-oss", "gpt-oss-20b"),
    ],
)
def test_another_spelling_is_answered_by_the_name(name, near):
    with pytest.raises(RequestError, match=f"does not exist: use {near}, the model's config"):
        get_model(name)


@pytest.mark.parametrize("name", ["zephyr", "phi-4", "olmoe", "", "grok", "x" * 4096])
def test_a_name_like_none_is_answered_in_one_sentence(name):
    with pytest.raises(
        RequestError, match="does not exist: use a preset such as llama-3"
    ) as refused:
        get_model(name)
    assert len(str(refused.value).split()) <= 25 and len(str(refused.value)) < 400

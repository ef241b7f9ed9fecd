"""Prefill apart from decode: what passes, who waits, and which split makes most."""

import json
import math
import re

import pytest

from spmd_core.__main__ import main
from spmd_core.answers import SPLITS, apart_headline
from spmd_core.search import read_serving, serve, splits
from spmd_core.time import passed_bytes

FORM = {
    "model": "qwen3-32b",
    "chips": "v6e:..32",
    "concurrency": "128",
    "input": "4096",
    "output": "512",
}


def test_both_sides_keep_up_and_one_of_them_never_waits():
    found = splits(read_serving(FORM))
    assert found[0].tokens_per_s_per_chip == max(each.tokens_per_s_per_chip for each in found)
    for each in found:
        assert min(each.prefill_idle, each.decode_idle) == pytest.approx(0, abs=1e-9)
        assert each.prefill.topology.chips + each.decode.topology.chips <= 32
        chips = each.prefill.topology.chips + each.decode.topology.chips
        assert each.tokens_per_s_per_chip == pytest.approx(each.requests_per_s * 512 / chips)
        assert each.ttft_s > each.passed_s > 0


def test_the_cache_that_passes_is_that_of_the_prompt_once():
    for each in splits(read_serving(FORM)):
        assert each.passed_bytes == 64 * 2 * 8 * 128 * 2 * 4096
        assert passed_bytes(each.decode, 4096) == each.passed_bytes


def test_a_latent_cache_passes_once_however_wide_tensor_is():
    form = FORM | {"model": "deepseek-v3-671b", "chips": "tpu7x:..64", "weights_dtype": "fp8"}
    assert {each.passed_bytes for each in splits(read_serving(form))} == {61 * 576 * 2 * 4096}


def test_both_sides_have_one_dtype_of_cache():
    found = splits(read_serving(FORM | {"chips": "v6e:..16", "kv_dtype": "bf16,fp8"}))
    assert all(each.prefill.kv_dtype == each.decode.kv_dtype for each in found)
    assert {each.decode.kv_dtype for each in found} == {"bf16", "fp8"}


def test_more_prompts_move_chips_to_their_side():
    def share(length):
        first = splits(
            read_serving(FORM | {"model": "qwen3-8b", "input": length, "output": "1024"})
        )[0]
        here, there = first.prefill.topology.chips, first.decode.topology.chips
        return here / (here + there)

    assert share("16384") > share("256")


def test_limits_come_before_throughput():
    found = splits(read_serving(FORM | {"tpot": "25ms"}))
    assert found and all(each.tpot_s <= 0.025 for each in found)


def test_the_command_prints_it(capsys):
    words = [f"--{name}={value}" for name, value in FORM.items()]
    assert main(["serve", *words, "--apart", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["apart"]
    assert found[0]["passed_bytes"] == 2**30 and found[0]["prefill"]["mesh"]
    assert main(["serve", *words, "--apart"]) == 0
    assert "Cache passed" in capsys.readouterr().out
    for chips in ("v6e:1", "v6e:8"):  # of one number of chips there are no two parts
        assert main(["serve", "--model=qwen3-32b", f"--chips={chips}", "--apart"]) == 1
        assert "No two sizes" in (said := capsys.readouterr().out) and "name a range" in said


def test_prompts_are_on_a_mesh_within_their_limit_where_one_is():
    slow = min(each.ttft_s for each in splits(read_serving(FORM)))
    form = FORM | {"ttft": f"{0.8 * slow * 1e3:.3f}ms"}
    assert min(each.ttft_s for each in splits(read_serving(form))) < slow


def test_the_best_split_stands_beside_the_best_mesh():
    question = read_serving(FORM)
    answer, found = serve(question), splits(question)
    more = found[0].tokens_per_s_per_chip / answer.best.per_chip - 1
    said = apart_headline(answer, found)
    assert abs(more) >= 0.1 and f"Apart {abs(more):.0%} {'more' if more > 0 else 'fewer'}" in said
    tight = read_serving(FORM | {"tpot": "1us"})
    nearest = splits(tight)
    assert nearest and not any(each.keeps for each in nearest)
    assert "No split keeps 1 µs each: nearest has" in apart_headline(serve(tight), nearest)


def test_a_mesh_of_several_copies_on_a_side_is_called_so():
    found = splits(read_serving(FORM | {"chips": "v6e:..16"}))
    rows = SPLITS.table(found, "screen")
    for each, first, second in zip(
        found, rows.column("Mesh"), rows.column("Its mesh"), strict=True
    ):
        for plan, cell in ((each.prefill, first), (each.decode, second)):
            times, _, mesh = cell.text.rpartition(" × ")
            sizes = [int(size) for size in re.findall(r"=(\d+)", mesh)]
            assert int(times or 1) * math.prod(sizes) == plan.topology.devices
    assert any(each.decode.replicas > 1 or each.prefill.replicas > 1 for each in found)

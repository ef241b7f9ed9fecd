"""`python -m spmd_core serve`."""

import json

import pytest

from spmd_core.__main__ import main

ASKED = ["serve", "--model", "qwen3-8b", "--chips", "v6e:4", "--concurrency", "32"]


def test_the_answer_as_json_and_as_text(capsys):
    assert main([*ASKED, "--tpot", "40ms", "--price", "2.7", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"]["tpot_s"] == 0.04 and found["question"]["price"] == {"v6e": 2.7}
    assert main([*ASKED, "--tpot", "0.04", "--price", "v6e=2.7"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == found["answer"]
    assert f"{found['best']['kv_pool_tokens']:,}" in said and "Why not another" in said


def test_a_mesh_is_kept_and_dtypes_are_tried(capsys):
    words = [
        *ASKED,
        "--mesh",
        "data=2,tensor=2",
        "--weights-dtype",
        "bf16,fp8",
        "--kv-dtype",
        "fp8",
    ]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["weights_dtype"] for row in rows} == {"bf16", "fp8"}
    assert all(row["mesh"] == {"data": 2, "tensor": 2} for row in rows)


def test_limits_that_nothing_keeps_exit_with_1(capsys):
    assert main([*ASKED, "--tpot", "1us"]) == 1
    assert capsys.readouterr().out.startswith("Nothing keeps 1 µs each: nearest is")


def test_a_limit_that_the_best_may_keep_exits_with_0(capsys):
    assert main([*ASKED, "--mesh", "tensor=4", "--json"]) == 0
    only = json.loads(capsys.readouterr().out)["best"]
    limit = f"{(only['tpot_s'] + only['tpot_low_s']) / 2 * 1e3:.3f}ms"
    assert main([*ASKED, "--mesh", "tensor=4", "--tpot", limit, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["fate"] == "about even" and found["nearest"] is None
    assert found["answer"].startswith("About even: ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--input", "0"], "length '0' is no number of tokens above 0"),
        (["--input", "2048..512"], "length '2048..512' is no number of tokens above 0"),
        (["--output", "90000"], "91,024 tokens of a request are more than the 40,960"),
        (["--tpot", "-1"], "duration '-1' is not above 0"),
        (["--tpot", "nan"], "duration 'nan' is not above 0"),
        (["--weights-dtype", "fp4"], "dtype 'fp4' is not one of weights and cache"),
        (["--mesh", "tensor=3"], "mesh tensor=3 does not divide the 4 devices"),
        (["--concurrency", "0"], "concurrency='0' is out of range"),
        (["--concurrency", "1.5"], "concurrency='1.5' is no whole number: use 1"),
        (["--concurrency", "70000"], "is out of range: use 1 to 65,536"),
        (["--seed", "-1"], "seed='-1' is out of range: use 0 to"),
        (["--compile", "-1"], "--compile -1 is no number of rows: use 1 or more"),
        (["--rate", "0"], "rate='0' is out of range"),
        (["--chips", "v6e:3"], "is no number of chips"),
        (["--price", "h100=2"], "price h100=2 is of chips that are not asked for"),
    ],
)
def test_bad_requests_are_one_sentence(words, sentence, capsys):
    assert main([*ASKED, *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out

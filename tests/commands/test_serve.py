"""`python -m spmd_core serve`."""

import json

import pytest

from spmd_core.__main__ import main
from spmd_core.base import RequestError
from spmd_core.search import read_serving

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
    assert capsys.readouterr().out.startswith("Nothing keeps 1 µs each: nearest")


def test_a_limit_that_the_best_may_keep_exits_with_0(capsys):
    assert main([*ASKED, "--mesh", "tensor=4", "--json"]) == 0
    only = json.loads(capsys.readouterr().out)["best"]
    limit = f"{(only['tpot_s'] + only['tpot_low_s']) / 2 * 1e3:.3f}ms"
    assert main([*ASKED, "--mesh", "tensor=4", "--tpot", limit, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["fate"] == "about even" and found["nearest"] is None
    assert " may keep " in found["answer"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--input", "0"], "input='0' is no number of tokens above 0"),
        (
            ["--input", "2048..512"],
            "input='2048..512' is no number of tokens above 0, and no range of them upward",
        ),
        (["--output", "90000"], "91,024 tokens of a request are more than the 40,960"),
        (["--tpot", "-1"], "tpot='-1' is not a time from 1us to 100000s"),
        (["--tpot", "nan"], "tpot='nan' is not a time from 1us to 100000s"),
        (["--weights-dtype", "fp4"], "dtype 'fp4' is not one of weights and cache"),
        (["--mesh", "tensor=3"], "mesh tensor=3 does not divide the 4 devices"),
        (["--chips", "v6e:4," * 200], "is too long: use at most 1,000 characters"),
        (["--concurrency", "0"], "concurrency='0' is out of range"),
        (["--concurrency", "1.5"], "concurrency='1.5' is no whole number: use 1"),
        (["--concurrency", "70000"], "is out of range: use 1 to 65,536"),
        (["--seed", "-1"], "seed='-1' is out of range: use 0 to"),
        (["--compile", "-1"], "--compile -1 is no number of rows: use 1 or more"),
        (["--rate", "0"], "rate='0' is out of range"),
        (["--chips", "v6e:3"], "is no number of chips"),
        (["--chips", "v6e:1e9"], "chips 'v6e:1e9' is not a number of chips"),
        (["--chips", ",,"], "serve without chips is incomplete"),
        (["--price", "h100=2"], "price h100=2 is of chips that are not asked for"),
    ],
)
def test_bad_requests_are_one_sentence(words, sentence, capsys):
    assert main([*ASKED, *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out


def test_a_program_that_no_plan_has_is_refused_before_any_answer(capsys):
    words = ["serve", "--model", "gpt-oss-20b", "--chips", "v6e:8", "--weights-dtype", "mxfp4"]
    assert main([*words, "--compile", "1"]) == 2
    said = capsys.readouterr()
    assert "weights_dtype='mxfp4' is not a choice" in said.err and not said.out


def test_a_sweep_has_the_best_row_of_each_value(capsys):
    assert main([*ASKED, "--sweep", "chips=v6e:4;v6e:8;v6e:3", "--price", "2.7", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["value"] for each in found["points"]] == ["v6e:4", "v6e:8", "v6e:3"]
    assert found["points"][1]["best"]["target"] == "tpu:v6e:2x4"
    assert "is no number of chips" in found["points"][2]["refusal"]
    assert main([*ASKED, "--chips", "v6e:8", "--price", "2.7", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert found["points"][1]["best"] == alone["best"]


def test_a_sweep_with_a_value_that_is_refused_names_the_others(capsys):
    main([*ASKED, "--sweep", "concurrency=0,1"])
    said = capsys.readouterr().out
    assert said.startswith("Best: ") and " at 1." in said.splitlines()[0]
    assert "concurrency='0' is out of range" in said


@pytest.mark.parametrize("text", ["colour=1", "concurrency", "concurrency=", "seed=1"])
def test_a_sweep_of_nothing_is_one_sentence(text, capsys):
    assert main([*ASKED, "--sweep", text]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "write for example concurrency=1,4,16" in said.err


def test_a_kept_answer_is_reported_compared_and_archived(capsys, data_folder, tmp_path):
    ids = []
    for limit in ("40ms", "15ms"):
        main([*ASKED, "--tpot", limit, "--keep"])
        ids.append(capsys.readouterr().out.splitlines()[-1].split()[2].rstrip(","))
    assert main(["report", ids[0]]) == 0
    said = capsys.readouterr().out
    assert "Best sharding by load" in said and "/predict?show=serving&model=qwen3-8b" in said
    assert main(["compare", *ids]) == 0
    assert "tpot" in capsys.readouterr().out
    assert main(["export", ids[0], "--out", str(tmp_path / "a.spmdlab")]) == 0


def test_the_form_of_a_question_is_the_question():
    form = {
        "model": "qwen3-8b",
        "chips": "v6e:4,h100:8",
        "input": "512..2048",
        "rate": "2.5",
        "tpot": "40ms",
        "weights_dtype": "bf16,fp8",
        "price": "v6e=2.7,h100=3",
        "mesh": "data=2,tensor=2",
        "accepted": "1.5",
        "seed": "7",
    }
    question = read_serving(form)
    assert read_serving(question.form) == question and question.form.items() >= form.items() - {
        ("price", form["price"])
    }


@pytest.mark.parametrize("limit", ["1us", "1.23456789012us", "0.5s", "99999.9s", "100000s"])
def test_a_limit_is_read_again_from_its_form(limit):
    form = read_serving({"model": "qwen3-8b", "chips": "v6e:4", "ttft": limit}).form
    assert read_serving(form).form == form


@pytest.mark.parametrize("limit", ["0.00001us", "10000000s", "0", "1.2.3s"])
def test_a_limit_that_no_link_could_keep_is_refused(limit):
    with pytest.raises(RequestError, match="is not a time from 1us to 100000s: write"):
        read_serving({"model": "qwen3-8b", "chips": "v6e:4", "tpot": limit})

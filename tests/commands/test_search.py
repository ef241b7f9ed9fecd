"""`python -m spmd_core search`."""

import json
import sys
from unittest import mock

import pytest

from spmd_core.__main__ import main
from spmd_core.commands import search
from tests.commands.calls import told

ASKED = [
    "search",
    "--model",
    "scaled:1",
    "--chips",
    "v5e:2x4",
    "--global-batch",
    "16",
    "--remat",
    "full",
    "--no-offload",
    "--microbatches",
    "1",
    "--no-compile",
]


def test_the_best_of_a_model_as_json_and_as_text(capsys):
    assert main([*ASKED, "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ranking"]) == 3 and found["complete"] is True
    assert found["winner"]["plan"]["model"] == "scaled:1"
    assert main([*ASKED, "--why-not", "tensor=8", "--axis-rules"]) == 0
    said = capsys.readouterr().out
    assert found["winner"]["name"] in said.splitlines()[0]
    assert "tensor=8" in said and "logical_axis_rules" in said


def test_a_search_that_pauses_says_so_and_does_not_exit_with_0(data_folder, monkeypatch, capsys):
    monkeypatch.setenv("SPMD_LAB_DASK", "tcp://127.0.0.1:9")
    compiled = [word for word in ASKED if word != "--no-compile"]
    assert main([*compiled, "--json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["winner"] and found["state"] == "paused"
    assert said.err == f"paused: {found['problem']}\n"
    assert "'tcp://127.0.0.1:9' does not answer" in found["problem"]
    assert main(compiled) == 1
    # asked again, it may fail by another of its reasons: by time, or by an address where nothing is
    paused = f"The search paused. {found['problem'].split(' (nothing')[0].split(' within')[0]}"
    assert capsys.readouterr().out.splitlines()[1].startswith(paused)


def test_a_search_is_stored_in_the_data_folder_of_its_command(tmp_path, data_folder, monkeypatch):
    """Also where the same process searched in another folder before."""
    for folder in (tmp_path / "one", tmp_path / "two"):
        monkeypatch.setenv("SPMD_LAB_DATA", str(folder))
        asked = told(*ASKED)
        search = asked.stdout.splitlines()[-1].split()[1].rstrip(":")
        assert told("report", search, "--format", "md").returncode == 0


def test_a_row_says_whether_it_fits_and_what_it_costs(capsys):
    assert main([*ASKED, "--chips", "v5e:4", "--price", "1.2", "--json", "--top", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    best, row = found["best_by_target"], found["ranking"][0]
    assert row["fits"] == "yes" and row["fate"] == "estimated"
    held = row["memory_interval"]
    assert held["low"] < held["estimate"] == row["memory_bytes"] < held["high"]
    assert row["price_per_billion_tokens"] == pytest.approx(
        1e9 * 1.2 / 3600 / row["tokens_per_s_per_chip"]
    )
    assert 0 < row["mfu"] < 1
    assert len(best) > 1 and best[found["winner"]["target"]]["name"] == found["winner"]["name"]
    assert all(each["fits"] == "yes" and each["target"] == target for target, each in best.items())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "search without --model"),
        (["--budget", "0", *ASKED[1:]], "leaves no time"),
        ([*ASKED[1:], "--price", "v5e"], "is not a number per generation"),
        ([*ASKED[1:], "--why-not", "warp=3"], "names no candidate"),
    ],
)
def test_a_refusal_is_one_line(words, sentence, capsys):
    assert main(["search", *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err and told.out == "" and told.err.count("\n") == 1


@pytest.mark.parametrize("is_watched", [True, False])
def test_the_candidates_are_ranked_while_they_are_found_for_a_terminal_alone(
    is_watched, monkeypatch, capsys
):
    looks = []

    def carried_out(work, name, on_change, every_s):
        work.run()
        on_change(work)
        return work

    glance = property(lambda self: looks.append(1) or self.answer)
    monkeypatch.setattr(search.Search, "glance", glance)
    monkeypatch.setattr(search, "carried_out", carried_out)
    with mock.patch.object(sys.stderr, "isatty", return_value=is_watched):
        assert main(ASKED) == 0
    assert bool(looks) is is_watched

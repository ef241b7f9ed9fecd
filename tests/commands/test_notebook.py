"""The commands of a team's notebook, with what they print."""

import json

import pytest

from bench.values import result, strategy
from spmd_core.lab import Lab
from tests.commands.calls import told
from tests.ui.predictions import store

RUN, OTHER = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"


@pytest.fixture
def folder(data_folder):
    Lab.open(data_folder, serve=False)
    store(data_folder, result({"auto": strategy(1e-5)}, run=RUN))
    store(data_folder, result({"auto": strategy(3e-5)}, run=OTHER))
    return data_folder


def test_runs_are_named_by_id_or_as_the_last(folder):
    assert json.loads(told("name", "last", "a", "--json").stdout)["run"] == OTHER
    assert json.loads(told("note", "last~1", "-", "--json", stdin="b").stdout) == {
        "run": RUN, "name": "", "note": "b", "tags": [], "pinned": False,
    }  # fmt: skip
    assert told("name", "last~2", "a").returncode == 2
    assert json.loads(told("tag", RUN, "x", "y", "--pin", "--json").stdout)["tags"] == ["x", "y"]
    assert json.loads(told("tag", RUN, "--remove", "x", "--json").stdout)["tags"] == ["y"]
    listed = json.loads(told("history", "--json", "--text", "tag:y").stdout)
    assert [(each["run"], each["pinned"], each["foreign"]) for each in listed] == [
        (RUN, True, False)
    ]
    assert "★ #y" in told("history").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("note", RUN, "x" * 2**20),
        ("tag", RUN),
        ("name", "nothing", "a"),
        ("export", "--out", "x.spmdlab"),
        ("export", RUN, "--all", "--out", "x.spmdlab"),
        ("import", "pyproject.toml"),
        ("import", "no such file"),
        ("import", "."),
        ("report", RUN, RUN),
        ("report", "nothing"),
        ("audit", "--limit", "many"),
    ],
)
def test_bad_requests_are_one_sentence_and_write_nothing(folder, words):
    done = told(*words)
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1
    assert len(done.stderr) < 300


def test_an_archive_travels_by_command(folder, tmp_path, monkeypatch):
    file = tmp_path / "a.spmdlab"
    assert told("export", "--all", "--out", str(file)).returncode == 0
    assert told("export", RUN, "--out", str(file)).returncode == 0, "ours may be replaced"
    monkeypatch.setenv("SPMD_LAB_DATA", str(tmp_path / "there"))
    assert json.loads(told("import", str(file), "--json").stdout) == {
        "imported": [RUN], "present": [], "refused": [],
    }  # fmt: skip
    assert told("import", str(file)).stdout == "1 here before\n"
    assert "(foreign)" in told("history").stdout
    assert "A foreign run" in told("report", RUN).stdout


def test_a_file_of_somebody_else_is_not_replaced(folder, tmp_path):
    file = tmp_path / "notes.html"
    file.write_text("mine")
    done = told("report", RUN, "--format", "html", "--out", str(file))
    assert done.returncode == 2 and file.read_text() == "mine"
    assert told("report", RUN, "--format", "html", "--out", str(file), "--force").returncode == 0
    assert file.read_text().startswith("<!doctype html>")


def test_a_search_is_reported_compared_and_archived_by_its_id(data_folder, tmp_path, monkeypatch):
    ids = []
    for batch in ("32", "64"):
        words = (
            "--chips",
            "v5e:4x4",
            "--global-batch",
            batch,
            "--remat",
            "minimal",
            "--no-compile",
        )
        said = told("search", "--model", "scaled:1", *words).stdout.splitlines()[-1]
        ids.append(said.split()[1].rstrip(":"))
    report = told("report", ids[0]).stdout
    assert report.startswith("<!-- SPMD Lab report -->\n\n# Search: scaled:1 on v5e:4x4")
    compared = json.loads(told("compare", *ids, "--json").stdout)
    assert [each["part"] for each in compared["differences"]] == ["global_batch"]
    table = json.loads(told("compare", *ids, "--columns", "Time,Search", "--json").stdout)
    assert [row["Search"] for row in table] == ids
    file = tmp_path / "a.spmdlab"
    for _ in range(2):  # ours may be replaced
        assert "2 searches in" in told("export", *ids, "--out", str(file)).stdout
    page = json.loads(told("collection", "new", "Week 47", "--json").stdout)["collection"]
    assert told("collection", "add", page, "--search", ids[0]).returncode == 0
    assert "Ranking" in told("report", page).stdout
    monkeypatch.setenv("SPMD_LAB_DATA", str(tmp_path / "there"))
    foreign = json.loads(told("import", str(file), "--json").stdout)["imported"]
    assert "A foreign search" in told("report", foreign[0]).stdout
    assert told("report", ids[0]).returncode == 2, "not the search of this machine"

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


@pytest.mark.parametrize("form", ["http://localhost:8501/r/{}", "/r/{}", "https://a.b/lab/s/{}/"])
def test_a_link_to_a_stored_run_stands_for_it_wherever_one_is_named(folder, form):
    at, other = form.format(RUN), form.format(OTHER)
    assert told("script", at).stdout != "" != told("script", "--run", at).stdout
    assert told("link", "-", stdin=at).stdout == told("link", at).stdout != ""
    assert json.loads(told("tag", at, "x", "--json").stdout)["run"] == RUN
    assert json.loads(told("report", other, "--json").stdout)["runs"] == [OTHER]
    assert told("compare", at, other).stdout == told("compare", RUN, OTHER).stdout
    made = json.loads(told("collection", "new", "a", at, "--json").stdout)
    page = form.replace("/r/", "/c/").replace("/s/", "/c/").format(made["collection"])
    assert (
        told("collection", "show", page).stdout
        == told("collection", "show", made["collection"]).stdout
    )
    assert json.loads(told("report", page, "--json").stdout)["runs"] == [RUN]
    for word in ("run", "report", "history", "link"):
        done = told(word, form.format("missing"))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "run 'missing' is not stored here: look it up in the history\n"


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


@pytest.mark.parametrize("words", [(RUN,), (RUN, OTHER), ("collection",)])
def test_a_report_as_html_imports_again_with_all_of_its_runs(folder, tmp_path, monkeypatch, words):
    runs = {*words} if words != ("collection",) else {RUN}
    if words == ("collection",):
        made = json.loads(told("collection", "new", "a", RUN, "--json").stdout)["collection"]
        words, runs = (made,), {RUN, made}
    page = tmp_path / "report.html"
    assert "imports again" in told("report", *words, "--out", str(page)).stdout
    text = told("report", *words, "--format", "html").stdout
    assert text.partition("<!--spmd-lab-archive:")[0] == page.read_text().partition("<!--spmd")[0]
    monkeypatch.setenv("SPMD_LAB_DATA", str(tmp_path / "other"))
    taken = json.loads(told("import", str(page), "--json").stdout)
    assert ({*taken["imported"]}, taken["refused"]) == (runs, [])


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

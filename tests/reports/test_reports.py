"""Comparisons and reports of stored runs: every number as the JSON has it, and no foreign markup."""

import json
import re
import socket
from html.parser import HTMLParser

import pytest

from bench.hostile_links import hold_example
from bench.values import result, strategy
from spmd_core.answers import collectives_table
from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.reports import (
    Subject,
    compare_runs,
    comparison_document,
    comparison_json,
    html_text,
    markdown_text,
    plain_text,
    report_document,
    runs_table,
    table_markdown,
)
from spmd_core.reports.document import csv_of, json_of, reported
from spmd_core.reports.search_document import search_blocks
from spmd_core.results import Failure
from spmd_core.search import KeptCandidate, KeptSearch
from spmd_core.sheets import Table, chosen_columns
from spmd_core.workloads import programs
from tests.commands.calls import told
from tests.labs import ROOT
from tests.ui.predictions import predicted, store

ODD = '<img src=x onerror="alert(1)"> **b** [l](javascript:x) =1+1 | @all \u202e'
HERE, THERE = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
AT_FAULT = f"error in {ROOT}/layer.py:12 on {socket.gethostname()} of file:///home/ann/x.so"


class Page(HTMLParser):
    """What a browser would read: tags, their attributes, and exact numbers."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.values = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.values.append(float(dict(attrs)["value"]))


@pytest.fixture
def lab(data_folder):
    lab = Lab.open(data_folder, serve=False)
    collective = {"kind": "all-reduce", "axes": ["x"], "bytes": 512, "count": 2}
    collective["reason"] = "the contracted dim `in` is <b>sharded</b>"
    parts = {"collectives": [collective], "memory_bytes": {"peak": 1024}}
    notes = {"notes": [AT_FAULT], "warnings": [AT_FAULT]}
    store(data_folder, result({"auto": strategy(1e-5, **parts, **notes)}, run=HERE))
    store(data_folder, result({"auto": strategy(2e-5 / 3)}, run=THERE))
    store(data_folder, predicted(run="predicted"))
    lab.notebook.label(HERE, name=ODD, note=f"{ODD}\n# no heading", tags=("v5p",))
    return lab


def subjects(lab, *runs):
    stored = {each.run: each for each in lab.history()}
    return [Subject(stored[run], lab.result(run)) for run in runs]


def test_a_report_has_every_number_of_the_result_and_runs_nothing(lab):
    text = html_text(report_document(subjects(lab, HERE)))
    page = Page(text)
    outcome = lab.result(HERE).strategies["auto"]
    for number in (*outcome.samples_s, outcome.median_s, *outcome.ci95_s, 512, 1024):
        assert number in page.values
    kinds = {tag for tag, _ in page.tags}
    assert not kinds & {"script", "img", "link", "iframe", "form", "a", "b", "object"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    policy = next(attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "https://" not in text and "\u202e" not in text and "<svg" in text
    assert (
        "dim <code>in</code> is &lt;b&gt;sharded" in text
    )  # a dim is code, all else word for word
    assert re.search(r"<p class=note>.*<strong>b</strong> \[l\].*\n# no heading</p>", text)


@pytest.mark.parametrize("write", [html_text, markdown_text])
def test_a_report_names_no_path_and_no_host(lab, write):
    text = write(report_document(subjects(lab, HERE), {HERE: {"auto": {"hlo": AT_FAULT}}}))
    for part in (str(ROOT), str(lab.folder), "/home/ann", socket.gethostname()):
        assert part not in text
    assert "layer.py:12" in text.replace("\\", "")


def test_a_table_of_samples_names_the_process_that_they_are_of(lab, data_folder):
    again = strategy(1e-5, turns_s=[[1e-5]], again_s=[[[1e-5]], [[2e-5]]])
    store(data_folder, result({"auto": again}, run="several"))
    one, several = (html_text(report_document(subjects(lab, run))) for run in (HERE, "several"))
    assert "Every sample</summary>" in one
    assert "Every sample of the first of 3 processes</summary>" in several


def test_only_paths_are_shortened():
    for text in ("jit(f)/layer/dot_general", "a/b", "16 MB/s", "x=2,y=4", "auto / single"):
        assert reported(text) == text
    assert reported("see /usr/lib/a.so, ~/x/y.py and C:\\Users\\ann\\a.txt") == (
        "see a.so, y.py and a.txt"
    )


def test_markdown_shows_names_word_for_word_in_cells_that_stay_cells(lab):
    text = markdown_text(comparison_document(compare_runs(subjects(lab, HERE, THERE))))
    assert "<img" not in text and "&lt;img" in text and "&#64;all" in text and "\u202e" not in text
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    for table in tables:
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(bars) == 1, table


def test_a_comparison_is_read_against_its_baseline(lab):
    compared = compare_runs(subjects(lab, HERE, THERE, "predicted"), THERE)
    form = json.loads(json.dumps(comparison_json(compared)))
    assert form["baseline"] == THERE and [each["letter"] for each in form["runs"]] == list("ABC")
    first = form["verdicts"][0]
    assert (first["run"], first["verdict"], first["faster"]) == (HERE, "faster", THERE)
    assert form["sentences"][0].startswith("B is 1.50× (1.36 to 1.65) faster than A: ")
    assert form["sentences"][1].startswith("Different work (workload Transformer training step ")
    parts = {each["part"]: each["texts"] for each in form["differences"]}
    assert "mesh" in parts and parts["mesh"][HERE] == parts["mesh"][THERE] and "dtype" in parts
    sheet = csv_of(runs_table(compared))
    assert repr(2e-5 / 3) in sheet and ",'=" not in sheet
    assert "all-reduce over x" in plain_text(comparison_document(compared))


def test_a_comparison_of_equal_experiments_says_so_and_other_machines_are_named(lab):
    here, there = subjects(lab, HERE, THERE)
    other = there.result.environment.model_copy(update={"cores": 64})
    moved = Subject(there.summary, there.result.model_copy(update={"environment": other}))
    compared = compare_runs([here, moved])
    assert compared.differences == ()
    assert "on different machines" in comparison_json(compared)["sentences"][0]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([HERE], "a comparison of 1 run is not of 2 to 8"),
        ([f"none{at}" for at in range(9)], "a comparison of 9 runs is not of 2 to 8"),
        ([HERE, HERE], "one run twice"),
        ([HERE, THERE, "--baseline", "predicted"], "is none of the runs"),
        ([HERE, "nothing"], "is not stored here"),
    ],
)
def test_a_bad_comparison_is_one_sentence(lab, runs, words):
    done = told("compare", *runs)
    assert done.returncode == 2 and done.stdout == "" and words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_run_that_failed_has_a_report(lab, data_folder):
    lab._store.submit("failed", lab.status(HERE).experiment)
    lab._store.start("failed")
    lab._store.finish("failed", "failed", error=Failure(kind="value_error", message=AT_FAULT))
    done = told("report", "failed", "--format", "html")
    assert done.returncode == 0 and "value_error" in done.stdout and str(ROOT) not in done.stdout
    assert "The run left no result" in told("report", "failed").stdout


def test_program_texts_are_in_a_report_where_they_are_wanted(lab):
    lab._store.submit("texts", lab.status(HERE).experiment)
    lab._store.start("texts")
    named = lab.facts(HERE).model_copy(update={"run": "texts"})
    lab._store.finish("texts", "succeeded", result=named, texts={"auto": {"hlo": "HloModule m"}})
    assert "HloModule m" in told("report", "texts", "--format", "html", "--texts").stdout
    assert "HloModule m" not in told("report", "texts", "--format", "html").stdout


def test_a_report_has_the_rows_of_collectives_that_the_screen_has(lab, data_folder):
    alike = {"kind": "all-gather", "axes": ["x"], "bytes": 512, "count": 2, "source": "a.py:3"}
    alike |= {"reason": "a matmul needs `weights` replicated"}
    alike |= {"seconds": 1e-3, "seconds_total": 2e-3, "exposed_total_s": 0.0}
    found = result({"auto": strategy(1e-5, collectives=[alike] * 40)}, run="many")
    store(data_folder, found)
    table = collectives_table(found)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert len(table.rows) == 1 and row["Count"].value == 80 and row["In total"].value == 80 * 512
    assert row["Time"].value == pytest.approx(80e-3)
    assert row["Why, and where"].text == "a.py:3. A matmul needs `weights` replicated"


def test_a_step_is_compiled_for_devices_and_has_no_strategy(lab):
    text = html_text(report_document(subjects(lab, "predicted")))
    assert "Compiled for" in text and ", predicted, 20" in text and "succeeded" not in text
    assert "Automatic" not in text.partition("as a spec")[0] and "Step, predicted" in text


@pytest.mark.parametrize("batches", [(4, 8, 16), (8, 8, 8)])
def test_a_ranking_compares_steps_of_different_batches_by_their_tokens(batches):
    rows = [
        KeptCandidate(
            name=f"{batch} per device", target="tpu:v5e:4x4", stage="estimated", known_by="estimate",
            seconds=batch * 1e-2, low_s=batch * 9e-3, tokens=batch * 2048,
        )
        for batch in batches
    ]  # fmt: skip
    document = search_blocks(KeptSearch(search="a", ranking=tuple(rows)))
    (table,) = (block for block in document if isinstance(block, Table))
    times = [row[2].value for row in table.rows]
    if len(set(batches)) > 1:
        assert "Estimate of 1B" in table.columns and "Time" not in table.columns
        assert times == pytest.approx([1e-2 / 2048 * 1e9] * 3)
        assert table.rows[0][2].text == "1.36 h"
    else:
        assert "Estimate" in table.columns and times == [0.08] * 3


def test_several_runs_have_one_report(lab):
    with pytest.raises(RequestError, match="twice"):
        report_document(subjects(lab, HERE, HERE))
    text = html_text(report_document(subjects(lab, HERE, "predicted")))
    assert text.count("<h2>") >= 4 and "Comparison of 2 runs" in text


def test_a_run_of_a_program_that_was_handed_in_has_a_report_without_a_script(data_folder):
    hold_example(data_folder)
    (held,) = programs.held()
    spec = {"workload": "program_file", "program": held.program, "mesh": held.mesh}
    run = "20260101-000002-cccccc"
    found = result({"auto": strategy(1e-5)}, run=run, experiment=parse_experiment(spec))
    lab = Lab.open(data_folder, serve=False)
    store(data_folder, found)
    text = html_text(report_document(subjects(lab, run)))
    assert "as a spec" in text and "A script that reproduces it" not in text


def test_columns_are_chosen_and_a_table_is_written_in_three_forms(lab):
    table = runs_table(compare_runs(subjects(lab, HERE, THERE)))
    chosen = chosen_columns(table, ["Time", "Run"])
    assert chosen.columns == ("", "Time", "Run")
    assert [row["Time"] for row in json.loads(json_of(chosen))] == [1e-5, 2e-5 / 3]
    assert csv_of(chosen).splitlines()[1] == f"A,1e-05,{HERE}"
    assert table_markdown(chosen).splitlines()[0] == "|   | Time | Run |"
    with pytest.raises(RequestError, match="'Tine' is not in the table"):
        chosen_columns(table, ["Tine"])

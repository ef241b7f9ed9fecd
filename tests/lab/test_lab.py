"""The Lab's own rules: what it refuses, and that it is one object per folder."""

import os
import threading

import pytest

from spmd_core.base import RequestError, StorageError
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.results import Environment
from spmd_core.words import run_headline
from tests.lab.store.test_store import result_of, submit_and_start
from tests.labs import HASTY, PATIENCE_S, STANDIN, experiment, until


@pytest.fixture
def lab(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    return Lab.open(data_folder, settings=HASTY)


def test_a_folder_has_one_lab_in_a_process(lab, data_folder):
    assert Lab.open(data_folder) is lab
    assert Lab.open() is lab  # by SPMD_LAB_DATA
    assert Lab.open(data_folder / ".." / data_folder.name) is lab


def test_a_sentence_that_an_older_version_stored_is_made_anew_from_the_facts(data_folder):
    lab = Lab.open(data_folder, serve=False, settings=HASTY)
    submit_and_start(lab._store)
    lab._store.finish("a", "succeeded", result=result_of("a"))
    facts, found = lab.facts("a"), lab.result("a")
    assert facts.comparison.sentence == "single is fastest" and facts.next is None
    assert found.comparison.sentence == run_headline(facts) != "single is fastest"
    assert lab.result("a") is found, "kept"


def test_a_closed_lab_can_be_opened_anew(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    first = Lab.open(data_folder, settings=HASTY)
    run = first.submit(experiment())
    assert first.wait(run, PATIENCE_S).state == "succeeded"
    first.close()
    first.close()
    second = Lab.open(data_folder, serve=False, settings=HASTY)
    assert second is not first
    assert second.status(run).state == "succeeded"
    assert second.queue_holder is None  # a Lab that only reads does not work the queue
    second.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mesh": {"x": 16}, "dims": {"rows": 16, "cols": 8}},
            "mesh x=16 of 16 devices is larger than target cpu:8 with 8",
        ),
        (
            {"dims": {"rows": 10**6, "cols": 10**6}},
            r"needs \d+\.\d TiB on 8 simulated devices \(.* of shards, .* to draw and check them\), more than the",
        ),
        (
            {"target": "tpu:v5e:2x2"},
            "mesh x=8 of 8 devices is larger than target tpu:v5e:2x2 with 4: use at most 4 devices",
        ),
        (
            {"target": "tpu:v5e:4x5"},
            "topology v5e:4x5 is not a shape of TPU v5e: use tpu:v5e:4x4 or tpu:v5e:4x8",
        ),
        (
            {
                "target": "tpu:v5e:2x4",
                "workload": "array",
                "dims": {"d0": 8},
                "sharding": {},
                "strategies": None,
            },
            "workload array has nothing to compile for tpu:v5e:2x4: use a computation",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_queued(lab, changes, message):
    with pytest.raises(RequestError, match=message):
        lab.submit(experiment(**changes))
    assert lab.active() == lab.history() == ()


def test_local_is_refused_where_there_is_no_accelerator(lab):
    if lab.hardware().accelerator:
        pytest.skip("this machine has an accelerator")
    with pytest.raises(
        RequestError, match="target local finds no accelerator on this machine: use cpu:8"
    ):
        lab.submit(experiment(target="local"))


def test_a_mesh_is_held_against_what_the_devices_said(lab):
    small = Environment(
        jax="0", jaxlib="0", python="3", platform="cpu", device_kind="cpu", device_count=4
    )
    lab._store.keep_environment("cpu:8", small)
    with pytest.raises(RequestError, match="larger than target cpu:8 with 4"):
        lab.submit(experiment())


def test_the_latest_whole_result_of_an_equal_experiment_is_found(lab):
    from tests.standin import sitecustomize as standin

    wanted, other = experiment(), experiment(dims={"rows": 32, "cols": 8})
    assert lab.latest(wanted) is None
    runs = [lab.submit(each) for each in (wanted, wanted, other)]
    assert [lab.wait(run, PATIENCE_S).state for run in runs] == ["succeeded"] * 3
    cut_short = lab.submit(experiment(standin.ROUNDS))
    until(lambda: lab.status(cut_short).medians_s)
    lab.cancel(cut_short)
    assert lab.wait(cut_short, PATIENCE_S).state == "cancelled"
    assert (
        lab.latest(parse_experiment(wanted.to_json())) == runs[1] and lab.latest(other) == runs[2]
    )
    assert lab.latest(experiment(standin.ROUNDS)) is None
    lab.delete([runs[1]])
    assert lab.latest(wanted) == runs[0]


def test_unknown_runs_are_refused_in_a_sentence(lab):
    for call in (lab.status, lab.cancel, lambda run: lab.wait(run, 1)):
        with pytest.raises(
            RequestError, match="run 'nowhere' is not stored here: look it up in the history"
        ):
            call("nowhere")
    assert lab.result("nowhere") is None
    assert lab.texts("nowhere", "auto") == {}


def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="SPMD_LAB_DATA"):
        Lab.open(tmp_path / "file" / "data")


def test_waiting_ends_with_its_time(lab):
    from tests.standin import sitecustomize as standin

    run = lab.submit(experiment(standin.ROUNDS))
    assert not lab.wait(run, 0.3).is_over  # it takes ten seconds
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"


def test_a_look_at_the_queue_and_at_a_run_asks_the_database_once_each(lab):
    run, asked, ours = lab.submit(experiment()), [], threading.get_ident()
    assert lab.wait(run, PATIENCE_S).state == "succeeded"
    lab._store._reader.set_trace_callback(
        lambda query: threading.get_ident() == ours and asked.append(query)
    )
    lab.active()
    lab.status(run)
    lab._store._reader.set_trace_callback(None)
    assert len(asked) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mistake_in_the_supervisor_gives_the_folder_up_and_the_next_run_starts_another(
    lab, monkeypatch
):
    with monkeypatch.context() as broken:
        broken.setattr(lab._store, "next_queued", lambda lane: 1 / 0)
        until(lambda: not lab._supervisor.is_alive)
    assert lab.queue_holder is None
    assert lab.wait(lab.submit(experiment()), PATIENCE_S).state == "succeeded"


def test_the_lab_names_the_process_that_works_the_queue(lab):
    lab.wait(lab.submit(experiment()), PATIENCE_S)
    assert lab.queue_holder == os.getpid()

"""Programs that others hand in: what the owner of a server allows, and what their worker knows."""

import pytest

from bench.exported import MESH, sgd_step
from spmd_core.base import RequestError, Settings, read_settings
from spmd_core.experiment import parse_experiment, programs
from spmd_core.lab.store.limits import COMMAND_LINE, Asker, check_program
from spmd_core.lab.supervisor.environment import without_secrets
from spmd_core.words import experiment_words

VISITOR = Asker("v")
EXPOSED = Asker("v", is_exposed=True)


@pytest.fixture(scope="module")
def experiment():
    program = programs.take(sgd_step()).program
    return {"workload": "program_file", "program": program, "mesh": MESH}


@pytest.mark.parametrize(
    ("uploads", "asker", "target", "allowed"),
    [
        ("", VISITOR, "cpu:8", True),
        ("", EXPOSED, "cpu:8", False),
        ("run", EXPOSED, "cpu:8", True),
        ("off", COMMAND_LINE, "tpu:v5e:2x4", False),
        ("compile", VISITOR, "tpu:v5e:2x4", True),
        ("compile", VISITOR, "cpu:8", False),
    ],
)
def test_the_owner_says_what_is_done_with_programs(uploads, asker, target, allowed, experiment):
    settings, found = Settings(uploads=uploads), parse_experiment(experiment | {"target": target})
    if allowed:
        check_program(settings, asker, found)
    else:
        with pytest.raises(RequestError, match=r"not taken here|only compiled here"):
            check_program(settings, asker, found)


def test_the_setting_is_one_of_four():
    assert read_settings({"SPMD_LAB_UPLOADS": "kernels"}).uploads == "kernels"
    with pytest.raises(RequestError, match="use SPMD_LAB_UPLOADS=off or compile or run or kernels"):
        read_settings({"SPMD_LAB_UPLOADS": "yes"})


def test_a_worker_of_a_program_has_no_secrets():
    environ = {"PATH": "p", "SPMD_LAB_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "k", "LC_ALL": "C"}
    assert without_secrets(environ) == {"PATH": "p", "LC_ALL": "C"}


def test_a_viewer_holds_a_bounded_number(monkeypatch):
    monkeypatch.setattr(programs, "MOST_OF_VIEWER", 0)
    with pytest.raises(RequestError, match="0 programs of yours are held already"):
        programs.take(b"another", "", "v")


def test_a_deleted_program_leaves_its_runs_readable(experiment):
    data = sgd_step(donated=())
    given = experiment | {"program": programs.take(data, "Mine").program, "target": "cpu:8"}
    before = parse_experiment(given)
    programs.delete(given["program"])
    assert parse_experiment(given) == before and given["program"] not in {
        each.program for each in programs.held()
    }
    assert experiment_words(before).startswith("Program Mine")
    with pytest.raises(RequestError, match="is not held here: take its file"):
        check_program(Settings(), COMMAND_LINE, before)
    programs.take(data, "Mine again")
    check_program(Settings(), COMMAND_LINE, before)

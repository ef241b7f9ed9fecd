"""Programs that others hand in: what the owner of a server allows, and what their worker knows."""

import jax
import pytest

from bench.exported import MESH, sgd_step, written
from spmd_core.base import RequestError, Settings, StorageError, read_settings
from spmd_core.experiment import parse_experiment
from spmd_core.lab.store.limits import COMMAND_LINE, Asker, check_program
from spmd_core.lab.supervisor.environment import without_secrets
from spmd_core.terms import experiment_words
from spmd_core.workloads import programs

pytestmark = pytest.mark.usefixtures("read_here")
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


def test_a_target_that_it_was_not_exported_for_costs_no_compile(experiment):
    asked = parse_experiment(experiment | {"target": "gpu:h100:8"})
    with pytest.raises(
        RequestError, match=r'exported for \(cpu, tpu\): export it with platforms=\["cuda"'
    ):
        check_program(Settings(), VISITOR, asked)


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


def test_a_name_stays_with_who_handed_the_program_in():
    data = sgd_step()
    first = programs.take(data, "mine", "ann")
    programs.delete(first.program)
    assert programs.take(data, "mine", "ann", "10.0.0.1").name == "mine"
    assert programs.take(data, "\u202eyours", "eve", "10.0.0.2").name == "mine"
    assert programs.take(data, "renamed", "ann", "10.0.0.1").name == "renamed"
    assert (found := programs.take(data, "owner's")).name == "owner's"
    assert (found.viewer, found.address) == ("ann", "10.0.0.1")


def test_visitors_of_one_address_hold_a_bounded_number(monkeypatch):
    monkeypatch.setattr(programs, "MOST_OF_ADDRESS", 0)
    with pytest.raises(RequestError, match="0 programs from your address are held already"):
        programs.take(b"another", "", "v", "10.0.0.1")


def test_programs_that_vanish_or_are_damaged_are_left_out(experiment):
    """Another process deletes them; a disk fails; somebody makes a folder in their place."""
    program, folder = experiment["program"], programs.folder()
    (folder / f"{'a' * 64}.json").symlink_to("nowhere")
    (folder / f"{'b' * 64}.json").mkdir()
    (folder / f"{'c' * 64}.json").write_bytes(b"\xff{")
    assert program in {each.program for each in programs.held()}
    kept = folder / f"{program}.jaxexport"
    kept.rename(folder / "aside")
    try:
        with pytest.raises(RequestError, match="is not held here: take its file"):
            programs.artifact(program)
    finally:
        (folder / "aside").rename(kept)


def test_a_list_of_programs_reads_no_description(experiment, monkeypatch):
    """Of megabytes, where a program has thousands of long paths."""
    program, listed = experiment["program"], programs.held()
    assert len((programs.folder() / f"{program}.listed").read_bytes()) < 1000
    with monkeypatch.context() as patched:
        patched.setattr(programs, "_described", None)
        assert programs.held() == listed


def test_a_description_that_another_version_wrote_is_listed(experiment):
    program = experiment["program"]
    described, path = programs.find(program), programs.folder() / f"{program}.json"
    try:
        path.write_text(described.model_copy(update={"name": "renamed"}).model_dump_json())
        (found,) = (each for each in programs.held() if each.program == program)
        assert found.name == "renamed"
        (programs.folder() / f"{program}.listed").write_text("{")
        assert found in programs.held()
    finally:
        path.write_text(described.model_dump_json())


def test_what_a_killed_process_left_behind_is_cleared_away(experiment, monkeypatch):
    folder, kept = programs.folder(), programs.artifact(experiment["program"])
    left = [folder / f"{'d' * 64}.jaxexport", folder / f"{'e' * 64}.12.34"]
    for path in left:
        path.write_bytes(b"half")
    (folder / "reading-x").mkdir()
    (folder / "reading-x" / "given").write_bytes(b"half")
    with pytest.raises(RequestError, match=r"not a file of jax\.export"):
        programs.take(b"early")
    assert all(path.exists() for path in left), "another process may be at it"
    monkeypatch.setattr(programs, "LEFT_S", 0.0)
    with pytest.raises(RequestError, match=r"not a file of jax\.export"):
        programs.take(b"later")
    assert not any(path.exists() for path in (*left, folder / "reading-x"))
    assert programs.artifact(experiment["program"]) == kept


def test_a_folder_that_cannot_hold_programs_ends_in_a_sentence(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_DATA", str(data_folder / "other"))
    (data_folder / "other").mkdir(parents=True)
    (data_folder / "other" / "programs").write_bytes(b"in the way")
    with pytest.raises(StorageError, match=r"cannot be held \(.*\): free space there, or correct"):
        programs.take(b"anything")


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


def test_a_kernel_of_the_tpu_branch_runs_nowhere_on_cpus():
    """A file of several platforms runs on CPUs by its own branch; attached chips may be those of its
    kernels.
    """

    def step(x):
        kernel = jax.ffi.ffi_call("tpu_custom_call", x)
        return jax.lax.platform_dependent(x, tpu=kernel, default=lambda x: 2 * x)

    given = {"x": jax.ShapeDtypeStruct((8, 128), "float32")}
    described = programs.take(written(step, given))
    assert described.kernels == ("tpu_custom_call",)
    asked = {"workload": "program_file", "program": described.program, "mesh": {"x": 1}}
    check_program(Settings(), VISITOR, parse_experiment(asked | {"target": "cpu:1"}))
    check_program(Settings(), VISITOR, parse_experiment(asked | {"target": "tpu:v5e:1x1"}))
    with pytest.raises(RequestError, match="would run code that this program carries"):
        check_program(Settings(), VISITOR, parse_experiment(asked | {"target": "local"}))

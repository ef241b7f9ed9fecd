import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import versions as bench_versions
from spmd_core.__main__ import main
from spmd_core.base import RequestError
from spmd_core.commands.own import versions
from spmd_core.own.versions import environments, side_by_side
from spmd_core.own.versions.environments import CORE, JaxEnvironment
from spmd_core.own.versions.side_by_side import Seen, changes_between, first_changed
from tests.own.expected.test_golden import BEFORE, gather

ROOT = Path(__file__).resolve().parents[2]
# What uv does, without the network: an environment over the packages that are here, wheels unpacked.
UV = f"""#!{sys.executable}
import pathlib, sys, venv, zipfile
words = sys.argv[1:]
with open({{log!r}}, "a") as log:
    print(*words, file=log)
if words[0] == "venv":
    folder = pathlib.Path(words[-1])
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "here.pth").write_text({os.pathsep.join(p for p in sys.path if "site-packages" in p)!r})
elif words[:2] == ["pip", "install"]:
    lines = pathlib.Path(words[words.index("-r") + 1]).read_text().splitlines()
    if "missing==1" in lines:
        sys.exit("  error: No solution\\n  cause: missing was not there")
    (site,) = pathlib.Path(words[words.index("--python") + 1]).parents[1].glob("lib/python*/site-packages")
    for line in lines:
        if line.endswith(".whl"):
            zipfile.ZipFile(line).extractall(site)
"""


@pytest.fixture
def project(tmp_path, monkeypatch, data_folder):
    folder = tmp_path / "project"
    folder.mkdir()
    bench_versions.project(folder)
    program = tmp_path / "bin/uv"
    program.parent.mkdir()
    program.write_text(UV.format(log=str(tmp_path / "uv.log")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(environments, "_programs", lambda: str(program.parent))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def traced_once(monkeypatch):
    """The process of an environment runs once: what it answered is its answer when it is called again."""
    answers = {}

    def run(command, **given):
        python, *_, answer = command
        if python not in answers:
            answers[python] = subprocess.run(command, **given), Path(answer).read_bytes()
        done, found = answers[python]
        Path(answer).write_bytes(found)
        return done

    own = SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(side_by_side, "subprocess", own)
    return answers


def test_a_regression_between_two_wheels_is_named_with_its_line(project, capsys, traced_once):
    files = [f"--requirements=with-{version}.txt" for version in bench_versions.SPECS]
    assert main(["versions", "model:of_library", *files]) == 1
    printed = capsys.readouterr()
    assert "new: all-gather over tensor" in printed.out
    assert 'h = constrain(jnp.tanh(x @ params["up"]), mesh)' in printed.out
    assert "2 environments kept, " in printed.err
    calls = (project.parent / "uv.log").read_text().splitlines()
    assert len(calls) == 4 and all("--no-build" in each for each in calls if each[:3] == "pip")
    assert main(["versions", "model:of_library", *files, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in answer["versions"]] == ["with-1.0.txt", "with-1.1.txt"]
    assert answer["versions"][0]["step"]["schema"] == 1
    assert len(traced_once) == 2
    (change,) = answer["changes"]
    assert any(line.startswith("new: all-gather over tensor") for line in change["changed"])
    assert len((project.parent / "uv.log").read_text().splitlines()) == 4  # both were there
    assert main(["versions", "--clean"]) == 0
    assert capsys.readouterr().out.startswith("removed 2 of 2 environments, of ")
    assert not [each for each in environments.environments_folder().iterdir() if each.is_dir()]


def test_what_uv_refuses_is_told_in_its_words(project, capsys):
    (project / "bad.txt").write_text("missing==1\n")
    assert (
        main(["versions", "model:of_library", "--requirements=bad.txt", "--jax=1", "--jax=2"]) == 1
    )
    printed = capsys.readouterr().out
    assert "jax 1 failed: uv pip: error: No solution cause: missing was not there" in printed
    assert "From jax 1 to jax 2: both failed, and cannot be compared" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["model:of_jax", "--jax=0.9.2"], "versions compares two or more: give --jax twice"),
        (["--jax=0.9.2"], "versions names no function: write package.module:function"),
        (["model:of_jax", "--jax=1", "--jax=2"], "has no uv.lock or pylock.toml: name a file with"),
        (["a:b", "--jax=1", "--jax=2", "--requirements=no.txt"], "--requirements no.txt cannot be"),
        (["a:b", "--jax=1", "--bisect", "1", "2"], "--bisect takes one set of requirements"),
    ],
)
def test_bad_input_is_one_sentence(project, capsys, words, sentence):
    assert main(["versions", *words]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err and printed.out == ""


def test_without_uv_its_installation_is_named(project, monkeypatch):
    monkeypatch.setattr(environments, "_programs", lambda: "")
    with pytest.raises(RequestError, match="uv is not installed: run `pip install uv`"):
        environments.uv("venv")


def test_jax_of_the_requirements_is_replaced():
    lines = JaxEnvironment(
        "", ("JAX[tpu]==0.8", "jaxlib>=0.8", "libtpu==1", "flax"), "0.9.2", "tpu"
    )
    assert lines._lines() == ("flax", *CORE, "jax[tpu]==0.9.2")
    assert JaxEnvironment("", ("jax==0.8",), None)._lines() == ("jax==0.8", *CORE)


def test_the_core_needs_what_the_wheel_requires():
    import tomllib

    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(CORE) == {each for each in given if environments.package_of(each) != "jax"}


def test_a_lock_of_other_tools_is_read(tmp_path):
    (tmp_path / "pylock.toml").write_text(
        '[[packages]]\nname = "numpy"\nversion = "2.3"\n'
        '[[packages]]\nname = "six"\nversion = "1"\nmarker = "os_name == \'nt\'"\n'
        '[[packages]]\nname = "own"\ndirectory = { path = "." }\n'
    )
    lines = environments.project_requirements(tmp_path)
    assert lines == ("numpy==2.3", "six==1 ; os_name == 'nt'")
    (tmp_path / "pylock.toml").write_text("packages =")
    with pytest.raises(RequestError, match=r"pylock.toml cannot be read .*: lock it again"):
        environments.project_requirements(tmp_path)


GREW = BEFORE.model_copy(update={"collectives": (*BEFORE.collectives, gather("z = w"))})


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("missing", [(), (4,), (2, 3, 5)])
def test_a_bisection_names_the_first_release_that_differs(first, missing):
    looked = []

    def look(name):
        looked.append(name)
        at = int(name)
        is_made = at not in missing or at in (0, 8)
        return Seen(name, (GREW if at >= first else BEFORE) if is_made else None, "", is_made)

    before, after = first_changed([str(at) for at in range(9)], look, lambda words: None)
    there = [at for at in range(9) if at in (0, 8) or at not in missing]
    assert int(after.name) == next(at for at in there if at >= first)
    assert int(before.name) == max(at for at in there if at < first)
    assert len(looked) <= 6 + len(missing)


def test_a_step_that_fails_in_one_release_is_a_change():
    failing = Seen("2", None, "TypeError: no dots")
    assert changes_between(Seen("1", BEFORE), failing).changed == (
        "changed: it fails: TypeError: no dots",
    )
    assert changes_between(failing, failing).changed == ()
    assert list(versions._changed(failing, failing, ())) == [
        "From 2 to 2: both failed, and cannot be compared"
    ]
    with pytest.raises(
        RequestError, match="nothing changed from a to a: there is nothing to bisect"
    ):
        first_changed(["a", "b"], lambda name: Seen("a", BEFORE), print)
    with pytest.raises(RequestError, match="no wheels"):
        first_changed(["a", "b"], lambda name: Seen("a", None, "no wheels", is_made=False), print)


def test_the_longest_unused_environments_are_removed(data_folder, monkeypatch):
    monkeypatch.setattr(environments, "MOST", 2)
    folder = environments.environments_folder()
    for at in range(4):
        (folder / str(at)).mkdir(parents=True)
        os.utime(folder / str(at), (at, at))
    assert environments.kept_words().startswith("2 environments kept, ")
    assert sorted(each.name for each in folder.iterdir()) == ["2", "3"]


def test_a_function_that_is_not_there_is_of_its_environment(project):
    environment = JaxEnvironment("here", (), None)
    answer = side_by_side.seen(environment, "model:nothing", (), 8)
    assert answer.step is None and "function 'model:nothing' is not there" in answer.error

"""A file of the user's own is edited while Compare is open."""

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.experiment import encode, parse_experiment
from spmd_core.workloads import files
from tests.experiment.test_newest import FIELDS, write  # noqa: F401
from tests.labs import ROOT
from tests.ui import opened


def run(screen) -> None:
    next(each for each in screen.button if each.label == "Run").click().run()
    assert not screen.exception


@pytest.mark.parametrize("is_study", [False, True])
def test_run_takes_the_file_as_it_is_now_and_the_fields_stay(lab, write, is_study):  # noqa: F811
    other = FIELDS | {"sharding": {"batch": "x"}, "overrides": {}}
    spec = {"study": [{"experiment": FIELDS}, {"experiment": other}]} if is_study else FIELDS
    before = parse_experiment(spec)
    screen = opened("compare", experiment=encode(parse_experiment(spec)))
    assert not [each for each in screen.info if "has changed" in each.value]
    write(**{"x @ w": "2 * (x @ w)"})
    screen.run()
    assert [each for each in screen.info if "Run takes the new version" in each.value]
    run(screen)
    (queued,) = lab.active()
    for then, now in zip(before.members, queued.experiment.members, strict=True):
        assert now.experiment.what.source == files.workloads()["swiglu"].source
        assert now.experiment.sharding == then.experiment.sharding
        assert now.experiment.dims == then.experiment.dims
    assert not screen.error
    sizes = {each.label: each.value for each in screen.number_input}
    assert (sizes["batch"], sizes["in"], sizes["out"]) == (32, 48, 96)


def test_a_file_that_no_longer_loads_is_named_and_nothing_is_queued(lab, write):  # noqa: F811
    screen = opened("compare", experiment=encode(parse_experiment(FIELDS)))
    write(**{"def swiglu(": "def swiglu("[:-1]})
    run(screen)
    assert not lab.active()
    assert any("is declared by no file" in each.value for each in screen.error)


def test_a_file_that_takes_long_shows_itself_when_it_is_loaded(lab, tmp_path, monkeypatch):
    go = tmp_path / "go"
    path = tmp_path / "slow.py"
    path.write_text(
        "import pathlib, time\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
        "from spmd_core.declare import workload\n\n\n"
        "@workload(operands={'x': ('rows',)}, results={'y': ('rows',)}, defaults={'rows': 8})\n"
        "def slow(x):\n    return x\n"
    )
    monkeypatch.setenv(files.VARIABLE, str(path))
    monkeypatch.setattr("spmd_lab.ui.shell._OWN_WAIT_S", 0.0)
    monkeypatch.setattr("spmd_core.workloads.catalog.SHORT_WAIT_S", 0.0)
    screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60).run()
    assert any("slow.py is being loaded" in each.value.replace("\\", "") for each in screen.info)
    go.touch()
    files.workloads()  # waits until it is loaded
    screen.run()
    assert not screen.info and not screen.exception

"""An experiment of the user's own workload follows its file, and keeps the fields that are still there."""

import textwrap

import pytest

from spmd_core.experiment import has_newer, newest, parse_experiment
from spmd_core.workloads import files

pytestmark = pytest.mark.slow  # each version of the file is described in a process of its own

SWIGLU = """
    from spmd_core.declare import workload


    @workload(
        operands={"x": ("batch", "in"), "w": ("in", "out")}, results={"y": ("batch", "out")},
        defaults={"batch": 16, "in": 32, "out": 64})
    def swiglu(x, w):
        return x @ w
"""
FIELDS = {
    "workload": "swiglu",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"batch": 32, "in": 48, "out": 96},
    "sharding": {"batch": "x", "out": "y"},
    "dtype": "bfloat16",
    "overrides": {"w": [None, "y"]},
    "strategies": ["auto"],
    "timing": {"samples": 3, "min_seconds": 0.0},
    "seed": 4,
}


@pytest.fixture
def write(tmp_path, data_folder, monkeypatch):
    """Writes the file, with these replacements."""
    path = tmp_path / "mine.py"
    # a machine with other work beside takes many times as long
    monkeypatch.setattr("spmd_core.workloads.own.description.LOAD_S", 240.0)
    monkeypatch.setenv(files.VARIABLE, str(path))

    def written(**replaced: str) -> None:
        text = textwrap.dedent(SWIGLU)
        for old, new in replaced.items():
            text = text.replace(old, new)
        path.write_text(text)

    written()
    return written


def test_what_the_function_does_may_change_and_every_field_stays(write):
    asked = parse_experiment(FIELDS)
    assert newest(asked) is asked and not has_newer(asked)
    write(**{"x @ w": "2 * (x @ w)"})
    taken = newest(asked)
    assert has_newer(asked) and not has_newer(taken)
    assert taken.option("source") != asked.option("source")
    assert taken.to_json() | {"options": {}} == asked.to_json() | {"options": {}}


def test_the_dims_and_shardings_stay_that_the_new_version_has(write):
    asked = parse_experiment(FIELDS)
    write(**{"out": "features", '"in"': '"hidden"'})
    taken = newest(asked)
    assert dict(taken.dims) == {"batch": 32, "hidden": 32, "features": 64}
    assert dict(taken.sharding) == {"batch": ("x",)}
    assert (taken.dtype, taken.seed, taken.strategies) == ("bfloat16", 4, ("auto",))


def test_each_variant_of_a_study_takes_the_new_version_and_keeps_its_name(write):
    other = FIELDS | {"sharding": {"batch": "x"}, "overrides": {}}
    asked = parse_experiment(
        {"study": [{"name": "A", "experiment": FIELDS}, {"experiment": other}]}
    )
    write(**{"x @ w": "2 * (x @ w)"})
    taken = newest(asked)
    assert [each.name for each in taken.variants] == [each.name for each in asked.variants]
    assert len({each.experiment.option("source") for each in taken.members}) == 1
    assert not has_newer(taken) and has_newer(asked)
    assert dict(taken.variants[1].experiment.sharding) == {"batch": ("x",)}


def test_a_file_that_declares_it_no_longer_leaves_the_experiment_as_it_is(write):
    asked = parse_experiment(FIELDS)
    write(swiglu="another")
    assert newest(asked) is asked and not has_newer(asked)

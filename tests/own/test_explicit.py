import re
import shutil
from pathlib import Path

import pytest

import spmd_lab
from bench.explicit_snippets import FURTHER, HEAD
from spmd_core.base import RequestError
from spmd_core.own import explicit, explicit_lines, write_explicit
from tests.cover import whole

pytestmark = [pytest.mark.newer]
_HEAD = """import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
TYPES = (AxisType.Auto,)
mesh = jax.make_mesh((2,), ('x',))
"""
STEP = Path(__file__).with_name("explicit_step.py")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.newer_whole
def test_every_error_of_a_step_is_listed_and_mended_and_the_file_is_written(folder):
    path = Path(shutil.copy(STEP, folder / "model.py"))
    report = explicit("model.py")
    assert [(each.line, each.fixes[0].how) for each in report.errors] == [
        ('emb = jax.lax.with_sharding_constraint(params["emb"], P(None, "tensor"))', "reshard"),
        ("x = emb[tokens]", "out_sharding"),
        ('return (h @ w["down"]) * 2', "out_sharding"),
        ('y, _ = jax.lax.scan(body, jnp.zeros((8, 16)), params["stack"])', "reshard"),
    ]
    assert report.errors[2].operands == ("f32[8@data,12,32@tensor]", "f32[32@tensor,16]")
    assert {"out_sharding", "auto_axes", "reshard"} == {each.how for each in report.errors[1].fixes}
    assert all(each.fixes[0].in_auto for each in report.errors)
    assert (report.traces, report.wrong, report.beyond) == (True, 0, ())
    assert report.compared == 64 * 16 + 2 * 2 * 16 * 32 + 3 * 16 * 16
    assert "+    x = emb.at[tokens].get(out_sharding=P(" in report.patch
    assert "4 sharding type errors; the patch traces: equal results" in explicit_lines(report)[0]
    assert path.read_text() == STEP.read_text()
    write_explicit(report)
    again = explicit("model:step")
    assert (again.errors, again.patch, again.traces, again.wrong) == ((), "", True, 0)


_ONE = """
def step():
    a = lambda shape, *spec: jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*spec)))
    return (lambda x, w: (x @ w) + 1), (a((8, 16), None, "x"), a((16, 32), "x"))
"""


def test_a_fix_has_its_bytes_and_an_auto_mesh_is_made_explicit(folder):
    head = _HEAD.replace("'x',)", "'x',), axis_types=(AxisType.Auto,) * 1")
    (folder / "one.py").write_text(head + _ONE)
    report = explicit("one.py")
    chosen, same, other = report.errors[0].fixes
    # the sum of 8 x 32 of float32; or x, which is gathered first
    assert (chosen.how, chosen.bytes, chosen.in_auto) == ("out_sharding", 8 * 32 * 4, True)
    assert (same.how, same.bytes, same.in_auto) == ("auto_axes", 8 * 32 * 4, True)
    assert (other.how, other.bytes, other.in_auto) == ("reshard", 8 * 32 * 4 + 8 * 16 * 4, False)
    assert other.collectives == ("all-gather over x", "all-reduce over x")
    assert (
        "+mesh = jax.make_mesh((2,), ('x',), axis_types=(AxisType.Explicit,) * 1)" in report.patch
    )
    assert "one.py:4: the mesh has Auto axes, and the patch makes them Explicit" in report.notes


@pytest.mark.newer_whole
@pytest.mark.parametrize(
    "name", ["a column of a sharded array", "a scan over chunks of a sharded sequence"]
)
def test_changes_that_only_help_together_are_found(folder, name):
    (folder / "snippet.py").write_text(HEAD + FURTHER[name])
    report = explicit("snippet.py")
    assert report.errors and report.traces and (report.wrong, report.beyond) == (0, ())


@pytest.mark.newer_whole
def test_a_type_that_jax_accepts_is_made_that_of_auto_axes_where_it_costs_more(folder):
    (folder / "snippet.py").write_text(HEAD + FURTHER["merge batch and sequence, then experts"])
    report = explicit("snippet.py")
    (typed,) = (each for each in report.errors if each.accepted)
    assert typed.message.startswith("is f32[32@(data,tensor),32]; as f32[32@data,32], as under")
    assert report.traces and (report.wrong, report.beyond) == (0, ())
    assert explicit_lines(report)[0].startswith("1 costlier type; the patch traces: equal results")


@pytest.mark.newer_whole
def test_without_a_sharded_dim_there_is_no_error_and_a_note(folder):
    (folder / "one.py").write_text(_HEAD + _ONE.replace('None, "x"', "").replace('"x")', ")"))
    report = explicit("one.py")
    assert (report.errors, report.traces, report.patch) == ((), True, "")
    assert "no spec of an argument names an axis: every type is replicated" in report.notes


_AS_INITIALIZED = """
def f(x, w):
    {}
    return jnp.reshape(x @ w, (-1,))

def step():  # a library initializes weights by the function itself
    f(jnp.zeros((8, 16)), jnp.zeros((16, 32)))
    a = lambda shape, *spec: jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*spec)))
    return f, (a((8, 16), None, "x"), a((16, 32), "x"))
"""


@pytest.mark.newer_whole
def test_a_step_that_is_called_before_its_mesh_is_set_is_mended(folder):
    (folder / "linear.py").write_text(
        f"import jax.numpy as jnp\n{_HEAD}{_AS_INITIALIZED.format('')}"
    )
    report = explicit("linear.py")
    assert len(report.errors) == 1 and report.traces and (report.wrong, report.beyond) == (0, ())


@pytest.mark.newer_whole
def test_an_error_of_another_kind_is_no_sharding_type_error(folder):
    line = "assert AxisType.Explicit not in jax.typeof(x).sharding.mesh.axis_types, 'disk full'"
    (folder / "own.py").write_text(
        f"import jax.numpy as jnp\n{_HEAD}{_AS_INITIALIZED.format(line)}"
    )
    report = explicit("own.py")
    assert (report.errors, report.traces) == ((), False)
    assert report.notes[0].endswith("no sharding type error: AssertionError: disk full")
    assert explicit_lines(report)[0].startswith("0 sharding type errors listed; another error")


@pytest.mark.newer_whole
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def step(): return (lambda x: x @ 'a'), (jax.ShapeDtypeStruct((8,), 'float32', sharding=NamedSharding(mesh, P('x'))),)", "TypeError"),
        ("def step(): return (lambda x: x), (jax.ShapeDtypeStruct((8,), 'float32'),)", "has no sharded argument"),
        pytest.param("def step(): return 3", "returns no \\(step, arguments\\)", marks=whole),
        ("def other(): return 3", "has no function step"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(folder, text, sentence):
    (folder / "bad.py").write_text(_HEAD + text)
    with pytest.raises(RequestError, match=sentence):
        explicit("bad.py")


def test_the_example_of_the_page_is_what_it_prints():
    page = (STEP.parents[2] / "docs/explicit.md").read_text("utf-8")
    quoted = page.split("```\n```\n")[1].split("```")[0].splitlines()
    printed = "\n".join(explicit_lines(explicit("docs.example_step:step")))
    assert [line for line in quoted if line not in printed] == []
    # releases of JAX communicate otherwise: the page quotes two of them
    others = re.findall(r"`([0-9.]+ KiB a device and step[^`]*)`", page)
    assert len(others) == 2 and any(f"     {line}\n" in f"{printed}\n" for line in others)


def test_a_target_of_chips_is_refused(folder):
    with pytest.raises(RequestError, match="is not of simulated devices: use one such as cpu:8"):
        explicit("model.py", "tpu:v5e:2x4")


def test_the_function_is_public():
    assert spmd_lab.explicit is explicit and "explicit" in dir(spmd_lab)

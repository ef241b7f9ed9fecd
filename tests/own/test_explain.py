import inspect
import json
import os
import re
import subprocess
import sys
from functools import partial
from math import prod
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

import spmd_lab
from spmd_core.base import RequestError
from spmd_core.facts import AxisOrigin
from spmd_core.own.cell import cell_of
from spmd_core.own.first_screen import lines
from tests.own import steps
from tests.own.expected.test_golden import BEFORE, gather

pytestmark = [pytest.mark.newer]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def explained():
    return spmd_lab.explain(steps.train_step)(*steps.arguments(steps.devices()))


def test_collectives_are_those_that_jax_compiles_with_line_function_and_scope(explained):
    compiled = jax.jit(steps.train_step).lower(*steps.arguments(steps.devices())).compile()
    text = compiled.as_text()
    counted = sum(text.count(f" {kind}(") for kind in ("all-gather", "all-reduce"))
    assert len(explained.collectives) == counted > 0
    gather = next(
        each
        for each in explained.collectives
        if each.kind == "all-gather" and each.line.startswith("h = jnp.tanh")
    )
    assert gather.axes == ("fsdp",)
    assert gather.source.startswith("tests/own/steps.py:")
    assert gather.function == "loss"
    assert gather.scope == "mlp"
    assert gather.dtype == "float32"
    # a device's shard of `up` over tensor, gathered over fsdp
    assert (gather.bytes, gather.count, gather.bytes_total) == (128 * 256 * 4, 1, 128 * 256 * 4)
    assert "params/up" in gather.reason
    assert [(each.axis, each.kind, each.name) for each in gather.origin] == [
        ("fsdp", "argument", "params/up")
    ]


def test_arguments_have_paths_specs_and_bytes_of_a_device(explained):
    held = {each.path: each for each in explained.arguments}
    assert list(held) == ["params/down", "params/up", "x"]
    assert held["params/up"].spec == ("fsdp", "tensor")
    assert held["params/up"].bytes_per_device == 128 * 512 * 4 // 8
    assert held["x"].copies == 2
    assert [each.path for each in explained.outputs] == ["down", "up"]
    assert explained.mesh == (("fsdp", 4), ("tensor", 2))
    assert explained.axis_types == ("Auto", "Auto")


def test_its_json_has_the_keys_of_the_contract(explained):
    value = json.loads(json.dumps(explained.json()))
    keys = (
        "schema versions mesh target collectives arguments outputs findings peak_bytes predicted_s"
    )
    assert set(keys.split()) <= set(value)
    assert value["schema"] == 1
    assert value["mesh"] == [["fsdp", 4], ["tensor", 2]]
    keys = "kind axes count bytes dtype source line function scope reason origin exposed_s"
    assert set(keys.split()) <= set(value["collectives"][0])
    assert value["versions"]["jax"] == jax.__version__
    assert value["findings"][0]["kind"] == "missing_donation"


def test_the_first_screen_has_line_reason_and_accident(explained):
    text = str(explained)
    assert "h = jnp.tanh(x @ params" in text
    assert "all-gather over fsdp" in text
    assert "set by argument params/up P('fsdp', 'tensor')" in text
    assert "params/up is stored as P('fsdp', 'tensor'), but is needed" in text
    assert "missing_donation: params is updated and not donated" in text
    assert explained._repr_html_().count("<svg") == 4
    assert "<script" not in explained._repr_html_()


def test_what_donating_frees_is_what_xla_aliases():
    """A replicated moment leaves sharded: no buffer of its size is there to take."""
    mesh = steps.devices()
    params, x = steps.arguments(mesh)
    state = {"params": params, "nu": params | {"down": steps.place(mesh, (512, 128))}}

    def step(state, x):
        grads = jax.grad(steps.loss)(state["params"], x)
        nu = jax.tree.map(lambda n, g: 0.9 * n + g * g, state["nu"], grads)
        return {"params": jax.tree.map(lambda p, n: p - n, state["params"], nu), "nu": nu}

    found = {each.kind: each for each in spmd_lab.explain(step)(state, x).findings}
    compiled = jax.jit(step, donate_argnums=0).lower(state, x).compile()
    aliased = compiled.memory_analysis().alias_size_in_bytes
    assert found["missing_donation"].bytes_per_device == aliased == 3 * 128 * 512 * 4 // 8


def test_donated_arguments_are_said_so_and_no_finding():
    step = jax.jit(steps.train_step, donate_argnums=0)
    explained = spmd_lab.explain(step)(*steps.arguments(steps.devices()))
    assert [each.path for each in explained.arguments if each.donated] == [
        "params/down",
        "params/up",
    ]
    assert [each.kind for each in explained.findings] == []


def test_a_diff_names_the_argument_and_the_new_collective(explained):
    other = spmd_lab.explain(steps.train_step)(*steps.arguments(steps.devices(), up=("fsdp",)))
    lines = explained.diff(other)
    assert any(
        line
        == "changed: params/up lost its axis \"tensor\" (was P('fsdp', 'tensor'), now P('fsdp', None))"
        for line in lines
    )
    assert any(line.startswith("changed: all-gather over fsdp") for line in lines)
    assert explained.diff(explained) == ()


@pytest.mark.newer_whole
def test_a_diff_of_other_meshes_names_what_each_figure_was(explained):
    mesh = {"fsdp": 2, "tensor": 1}
    other = spmd_lab.explain(steps.train_step, target="cpu:2", mesh=mesh)(
        *steps.arguments(steps.devices())
    )
    lines = explained.diff(other)
    assert "changed: target was cpu, now cpu:2" in lines
    assert "changed: mesh was fsdp=4, tensor=2, now fsdp=2, tensor=1" in lines
    assert any(line.startswith("changed: peak was ") for line in lines)
    donating = jax.jit(steps.train_step, donate_argnums=0)
    lines = explained.diff(spmd_lab.explain(donating)(*steps.arguments(steps.devices())))
    assert any(line.startswith("gone: params is updated and not donated") for line in lines)


def test_an_axis_that_only_a_constraint_names_is_used():
    mesh = steps.devices()

    def step(x, constrain):
        y = jnp.sin(x)
        spec = P("tensor") if constrain else P()
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, spec))

    x = steps.place(mesh, (64, 64), "fsdp")
    for constrain in (False, True):
        made = spmd_lab.explain(lambda x, constrain=constrain: step(x, constrain).sum())(x)
        kinds = [(each.kind, each.path) for each in made.findings]
        assert (("unused_axis", "tensor") in kinds) is not constrain


def dot_flops(text):
    """The FLOPs of the dots of a compiled text that has no loops, counted from its shapes."""
    dims = {
        name: [int(size) for size in sizes.split(",") if size]
        for name, sizes in re.findall(r"%([\w.-]+) = \w+\[([\d,]*)\]", text)
    }
    dots = re.findall(r"%([\w.-]+) = \S+ dot\(\S*?%([\w.-]+),.*?lhs_contracting_dims={(\d)}", text)
    return sum(2 * prod(dims[name]) * dims[left][int(at)] for name, left, at in dots)


@pytest.mark.parametrize("is_after", [True, False])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("out", [256, 16])
def test_repeated_work_is_counted_as_compiled_and_names_the_constraint(is_after, is_training, out):
    """The partitioner gathers an operand where propagation left a sum sharded, or the reverse."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=steps.TYPES[:1])
    whole, place = NamedSharding(mesh, P(None, None)), partial(steps.place, mesh)

    def forward(params, x):
        h = x @ params["up"]
        h = jnp.tanh(h) if is_after else h
        h = jax.lax.with_sharding_constraint(h, whole)
        return (h if is_after else jnp.tanh(h)) @ params["down"]

    def train(params, x, y):
        return jax.grad(lambda params: ((forward(params, x) - y) ** 2).mean())(params)

    params = {"up": place((128, 512)), "down": place((512, out))}
    x, y = (place((256, size), "data") for size in (128, out))
    step, given = (train, (params, x, y)) if is_training else (forward, (params, x))
    own = dot_flops(jax.jit(step).lower(*given).compile().as_text())
    even = (2 if is_training else 1) * 2 * 256 * 128 * 512 + (
        3 if is_training else 1
    ) * 2 * 256 * 512 * out
    found = [f for f in spmd_lab.explain(step)(*given).findings if f.kind == "repeated_work"]
    if own < 1.5 * even / 8:
        assert found == []
        return
    (only,) = found
    line = inspect.getsourcelines(forward)
    at = line[1] + next(n for n, text in enumerate(line[0]) if "with_sharding" in text)
    assert f": {own / (even / 8):.2g} times the work, " in only.sentence
    surplus = f"{(own - even / 8) / own:.0%} of a device's matmul FLOPs are surplus"
    assert surplus in only.sentence
    there = f"the constraint of test_explain.py:{at} drops it: constrain it to P('data', None)"
    assert there in only.sentence


def test_static_arguments_functions_and_keywords_are_taken():
    def step(x, activation, *, key):
        return activation(x) + jax.random.normal(key, x.shape)

    explained = spmd_lab.explain(step)(np.ones((8, 4), np.float32), jnp.tanh, key=jax.random.key(0))
    assert [(each.path, each.dtype) for each in explained.arguments] == [
        ("x", "float32"),
        ("key", "uint32"),
    ]


def test_an_error_of_the_step_is_jaxs_own():
    with pytest.raises(TypeError, match="dot_general"):
        spmd_lab.explain(lambda x: x @ jnp.ones((3, 3)))(jnp.ones((2, 2)))


def test_what_is_no_function_is_refused_in_a_sentence():
    with pytest.raises(RequestError, match="a step of type int cannot be called: pass a function"):
        spmd_lab.explain(3)()  # pyright: ignore[reportArgumentType]


@pytest.mark.newer_whole
def test_abstract_meshes_and_targets_start_no_backend():
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import spmd_lab\n"
        "assert 'jax' not in sys.modules\n"
        "from tests.own import steps\n"
        "from jax._src import xla_bridge\n"
        "r = spmd_lab.explain(steps.train_step)(*steps.arguments(steps.no_devices()))\n"
        "assert not xla_bridge.backends_are_initialized()\n"
        "print(r.target, [(c.kind, c.axes, c.line, c.source) for c in r.collectives])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=_environ()
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("cpu:8")
    assert "'all-gather', ('fsdp',), 'h = jnp.tanh(x @ params[\"up\"])'" in run.stdout
    assert "tests/own/steps.py:" in run.stdout


def _environ():
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}


def test_a_method_of_a_jitted_function_is_a_step():
    class Trainer:
        rate = 0.1

        @partial(jax.jit, static_argnums=0, donate_argnames="params")
        def update(self, params, x):
            gradients = jax.grad(steps.loss)(params, x)
            return jax.tree.map(lambda p, g: p - self.rate * g, params, gradients)

    explained = spmd_lab.explain(Trainer().update)(*steps.arguments(steps.devices()))
    held = {each.path: each.donated for each in explained.arguments}
    assert held == {"params/down": True, "params/up": True, "x": False}


def test_reasons_are_folded_and_small_collectives_have_theirs():
    large = gather(bytes=10**6, reason="`up` is stored sharded")
    small = gather(source="model.py:9", reason="`down` is stored sharded")
    origins = [AxisOrigin(axis="fsdp", kind="argument", name=name) for name in "abcd"]
    members = (large.model_copy(update={"origin": (each,)}) for each in origins)
    step = BEFORE.model_copy(update={"collectives": (*members, small)})
    text = "\n".join(lines(step))
    assert text.count("up is stored sharded") == 1
    assert "set by argument a, argument b and 2 more" in text
    assert "4.0 KiB (1x, float32)\n    model.py:9  h = x @ up\n" in text
    assert "down is stored sharded" in text
    warned = small.model_copy(update={"warning": "full rematerialization"})
    step = step.model_copy(update={"collectives": (*step.collectives[:-1], warned)})
    assert "full rematerialization" in "\n".join(lines(step))  # listed nowhere else


def test_what_a_line_would_do_to_a_terminal_is_written_out():
    step = BEFORE.model_copy(
        update={"collectives": (gather("x \x1b[31m"),), "function": "\x1b]0;a\x07"}
    )
    assert "\x1b" not in "\n".join(lines(step)) + cell_of(step) and "\\u001b[31m" in cell_of(step)


@pytest.mark.parametrize(("target", "is_noted"), [("cpu:8", True), ("cpu", True), ("v5e:8", False)])
def test_that_cpus_widen_what_is_communicated_is_noted(target, is_noted):
    halves = tuple(each.model_copy(update={"dtype": "bfloat16"}) for each in BEFORE.arguments)
    step = BEFORE.model_copy(update={"target": target, "arguments": halves})
    assert ("widens bfloat16 to float32" in "\n".join(lines(step))) == is_noted
    full = step.model_copy(update={"arguments": BEFORE.arguments})
    assert "widens" not in "\n".join(lines(full))

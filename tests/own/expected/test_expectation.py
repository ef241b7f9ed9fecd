import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding, PartitionSpec as P

import spmd_lab
from spmd_core.base import RequestError
from tests.own import steps

pytestmark = [pytest.mark.newer]
LINE = 'h = jnp.tanh(x @ params["up"])'


@pytest.fixture(scope="module")
def step():
    return spmd_lab.expect(steps.train_step)(*steps.arguments(steps.devices()))


def refused(call, *args, **kwargs):
    with pytest.raises(spmd_lab.ExpectationError) as error:
        call(*args, **kwargs)
    return str(error.value).splitlines()


def test_expectations_that_hold_return_the_step(step):
    assert step.has_no("all-gather", over="tensor").has_no("all-to-all") is step
    assert step.has_no("all-reduce", only=("fsdp", "tensor")) is step
    assert step.has_no("all-to-all", within="mlp") is step
    assert step.has_at_most(1, "all-reduce", only="tensor") is step
    assert step.has_at_most("8 KiB", over="tensor") is step
    assert step.arguments_at_most("72 KiB").arguments_at_most("64 KiB", within="params/*") is step
    assert step.is_sharded("params/up", P("fsdp", "tensor")).is_sharded("x", P("fsdp")) is step


@pytest.mark.parametrize(
    "within",
    ["mlp", "*ml*", "*/mlp", "loss", "steps.py", "own/steps.py", "tests/own/*"],
)
def test_a_place_is_a_scope_a_function_or_a_file(step, within):
    with pytest.raises(RequestError, match="is no scope, function or file of this step: there are"):
        step.has_no("all-gather", within=f"un{within}")
    head, first, *_ = refused(step.has_no, "all-gather", within=within)
    assert head == f"expected no all-gather within {within}:"
    # JAX 0.12 combines what 0.10 gathers one by one: other sizes and counts, the same place
    assert first.startswith("  all-gather over fsdp, ")
    assert f"float32, tests/own/steps.py:35  {LINE}, in loss, since params/up is stored" in first


def test_kinds_are_those_that_the_program_requests(step):
    """A CPU has no reduce-scatter: its compiler makes an all-reduce of one."""
    assert "reduce-scatter over fsdp" in refused(step.has_no, "reduce-scatter", over="fsdp")[1]
    step.has_no("all-reduce", over="fsdp")


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (2, "expected at most 2 all-gather a step: there are 3:"),
        ("100 KiB", "expected all-gather of at most 100 KiB a step: 256.0 KiB:"),
    ],
)
def test_counts_and_bytes_have_limits(step, most, words):
    assert refused(step.has_at_most, most, "all-gather")[0] == words


def test_arguments_that_are_not_donated_are_named(step):
    assert refused(step.donates, "params") == [
        "expected that params is donated: name it in donate_argnames:",
        "  not donated: params/down, 32.0 KiB a device",
        "  not donated: params/up, 32.0 KiB a device",
    ]
    donating = jax.jit(steps.train_step, donate_argnums=0)
    spmd_lab.expect(donating)(*steps.arguments(steps.devices())).donates("params")


def test_a_spec_that_differs_is_beside_the_expected_one(step):
    assert refused(step.is_sharded, "params/*", P("fsdp", "tensor")) == [
        "expected params/* to be P('fsdp', 'tensor'):",
        "  params/down is P('tensor', 'fsdp')",
    ]


@pytest.mark.parametrize(
    "make", [steps.devices, pytest.param(steps.no_devices, marks=pytest.mark.newer_whole)]
)
def test_values_that_checkpoint_name_names_have_specs(make):
    mesh = make()

    def loss(w, x):
        def layer(x, w):
            with jax.named_scope("quiet"):
                h = checkpoint_name(jnp.tanh(x @ w), "hidden")
            return jax.lax.with_sharding_constraint(
                h, NamedSharding(mesh, P("fsdp", "tensor"))
            ), None

        return jax.lax.scan(jax.checkpoint(layer), x, w)[0].sum()

    w = steps.place(mesh, (3, 64, 64), None, "fsdp", "tensor")
    named = spmd_lab.expect(jax.grad(loss))(w, steps.place(mesh, (32, 64), "fsdp"))
    named.is_sharded("hidden", P("fsdp", "tensor")).has_no("all-to-all", within="quiet")
    assert refused(named.is_sharded, "hid*", P("fsdp")) == [
        "expected hid* to be P('fsdp'):",
        "  hidden is P('fsdp', 'tensor')",
    ]
    with pytest.raises(RequestError, match="path 'hide' is that of no array: there are hidden, w"):
        named.is_sharded("hide", P())


@pytest.mark.newer_whole
def test_a_target_is_asked_for_what_it_compiles(step):
    on = "tpu:v5e:2x4"
    step.peak_at_most("1 GiB", on=on).takes_at_most("1 s", on=on)
    assert refused(step.peak_at_most, "3 KiB", on=on)[0].startswith(
        "expected a peak of at most 3 KiB on tpu:v5e:2x4: it is "
    )
    assert refused(step.takes_at_most, "1 ns", on=on)[0].startswith(
        "expected at most 1 ns a step on tpu:v5e:2x4: predicted are "
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: s.has_no("all-gathers"), "kind 'all-gathers' is no collective: use one of"),
        (
            lambda s: s.has_no(over="dp"),
            "axis 'dp' is not in the mesh of this step: use one of fsdp=4, tensor=2",
        ),
        (
            lambda s: s.donates("state"),
            "path 'state' is that of no array: there are params/down, params/up, x",
        ),
        (lambda s: s.is_sharded("up/*", P()), "path 'up/*' is that of no array"),
        (lambda s: s.peak_at_most("3 gigs"), "'3 gigs' is not a number of bytes: write it as"),
        (lambda s: s.takes_at_most("1 h", on="cpu:8"), "'1 h' is not a time: write it as"),
        (lambda s: s.takes_at_most("1 s", on="cpu:8"), "target 'cpu:8' has no predicted time"),
    ],
)
def test_an_expectation_that_could_not_fail_is_refused(step, call, sentence):
    with pytest.raises(RequestError) as error:
        call(step)
    assert str(error.value).startswith(sentence)


def test_a_step_that_was_compiled_before_is_not_compiled_again(step, monkeypatch, data_folder):
    args = steps.arguments(steps.devices())
    first = str(spmd_lab.expect(steps.train_step)(*args).on())
    from spmd_core.engine.step import here

    def compile_again(step):
        raise TypeError("compiled again")

    monkeypatch.setattr(here, "compiled_step", compile_again)
    assert str(spmd_lab.expect(steps.train_step)(*args).on()) == first
    with pytest.raises(TypeError, match="compiled again"):
        spmd_lab.expect(steps.train_step)(*steps.arguments(steps.devices(), up=("fsdp",))).on()


def test_without_a_folder_for_answers_a_step_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPMD_LAB_DATA", str(tmp_path / "file"))
    spmd_lab.expect(steps.train_step)(*steps.arguments(steps.devices())).has_no("all-to-all")

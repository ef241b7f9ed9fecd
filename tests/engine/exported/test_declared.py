"""Steps on pytrees that a file declares: exported with rules, or with the specs of a library."""

import textwrap

import pytest

from spmd_core.base import RequestError
from spmd_core.workloads import Program, take_declared

STEPS = """
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn
    from flax import nnx
    from jax.sharding import PartitionSpec as P

    from spmd_core.declare import workload

    X = jax.ShapeDtypeStruct((32, 64), jnp.float32)
    ADAM = optax.adam(1e-3)
    MESH = {"fsdp": 4, "tensor": 2}


    @workload(mesh=MESH, axes={"embed": "fsdp", "mlp": "tensor"}, donated=("params", "state"))
    def by_rules():
        params = {"blocks": [{"up": jax.ShapeDtypeStruct((64, 256), jnp.float32)}] * 2}

        def step(params, state, x):
            loss = lambda params: sum((x @ block["up"]).sum() for block in params["blocks"])
            updates, state = ADAM.update(jax.grad(loss)(params), state)
            return optax.apply_updates(params, updates), state

        given = {"params": params, "state": jax.eval_shape(ADAM.init, params), "x": X}
        return step, given, [(r"^params/.*/up$", ("embed", "mlp")), ("^x$", ("fsdp",))]


    @workload(mesh=MESH)
    def linen():
        start = nn.with_partitioning(nn.initializers.lecun_normal(), ("fsdp", "tensor"))
        model = nn.Dense(64, kernel_init=start)
        variables = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 64)))
        given = {"params": nn.unbox(variables), "x": X}
        specs = {"params": nn.get_partition_spec(variables)}
        return (lambda params, x: model.apply(params, x)), given, specs


    @workload(mesh=MESH)
    def new_flax():
        start = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("fsdp", "tensor"))
        with nnx.use_eager_sharding(False):
            model = nnx.eval_shape(lambda: nnx.Linear(64, 64, kernel_init=start, rngs=nnx.Rngs(0)))
        graph, state = nnx.split(model)
        specs = {"params": nnx.get_partition_spec(state), "x": P("fsdp")}
        return (lambda params, x: nnx.merge(graph, params)(x)), {"params": state, "x": X}, specs


    @workload(mesh=MESH, title="Mine")
    def equinox():
        model = eqx.filter_eval_shape(lambda key: eqx.nn.Linear(64, 64, key=key), jax.random.key(0))
        arrays, rest = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        step = lambda params, x: jax.vmap(eqx.combine(params, rest))(x)
        return step, {"params": arrays, "x": X}, [("weight$", ("fsdp", "tensor"))]
"""


@pytest.fixture
def declare(tmp_path, monkeypatch):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text))
        monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(path))

    return write


def test_steps_of_every_library_are_taken_as_they_are_sharded(declare):
    declare(STEPS)
    taken = {each.name: Program(each, each.mesh) for each in take_declared()}
    assert list(taken) == ["By rules", "Linen", "New flax", "Mine"]
    weights = {
        "By rules": "state/0/mu/blocks/1/up",
        "Linen": "params/params/kernel",
        "New flax": "params/kernel/value",
        "Mine": "params/weight",
    }
    for name, path in weights.items():
        program = taken[name]
        assert program.spec(program.described.leaves[path]) == (("fsdp",), ("tensor",)), name
    assert taken["By rules"].described.leaves["params/blocks/0/up"].is_donated


@pytest.mark.this_python
def test_a_step_that_cannot_be_exported_is_refused_in_one_sentence(declare):
    declare(
        """
        from spmd_core.declare import workload

        @workload(mesh={"x": 2})
        def mine():
            raise ValueError("no such size")
        """
    )
    with pytest.raises(RequestError, match=r"cannot be exported \(ValueError: no such size\)"):
        take_declared()


def test_a_step_that_prints_is_refused_in_a_sentence(declare):
    declare(
        """
        import jax
        from spmd_core.declare import workload

        @workload(mesh={"x": 2})
        def prints():
            def step(w):
                jax.debug.print("{}", w.sum())
                return w

            return step, {"w": jax.ShapeDtypeStruct((8,), "float32")}, [("w", ("x",))]
        """
    )
    why = "of this step calls back into Python, which no file carries: leave it out"
    with pytest.raises(RequestError, match=why):
        take_declared()

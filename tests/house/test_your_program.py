"""A step that its author exports by plain JAX, without anything of ours, is taken as well."""

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh
from spmd_core.workloads import programs

LINES = """
import inspect, pathlib
from collections import OrderedDict
import jax
from jax import export

donated = ("params", "opt_state")  # or ()
path_of = lambda path: jax.tree_util.keystr(path, simple=True, separator="/")
by_path = lambda tree: OrderedDict((path_of(at), leaf) for at, leaf in jax.tree_util.tree_flatten_with_path(tree)[0])
given = inspect.signature(step).bind(**arguments).arguments  # {"params": params, "opt_state": …, "batch": …}
arrays = [by_path({name: each}) for name, each in given.items()]
trees = [jax.tree.structure(each) for each in given.values()]
def flat(*arrays):
    return by_path(step(*(jax.tree.unflatten(tree, each.values()) for tree, each in zip(trees, arrays))))
program = jax.jit(flat, donate_argnums=[at for at, name in enumerate(given) if name in donated])
exported = export.export(program, platforms=["tpu", "cpu"])(*arrays)
pathlib.Path("step.jaxexport").write_bytes(exported.serialize())
"""


def test_the_lines_write_a_file_that_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optimizer, mesh = optax.adamw(1e-3), abstract_mesh({"x": 8})
    params = {"layers": [{"w": jax.ShapeDtypeStruct((64, 64), jnp.float32)}] * 2}

    def step(params, opt_state, batch):
        def loss(params):
            x = batch
            for layer in params["layers"]:
                x = jnp.tanh(x @ layer["w"])
            return (x**2).mean()

        gradients = jax.grad(loss)(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    def placed(leaf):
        spec = P("x") if leaf.ndim == 2 else P()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    state = jax.eval_shape(optimizer.init, params)
    batch = jax.ShapeDtypeStruct((16, 64), jnp.float32)
    arguments = {"params": params, "opt_state": state, "batch": batch}
    exec(LINES, {"step": step, "arguments": jax.tree.map(placed, arguments)})
    described = programs.take((tmp_path / "step.jaxexport").read_bytes())
    assert described.mesh == (("x", 8),) and described.platforms == ("tpu", "cpu")
    assert described.leaves["params/layers/1/w"].spec == (("x",), ())
    assert described.leaves["params/layers/1/w"].is_donated
    assert not described.leaves["batch"].is_donated
    assert described.optimizer["opt_state/0/mu/layers/0/w"] == "params/layers/0/w"

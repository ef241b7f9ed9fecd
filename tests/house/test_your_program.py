"""The lines of docs/your_program.md, pasted beside a step of optax: they need nothing of ours."""

import re

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh
from spmd_core.experiment import programs
from tests.layers import ROOT


def test_the_lines_write_a_file_that_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/your_program.md").read_text("utf-8")
    lines = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    assert "spmd" not in lines
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
    exec(lines, {"step": step, "arguments": jax.tree.map(placed, arguments)})
    described = programs.take((tmp_path / "step.jaxexport").read_bytes())
    assert described.mesh == (("x", 8),) and described.platforms == ("tpu", "cpu")
    assert described.leaves["params/layers/1/w"].spec == (("x",), ())
    assert described.leaves["params/layers/1/w"].is_donated
    assert not described.leaves["batch"].is_donated
    assert described.optimizer["opt_state/0/mu/layers/0/w"] == "params/layers/0/w"

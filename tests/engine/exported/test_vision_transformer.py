"""A vision transformer of Flax NNX whose MLPs alone are sharded: what is found of its step."""

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.lost_batches import judged_experiment, taken
from spmd_core.experiment import findings

pytestmark = pytest.mark.usefixtures("read_here")
MESH, WIDTH = abstract_mesh({"data": 4, "model": 2}), 256
SPECS = {"up/kernel": P(None, "model"), "down/kernel": P("model", None), "up/bias": P("model")}


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm1, self.norm2 = (nnx.LayerNorm(WIDTH, rngs=rngs) for _ in range(2))
        self.attn = nnx.MultiHeadAttention(4, WIDTH, decode=False, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Vision(nnx.Module):
    def __init__(self, rngs):
        self.patch = nnx.Conv(3, WIDTH, (4, 4), strides=4, padding="VALID", rngs=rngs)
        self.block = Block(rngs)
        self.head = nnx.Linear(WIDTH, 10, rngs=rngs)

    def __call__(self, x):
        x = self.patch(x)
        return self.head(self.block(x.reshape(x.shape[0], -1, WIDTH)).mean(1))


def made():
    model = Vision(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)


def array(shape, dtype, spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))


def placed(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    spec = next((spec for part, spec in SPECS.items() if part in name), P())
    return array(leaf.shape, leaf.dtype, spec)


def exported():
    graph, state = nnx.split(nnx.eval_shape(made))

    def step(state_, x, y):
        now = jax.tree.map(lambda leaf: leaf, state)
        nnx.replace_by_pure_dict(now, state_)
        model, optimizer = nnx.merge(graph, now)

        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return nnx.to_pure_dict(nnx.state((model, optimizer))), value

    state_ = jax.tree_util.tree_map_with_path(placed, nnx.to_pure_dict(state))
    x = array((32, 32, 32, 3), jnp.float32, P("data"))
    arguments = {"state_": state_, "x": x, "y": array((32,), jnp.int32, P("data"))}
    return written(step, arguments, donated=("state_",))


def test_outputs_that_the_compiler_shards_are_not_called_resharded():
    experiment = taken(exported())
    found = findings(experiment.exported)
    assert {each.kind for each in found} == {"replicated"}
    assert not [each.path for each in found if "/up/" in each.path or "/down/" in each.path]
    judged = judged_experiment(experiment)
    assert (judged.lost_batch, judged.accidents) == (None, ())

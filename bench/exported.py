"""Programs as somebody else would export them: by `jax.export`, on abstract arguments."""

import inspect
from collections import OrderedDict

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

SHAPES = {"embed": {"kernel": (4096, 256)}, "layers": [{"up": (256, 512), "down": (512, 256)}] * 2}
SPECS = {"kernel": P("tensor", "fsdp"), "up": P("fsdp", "tensor"), "down": P("tensor", "fsdp")}
MESH = {"fsdp": 4, "tensor": 2}


def abstract_mesh(sizes):
    """A mesh of no devices."""
    types = (AxisType.Auto,) * len(sizes)
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=types)


def written(step, arguments, platforms=("cpu", "tpu"), donated=(), outputs=None):
    """The bytes of an exported step whose arguments are pytrees of `jax.ShapeDtypeStruct`, by name;
    `outputs`: path of a result -> its sharding.
    """
    arguments = inspect.signature(step).bind(**arguments).arguments
    arrays = [_by_path({name: each}) for name, each in arguments.items()]
    trees = [jax.tree.structure(each) for each in arguments.values()]

    def flat(*arrays):
        given = zip(trees, arrays, strict=True)
        return _by_path(step(*(jax.tree.unflatten(tree, each.values()) for tree, each in given)))

    numbers = [at for at, name in enumerate(arguments) if name in donated]
    ordered = outputs and OrderedDict(
        (path, outputs[path]) for path in jax.eval_shape(flat, *arrays)
    )
    jitted = jax.jit(flat, donate_argnums=numbers, out_shardings=ordered)
    return bytes(export.export(jitted, platforms=list(platforms))(*arrays).serialize())


def _by_path(tree):
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return OrderedDict((_path(path), leaf) for path, leaf in leaves)


def _path(path):
    return jax.tree_util.keystr(path, simple=True, separator="/")


def sharded(shapes, mesh, specs=SPECS, dtype=jnp.float32):
    """Shapes as abstract arrays; the spec of each is that of its last key, replicated where none is
    given.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, shape: jax.ShapeDtypeStruct(
            shape, dtype, sharding=NamedSharding(mesh, specs.get(path[-1].key, P()))
        ),
        shapes,
        is_leaf=lambda node: isinstance(node, tuple),
    )


def sgd(params, moments, batch):
    """A step of momentum SGD on two layers behind a table."""

    def loss(params):
        x = params["embed"]["kernel"][batch]
        for layer in params["layers"]:
            x = x + jax.nn.relu(x @ layer["up"]) @ layer["down"]
        return jnp.mean(x**2)

    value, gradients = jax.value_and_grad(loss)(params)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradients)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), {"mu": moments}, value


def sgd_step(sizes=MESH, specs=SPECS, donated=("params", "moments"), **rest):
    """`sgd` as a file: parameters and moments of SHAPES on a mesh."""
    mesh = abstract_mesh(sizes)
    first = next(iter(sizes))
    batch = jax.ShapeDtypeStruct((16, 8), jnp.int32, sharding=NamedSharding(mesh, P(first)))
    params = sharded(SHAPES, mesh, specs)
    step = lambda params, moments, batch: sgd(params, moments["mu"], batch)  # noqa: E731
    arguments = {"params": params, "moments": {"mu": params}, "batch": batch}
    return written(step, arguments, donated=donated, **rest)

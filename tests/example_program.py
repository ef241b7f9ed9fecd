"""Writes the program that the Programs screen offers to try: python -m tests.example_program [FILE]

A step of momentum SGD as somebody else would export it, with what its author hardly meant: the
table is replicated, one layer is sharded otherwise than the others, and the moments are not donated.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P

from spmd_core.workloads import programs

FILE = Path(__file__).parent.parent / "spmd_core/recipes/example.jaxexport"
MESH = AbstractMesh((4, 2), ("fsdp", "tensor"))
VOCABULARY, EMBED, HIDDEN, LAYERS = 128_256, 4096, 14_336, 6
DONATED = "params"
NAME = "Example: a step of two-layer blocks"


def parameters() -> dict:
    """The parameters as abstract arrays, with their shardings."""

    def array(shape, *spec):
        sharding = NamedSharding(MESH, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    layers = [
        {
            "up": array((EMBED, HIDDEN), "fsdp", "tensor"),
            "down": array((HIDDEN, EMBED), "tensor", "fsdp"),
        }
        for _ in range(LAYERS)
    ]
    layers[3]["up"] = array((EMBED, HIDDEN), None, "tensor")
    return {"embed": array((VOCABULARY, EMBED)), "layers": layers}


def step(params: dict, moments: dict, tokens: jax.Array) -> dict:
    """One training step."""

    def loss(params: dict) -> jax.Array:
        x = params["embed"][tokens]
        x = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("fsdp")))
        for layer in params["layers"]:
            x = x + jax.nn.relu(x @ layer["up"]) @ layer["down"]
        return jnp.mean(x**2)

    value, gradients = jax.value_and_grad(loss)(params)
    moments = jax.tree.map(lambda moment, g: 0.9 * moment + g, moments, gradients)
    updated = jax.tree.map(lambda p, moment: p - 0.1 * moment, params, moments)
    return {"params": updated, "moments": moments, "loss": value}


def exported() -> bytes:
    """The file, by `jax.export`."""
    tokens = jax.ShapeDtypeStruct((64, 512), jnp.int32, sharding=NamedSharding(MESH, P("fsdp")))
    arguments = {"params": parameters(), "moments": parameters(), "tokens": tokens}
    leaves, tree = jax.tree_util.tree_flatten_with_path(arguments)
    arrays = {_path(path): leaf for path, leaf in leaves}

    def flat(**given: jax.Array) -> dict:
        results = step(**jax.tree.unflatten(tree, [given[path] for path in arrays]))
        return {
            _path(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(results)[0]
        }

    donated = [path for path in arrays if path.partition("/")[0] == DONATED]
    kept = {path: leaf.sharding for path, leaf in arrays.items() if path != "tokens"}
    kept |= {"loss": NamedSharding(MESH, P())}
    program = jax.jit(flat, donate_argnames=donated, out_shardings=kept)
    return bytes(export.export(program, platforms=["tpu", "cpu"])(**arrays).serialize())


def _path(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else FILE)
    file.write_bytes(exported())
    described = programs.take(file.read_bytes(), NAME)
    file.with_suffix(".json").write_text(described.model_dump_json(exclude_defaults=True))

"""Paths of the variables of Flax's NNX modules, which `nnx.jit` passes on by number."""

import sys
from collections.abc import Sequence
from typing import Any

import jax

Paths = dict[str, str]  # as JAX has them -> as the module has them


def variable_paths(args: Sequence[Any], positional: Sequence[Any], names: Sequence[str]) -> Paths:
    """Returns the paths of the leaves of modules among the arguments, such as `0/states/0/3` ->
    `model/up/kernel`; none of a module whose leaves are not those of its state, in order.

    Args:
        args: the arguments that the step is given.
        positional: the same as JAX has them: pytrees of `ArgInfo`.
        names: of the arguments.
    """
    nnx = sys.modules.get("flax.nnx")
    paths: Paths = {}
    if nnx is None or len(args) != len(positional):
        return paths
    for place, (given, traced) in enumerate(zip(args, positional, strict=True)):
        if not isinstance(given, nnx.Module | nnx.Optimizer):
            continue
        flat = list(nnx.to_flat_state(nnx.state(given)))
        leaves = jax.tree_util.tree_flatten_with_path(traced)[0]
        shapes = [tuple(variable.shape) for _, variable in flat]
        if shapes == [tuple(leaf.shape) for _, leaf in leaves]:
            for (path, _), (own, _) in zip(leaves, flat, strict=True):
                text = jax.tree_util.keystr(path, simple=True, separator="/")
                paths[f"{place}/{text}"] = "/".join((names[place], *map(str, own)))
    return paths

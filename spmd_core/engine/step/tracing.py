"""Traces a step in the form that its author has it: jitted by JAX or by a library, or not at all."""

import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding

from spmd_core.base import refuse
from spmd_core.engine.step.equations import callbacks_of

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


_WRAPPED = ("traced", "_traced")  # where a library's own class keeps JAX's `Traced`
_NAME = re.compile(r"[A-Za-z_]\w*")
_VALUE = re.compile(r"(/value|/raw_value|/_raw_value)+$")  # of NNX's variables


@dataclass(frozen=True)
class TracedStep:
    """A traced step, and the path of each of its arrays, in order.

    Attributes:
        traced: JAX's `Traced`.
        arguments: paths of the arguments, such as `params/layers/0/up`.
        outputs: paths of the results.
        function: the step's own name.
    """

    traced: Any
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    function: str


def trace(step: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedStep:
    """Trace a step. What JAX raises while it traces is raised unchanged."""
    while isinstance(step, functools.partial):
        step, args, kwargs = step.func, (*step.args, *args), {**step.keywords, **kwargs}
    if (function := getattr(step, "__func__", None)) and hasattr(step, "trace"):
        step, args = function, (getattr(step, "__self__", None), *args)  # its `trace` binds nothing
    if not callable(step):
        kind = type(step).__name__
        raise refuse(f"a step of type {kind}", "cannot be called", "pass a function, jitted or not")
    name = str(getattr(step, "__name__", type(step).__name__))
    if type(step).__module__.partition(".")[0] == "equinox" and hasattr(step, "donate_first"):
        jitted: Any = step
        donated = (jitted.donate_first, jitted.donate_rest)
        return _filtered(jitted.__wrapped__, args, kwargs, name, lambda at: donated[at > 0])
    if not hasattr(step, "trace"):
        if _any_of("flax.nnx", "Pytree", (args, kwargs)):
            step = sys.modules["flax.nnx"].jit(step)
        elif _has_others((args, kwargs)):
            return _filtered(step, args, kwargs, name, lambda at: False)
        else:
            step = jax.jit(step)
    traced = step.trace(*args, **kwargs)  # pyrefly: ignore[missing-attribute]
    while not hasattr(traced, "jaxpr"):  # a library's, around JAX's own
        traced = next(getattr(traced, name) for name in _WRAPPED if hasattr(traced, name))
    names = _argument_names(traced)
    variables = variable_paths(args, traced.args_info[0], names)
    arguments, outputs = (
        [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
        for tree in (traced.args_info, traced.out_info)
    )
    # `nnx.jit` returns its arguments first, since it updates modules in place
    results = (variables.get(_plain(path[1:])) or _text(path) for path in outputs)
    return TracedStep(
        traced,
        _apart(variables.get(_plain(path[1:])) or _named(path, names) for path in arguments),
        _apart(results),
        name,
    )


def _any_of(module: str, name: str, tree: Any) -> bool:
    """Whether a tree has an instance of a class of a library, which is not imported for this."""
    kind = getattr(sys.modules.get(module), name, None)
    if kind is None:
        return False
    is_one: Callable[[Any], bool] = lambda each: isinstance(each, kind)  # noqa: E731
    return any(map(is_one, jax.tree.leaves(tree, is_leaf=is_one)))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic)


def _has_others(tree: Any) -> bool:
    numbers = bool | int | float | complex
    return not all(_is_array(leaf) or isinstance(leaf, numbers) for leaf in jax.tree.leaves(tree))


def _filtered(
    step: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str,
    is_donated: Callable[[int], bool],
) -> TracedStep:
    """Trace a step whose arguments and results hold other things than arrays: these are static."""
    leaves, tree = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    given = [(path, leaf) for path, leaf in leaves if _is_array(leaf)]
    outputs: list[str] = []

    @functools.wraps(step)
    def flat(*arrays: Any) -> list[Any]:
        filled = iter(arrays)
        every = [next(filled) if _is_array(leaf) else leaf for _, leaf in leaves]
        call = jax.tree.unflatten(tree, every)
        results = jax.tree_util.tree_flatten_with_path(step(*call[0], **call[1]))[0]
        kept = [(path, leaf) for path, leaf in results if isinstance(leaf, jax.Array | np.ndarray)]
        outputs[:] = [_text(path) for path, _ in kept]
        return [leaf for _, leaf in kept]

    del flat.__wrapped__  # whose signature JAX would bind the arrays to
    # the place of each leaf's argument: one that is passed by name is after all
    places = [path[1].idx if path[0].idx == 0 else sys.maxsize for path, _ in given]
    donated = [at for at, place in enumerate(places) if is_donated(place)]
    traced = jax.jit(flat, donate_argnums=donated).trace(*(leaf for _, leaf in given))
    names = _parameters(step)
    paths = [_named(path, names) for path, _ in given]
    return TracedStep(traced, _apart(paths), _apart(outputs), name)


def _parameters(step: Callable[..., Any]) -> list[str]:
    code = getattr(getattr(step, "__func__", step), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code else []
    return names[1:] if hasattr(step, "__self__") else names


def _named(path: Sequence[Any], names: Sequence[str]) -> str:
    """The path of a leaf of (args, kwargs), led by the name of its argument."""
    (kind, place), rest = path[:2], path[2:]
    if kind.idx == 0 and place.idx < len(names):
        name: str = names[int(place.idx)]
        return f"{name}/{_text(rest)}" if rest else name
    return _text(path[1:])


def _argument_names(traced: Any) -> list[str]:
    positional = traced.args_info[0]
    numbered = jax.tree.unflatten(
        jax.tree.structure(positional), range(len(jax.tree.leaves(positional)))
    )
    every = list(traced.jaxpr.debug_info.arg_names or ())
    names = []
    for place, each in enumerate(numbered):
        leaves = jax.tree.leaves(each)
        text = str(every[leaves[0]]) if leaves and leaves[0] < len(every) else ""
        match = _NAME.match(text)
        names.append(match[0] if match else str(place))
    return names if len(set(names)) == len(names) else [str(at) for at in range(len(names))]


def _plain(path: Sequence[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def _text(path: Sequence[Any]) -> str:
    return _VALUE.sub("", _plain(path)) or "output"


def _apart(paths: Iterable[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    apart = []
    for path in paths:
        seen[path] = seen.get(path, 0) + 1
        apart.append(path if seen[path] == 1 else f"{path}~{seen[path]}")
    return tuple(apart)


def abstract_mesh(tree: Any) -> dict[str, int] | None:
    """The mesh of arguments over an `AbstractMesh`, which no devices are known of; else None."""
    for leaf in jax.tree.leaves(tree):
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
            return dict(sharding.mesh.shape) if sharding.mesh.size > 1 else None
    return None


def more_facts(step: TracedStep) -> dict[str, Any]:
    """What an exported file does not hold: the types of the mesh's axes, too."""
    shardings = (getattr(aval, "sharding", None) for aval in step.traced.jaxpr.in_avals)
    meshes = (each.mesh for each in shardings if isinstance(each, NamedSharding))
    mesh = next((each for each in meshes if not each.empty), None)
    types = tuple(str(each.name) for each in mesh.axis_types) if mesh is not None else ()
    return {"axis_types": types, "callbacks": callbacks_of(step.traced.jaxpr)}

"""Exports the steps that a file of the user's own declares, in a process of its own: `python -m
spmd_core.engine.exported.declared FD PATH FOLDER`. Nothing is allocated: arguments are abstract.
"""

import json
import re
import runpy
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import jax
from jax import export
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from spmd_core.base import RequestError, answer, refuse
from spmd_core.workloads import DeclaredStep, declared_steps

Rule = tuple[str, Any]
Arrays = dict[str, jax.ShapeDtypeStruct]
_CALLBACK = re.compile(r"debug_print|(?:debug|pure|io)_callback")


def report(path: Path, folder: Path) -> str:
    """Write each step to FOLDER, by number; their titles as JSON, or the problem in one line."""
    try:
        runpy.run_path(str(path), run_name=path.stem)
        for number, step in enumerate(declared_steps):
            (folder / f"{number}.jaxexport").write_bytes(exported(step))
        return json.dumps({"titles": [step.title for step in declared_steps]})
    except BaseException as error:  # SystemExit too: whatever the file or JAX raises
        kind = "" if isinstance(error, RequestError) else f"{type(error).__name__}: "
        return json.dumps({"problem": f"{kind}{' '.join(str(error).split())[:300]}"})


def exported(step: DeclaredStep) -> bytes:
    """The bytes of a step, its arguments sharded by its rules: each is a dict path -> array, in the
    order that the step has.
    """
    function, arguments, rules = step.function()
    given = iter(arguments_of(arguments, rules, step).items())
    trees = {name: jax.tree.structure(each) for name, each in arguments.items()}
    arrays = [OrderedDict(islice(given, tree.num_leaves)) for tree in trees.values()]

    def flat(*arrays: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        trees_of = zip(trees.items(), arrays, strict=True)
        named = {name: jax.tree.unflatten(tree, each.values()) for (name, tree), each in trees_of}
        return OrderedDict((_path(path), leaf) for path, leaf in _leaves(function(**named)))

    donated = [at for at, name in enumerate(trees) if name in step.donated]
    program = jax.jit(flat, donate_argnums=donated)
    try:
        return bytes(export.export(program, platforms=list(step.platforms))(*arrays).serialize())
    except Exception as error:  # of a callback it names another cause
        if (called := _CALLBACK.search(str(program.trace(*arrays).jaxpr))) is None:
            raise
        raise refuse(
            f"jax.{called[0]} of this step",
            "calls back into Python, which no file carries",
            "leave it out",
        ) from error


def arguments_of(arguments: Any, rules: Any, step: DeclaredStep) -> Arrays:
    """Path -> abstract array of each argument. `rules` are pairs of a regular expression on the
    path and the dims of the array, or pytrees of PartitionSpec by argument; what none names takes
    the spec of a path that ends alike, such as a parameter's moments, else it is replicated.
    """
    types = (AxisType.Auto,) * len(step.mesh)
    mesh = AbstractMesh(tuple(step.mesh.values()), tuple(step.mesh), axis_types=types)
    shapes = {
        _path(path): jax.eval_shape(lambda leaf=leaf: leaf)
        for name, argument in arguments.items()
        for path, leaf in _leaves({name: argument})
    }
    pairs = list(_rules(rules))
    specs = {
        path: spec
        for path in shapes
        if (spec := next((spec for rule, spec in pairs if re.search(rule, path)), None)) is not None
    }
    by_tail = {
        (tail, shapes[path].shape): spec for path, spec in specs.items() for tail in _tails(path)
    }
    placed = {}
    for path, leaf in shapes.items():
        tails = ((tail, leaf.shape) for tail in _tails(path))
        alike = next((by_tail[tail] for tail in tails if tail in by_tail), ())
        spec = _spec(specs.get(path, alike), step)
        placed[path] = jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)
        )
    return placed


def _rules(rules: Any) -> Iterator[Rule]:
    for name, value in rules.items() if isinstance(rules, Mapping) else rules or ():
        if isinstance(value, PartitionSpec) or (
            isinstance(value, tuple)
            and all(each is None or isinstance(each, str | tuple) for each in value)
        ):
            yield name, value
            continue
        is_spec: Callable[[Any], bool] = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
        for path, spec in jax.tree_util.tree_flatten_with_path(value, is_leaf=is_spec)[0]:
            if is_spec(spec):
                inner = _path(path).removesuffix("/value")
                yield f"^{re.escape(name)}/{re.escape(inner)}(/value)?$", spec


def _spec(dims: Any, step: DeclaredStep) -> PartitionSpec:
    """Dims by name as mesh axes: by the step's table, else those that are named as an axis."""

    def axes(name: Any) -> Any:
        if isinstance(name, tuple):
            return tuple(axis for each in name if (axis := axes(each)) is not None) or None
        return step.axes.get(name, name if name in step.mesh else None)

    return PartitionSpec(*map(axes, dims))


def _leaves(tree: Any) -> list[Any]:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _tails(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))


if __name__ == "__main__":
    answer(lambda: report(Path(sys.argv[2]), Path(sys.argv[3])))

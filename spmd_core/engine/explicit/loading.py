"""Loads a user's files as they are being edited, and traces the step that one of them returns."""

import builtins
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import source_info_util
from jax.sharding import AxisType, Mesh, NamedSharding

from spmd_core.base import refuse
from spmd_core.engine.explicit import attempt, fixes, watch as watching
from spmd_core.engine.explicit.source import WATCH, EditedFile
from spmd_core.engine.explicit.watch import Watch
from spmd_core.engine.exported.declared import arguments_of
from spmd_core.engine.step import tracing
from spmd_core.workloads import declared_steps

_OWN = Path(__file__).resolve().parents[2]
_LIBRARIES = ("site-packages", "dist-packages", sys.base_prefix, sys.prefix)
_FILE = "spmd_explicit_file"
for _module in (attempt, fixes, watching):  # JAX's source lines are those of the user's files
    source_info_util.register_exclusion(str(_module.__file__))


@dataclass
class Loader:
    """A named function of the user's, and the sources of the files that it is in.

    Attributes:
        name: `package.module:function`, `path.py:function`, or `path.py`.
        root: the folder whose files are the user's.
        sources: the files that were loaded, by path.
        mesh: that of the step as it was traced last.
    """

    name: str
    root: Path
    sources: dict[str, EditedFile] = field(default_factory=dict)
    mesh: Mesh | None = None

    def use(self, texts: Mapping[str, str]) -> None:
        """Have files with other texts; those that are not named as they were."""
        for path, source in self.sources.items():
            source.put(texts.get(path, source.original))

    def trace(self, watch: Watch | None) -> tuple[tracing.TracedStep, Any, Mesh]:
        """Load the files, and trace the step: on a mesh with the watch's axis types, or with those
        of the files. The traced step, what it is called with, and the mesh.
        """
        jax.clear_caches()
        with self._loaded(watch):
            axis_type = watch.axis_type if watch else None
            try:
                step, args, kwargs = self._made()
            except Exception:  # as flax's init, once its module has specs, which find no mesh
                if self.mesh is None:
                    raise
                with jax.set_mesh(self.mesh):
                    step, args, kwargs = self._made()
            mesh = self.mesh = mesh_of((args, kwargs), axis_type)
            args, kwargs = jax.tree.map(lambda leaf: _placed(leaf, mesh), (args, kwargs))
            with jax.set_mesh(mesh):
                return tracing.trace(step, args, kwargs), (args, kwargs), mesh

    def _made(self) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
        path, _, function = self.name.partition(":")
        if path.endswith(".py"):
            made = _of_file(path, function)
        else:
            made = pkgutil.resolve_name(self.name)()
        if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
            raise refuse(self.name, "returns no (step, arguments)", "return both")
        step, given = made
        return (step, (), given) if isinstance(given, dict) else (step, tuple(given), {})

    def _is_own(self, path: str) -> bool:
        inside = Path(path).resolve()
        is_library = any(part in str(inside) for part in _LIBRARIES)
        return self.root in inside.parents and not is_library and _OWN not in inside.parents

    @contextmanager
    def _loaded(self, watch: Watch | None) -> Iterator[None]:
        """Files of the user's are loaded from their edited sources, for a while."""
        kind: Any = importlib.machinery.SourceFileLoader
        before, modules = kind.get_code, set(sys.modules)

        def get_code(loader: Any, name: str) -> Any:
            path = str(loader.get_filename(name))
            if not self._is_own(path):
                return before(loader, name)
            source = self._source(path)
            if watch is None:
                return compile(source.text, path, "exec")
            tree = source.watched(first=len(watch.sites))
            watch.sites |= source.sites
            watch.sources[path] = source
            return compile(tree, path, "exec")

        kind.get_code = get_code
        setattr(builtins, WATCH, watch)
        setattr(builtins, "jax", jax)  # noqa: B010 - the line that imports it is added last
        declared_steps.clear()
        try:
            yield
        finally:
            kind.get_code = before
            for name in set(sys.modules) - modules:
                path = getattr(sys.modules[name], "__file__", None)
                if path and self._is_own(path):
                    del sys.modules[name]

    def _source(self, path: str) -> EditedFile:
        if path not in self.sources:
            try:
                text = Path(path).read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                raise refuse(path, f"is no UTF-8 ({error.reason})", "store it so") from error
            self.sources[path] = EditedFile(path, text, text)
        return self.sources[path]


def _of_file(path: str, function: str) -> Any:
    """The step and arguments of a file: its function of that name, else what it declares, else `step`."""
    spec = importlib.util.spec_from_file_location(_FILE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_FILE] = module
    try:
        spec.loader.exec_module(module)
        if not function and declared_steps:
            step = declared_steps[0]
            made, arguments, rules = step.function()
            flat = iter(arguments_of(arguments, rules, step).values())
            return made, jax.tree.map(lambda _: next(flat), arguments)
        named = getattr(module, function or "step", None)
        if named is None:
            rule = f"has no function {function or 'step'}, and declares no step"
            raise refuse(path, rule, "name one: path.py:function")
        return named()
    finally:
        sys.modules.pop(_FILE, None)


def mesh_of(tree: Any, axis_type: AxisType | None) -> Mesh:
    """The mesh of a step's arguments, of devices that are here.

    Raises:
        RequestError: no argument is sharded, or there are too few devices.
    """
    shardings = (getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(tree))
    meshes = (each.mesh for each in shardings if isinstance(each, NamedSharding))
    mesh: Any = next((each for each in meshes if not each.empty), None)
    if mesh is None:
        raise refuse(
            "this step",
            "has no sharded argument, so that no type of it names an axis",
            "give arguments a NamedSharding over a mesh",
        )
    if AxisType.Manual in mesh.axis_types:
        raise refuse(f"mesh {dict(mesh.shape)}", "has Manual axes", "pass what shard_map is given")
    here = jax.devices()
    if mesh.size > len(here):
        fix = f"name --target cpu:{mesh.size}"
        raise refuse(f"a mesh of {mesh.size} devices", f"does not fit the {len(here)} here", fix)
    types = (axis_type,) * len(mesh.axis_names) if axis_type is not None else mesh.axis_types
    devices: Any = np.asarray(here[: mesh.size]).reshape(*mesh.shape.values())
    if isinstance(mesh, Mesh):
        devices = mesh.devices
    return Mesh(devices, mesh.axis_names, axis_types=types)


def _placed(leaf: Any, mesh: Mesh) -> Any:
    """An abstract array in the place of an argument: nothing is allocated."""
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return leaf
    sharding = leaf.sharding
    placed = NamedSharding(mesh, sharding.spec) if isinstance(sharding, NamedSharding) else None
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placed)


def read_request(request: Mapping[str, Any]) -> Loader:
    """The loader of a named function, whose folder is on the path.

    Raises:
        RequestError: there is no such function.
    """
    name, folder = request["name"], request["folder"]
    sys.path.insert(0, folder)
    path, _, _ = name.partition(":")
    if path.endswith(".py"):
        file = Path(folder, path).resolve()
        if not file.is_file():
            raise refuse(path, "is no file", "name one that is there")
        sys.path.insert(0, str(file.parent))
        return Loader(name.replace(path, str(file), 1), _root(file))
    try:
        spec = importlib.util.find_spec(path)
    except (ModuleNotFoundError, ValueError) as error:
        raise refuse(name, f"is not there ({error})", "correct it") from None
    if spec is None or spec.origin is None or ":" not in name:
        raise refuse(name, "is no package.module:function", "name both")
    return Loader(name, _root(Path(spec.origin).resolve()))


def _root(file: Path) -> Path:
    marks = (".git", "pyproject.toml", "setup.py")
    roots = (each for each in file.parents if any((each / mark).exists() for mark in marks))
    return next(roots, file.parent)

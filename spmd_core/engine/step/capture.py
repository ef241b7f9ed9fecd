"""Exports a traced step for another process, as `jax.export` would, whatever its pytrees are."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from jax._src import config, xla_bridge
from jax._src.export import _export
from jax._src.interpreters import mlir, pxla

from spmd_core.base import refuse
from spmd_core.engine.exported.leaves import paths_tree
from spmd_core.engine.exported.module import serialized
from spmd_core.engine.step.equations import lowering_rules, without_devices
from spmd_core.engine.step.tracing import TracedStep

_guard = threading.RLock()


@contextmanager
def instead(module: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """This thread calls `function` where it calls `module.name`; other threads go on as before."""
    own = threading.get_ident()
    with _guard:
        before = getattr(module, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            chosen = function if threading.get_ident() == own else before
            return chosen(*args, **kwargs)

        setattr(module, name, called)
        try:
            yield
        finally:
            setattr(module, name, before)


class _NoBackend:
    """What JAX reads of the backend of a default device, where no device is used."""

    platform = ""

    def device_count(self) -> int:
        """One: no more than a process has without accelerators."""
        return 1

    def devices(self) -> list[Any]:
        """What JAX 0.8 counts processes by."""
        return [_NoDevice()]


class _NoDevice:
    client, process_index = _NoBackend(), 0


def exported(step: TracedStep, *platforms: str) -> bytes:
    """Returns the file of a step for these platforms. No backend is started, and nothing runs. Its
    arguments and results are by path: nodes of a library's own cannot be written to a file.
    """
    parameters = mlir.LoweringParameters(
        override_lowering_rules=lowering_rules(),  # pyright: ignore[reportArgumentType]
        for_export=True,
        hoist_constants_as_args=False,
        export_ignore_forward_compatibility=config.export_ignore_forward_compatibility.value,
    )
    with without_devices(), without_backend():
        lowered = step.traced.lower(lowering_platforms=platforms, _private_parameters=parameters)
    try:
        with instead(_export, "_module_to_bytecode", serialized):  # JAX's own asks a backend how
            program = _export._export_lowered(lowered, step.traced.jaxpr, step.function)
        named = replace(
            program,
            in_tree=paths_tree(step.arguments, True),
            out_tree=paths_tree(step.outputs),
            ordered_effects=(),  # of callbacks, which are not there any more
            unordered_effects=(),
        )
        return bytes(named.serialize())
    except (NotImplementedError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        fix = "leave the target out, so that it is compiled on the devices that are here"
        raise refuse("this step", f"cannot be exported ({reason})", fix) from error


def text_of(step: TracedStep) -> bytes:
    """Returns the StableHLO of a step with its locations, its devices and the paths of its arrays:
    what a compile on the devices that are here depends on.
    """
    lowered = step.traced.lower()
    devices = [str(each) for each in xla_bridge.devices()]
    names = (step.arguments, step.outputs, step.function, devices)
    return f"{lowered.as_text(debug_info=True)}{names}".encode()


def without_backend() -> AbstractContextManager[Any]:
    """Keeps JAX from starting a backend for a default device that a mesh without devices has no use
    for; where one is started, nothing changes.
    """
    if xla_bridge.backends_are_initialized():
        return nullcontext()
    return instead(pxla, "get_default_device", _NoDevice)

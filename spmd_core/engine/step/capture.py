"""Exports a traced step for another process, as `jax.export` would, whatever its pytrees are; and reads
how propagation shards the values that `checkpoint_name` names.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from jax._src import config, xla_bridge
from jax._src.ad_checkpoint import name_p
from jax._src.export import _export
from jax._src.interpreters import mlir, pxla
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy, stablehlo

from spmd_core.base import refuse
from spmd_core.engine.exported.leaves import of_sharding, paths_tree
from spmd_core.engine.exported.module import serialized
from spmd_core.engine.step.equations import equations, lowering_rules, without_devices
from spmd_core.engine.step.tracing import TracedStep
from spmd_core.results import NamedValue

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


_NAME = "spmd.name"


def named_values(step: TracedStep) -> tuple[NamedValue, ...]:
    """Returns the values with a name, each as often as the step computes it. Nothing is compiled:
    they are those of the program that is requested.
    """
    if not any(each.primitive is name_p for each, _ in equations(step.traced.jaxpr)):
        return ()
    parameters = mlir.LoweringParameters(override_lowering_rules=((name_p, _marked), *lowering_rules()))  # fmt: skip  # pyright: ignore[reportArgumentType]
    with without_devices(), without_backend():
        lowered = step.traced.lower(lowering_platforms=("cpu",), _private_parameters=parameters)
    own = lowered.compiler_ir("stablehlo")
    with own.context:
        module = ir.Module.parse(own.operation.get_asm())
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(module.operation)  # fmt: skip
        values: list[NamedValue] = []

        def keep(op: Any) -> Any:
            if _NAME in op.attributes:
                values.append(_read(op))
            return ir.WalkResult.ADVANCE

        module.operation.walk(keep)
    return tuple(values)


def _marked(ctx: Any, value: Any, *, name: str) -> list[Any]:
    """A barrier of the compiler, which takes the name, and the sharding of what is named."""
    op = stablehlo.OptimizationBarrierOp([value])
    op.operation.attributes[_NAME] = ir.StringAttr.get(name)
    return list(op.results)


def _read(op: Any) -> NamedValue:
    kind = ir.RankedTensorType(op.results[0].type)
    name = ir.StringAttr(op.attributes[_NAME]).value
    spec: Any = ((),) * int(kind.rank)
    if "sdy.sharding" in op.attributes:
        (sharding,) = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings
        spec = of_sharding(sharding, None)
    dims = spec and tuple(dim if len(dim) > 1 else next(iter(dim), None) for dim in spec)
    return NamedValue(name, tuple(kind.shape), dims)

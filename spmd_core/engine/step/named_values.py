"""The values of a traced step that `checkpoint_name` names, as Shardy's propagation shards them."""

from typing import Any

from jax._src.ad_checkpoint import name_p
from jax._src.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy, stablehlo

from spmd_core.engine.exported.leaves import of_sharding
from spmd_core.engine.step.capture import without_backend
from spmd_core.engine.step.equations import equations, lowering_rules, without_devices
from spmd_core.engine.step.tracing import TracedStep
from spmd_core.results import NamedValue

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

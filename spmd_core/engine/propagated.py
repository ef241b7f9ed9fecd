"""Returns how propagation alone shards the values of a program; no pass of XLA's runs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.engine.exported.constrained import own_line
from spmd_core.engine.exported.leaves import of_sharding
from spmd_core.engine.exported.lower import meshed, quoted_files
from spmd_core.engine.partitioned import lowered
from spmd_core.experiment import Experiment, type_text
from spmd_core.runs import Partitioned


def propagated(experiment: Experiment, strategy: str) -> Partitioned:
    """Returns the types of the values of a strategy's program as propagation shards them. Its
    collectives are the compiler's: those that Shardy makes of the same shardings are others.
    """
    if program := experiment.exported:
        kind = experiment.place.kind
        module = meshed(program, kind if kind in ("tpu", "gpu") else "cpu", runs=False)
    else:
        module = lowered(experiment, strategy).compiler_ir("stablehlo")
    files = quoted_files(experiment, strategy)
    with module.context:
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(
            module.operation
        )
        values = Counter(_values(module.operation, (files,) if isinstance(files, str) else files))
    return Partitioned(collectives=(), values=tuple((*of, n) for of, n in values.items()))


def _values(op: Any, files: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields the source line and the type of each value that an operation's regions compute."""
    for each in (each.operation for region in op.regions for block in region for each in block):
        yield from _values(each, files)
        if not each.name.startswith("stablehlo."):
            continue
        line = own_line(str(each.location), files)
        given: list[Any] = [None] * len(each.results)
        if "sdy.sharding" in each.attributes:
            given = [*sdy.TensorShardingPerValueAttr(each.attributes["sdy.sharding"]).shardings]
        for kind, sharding in zip((result.type for result in each.results), given, strict=True):
            if isinstance(kind, ir.RankedTensorType):
                shape = tuple(kind.shape)
                spec = ((),) * len(shape) if sharding is None else of_sharding(sharding, None)
                element = str(kind.element_type)
                yield line, (str(sharding) if spec is None else type_text(element, shape, spec))

"""Returns how propagation alone shards the values of a program; no pass of XLA's runs."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from spmd_core.engine.exported.constrained import own_line
from spmd_core.engine.exported.leaves import of_sharding, propagate
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
    own, values = (files,) if isinstance(files, str) else files, Counter[tuple[str, str]]()
    with module.context:
        propagate(module)
        for (location, types, shardings), number in Counter(_alike(module.operation)).items():
            line = own_line(location, own)
            for of in _type_texts(types, shardings):
                values[line, of] += number
    return Partitioned(collectives=(), values=tuple((*of, n) for of, n in values.items()))


def _alike(op: Any) -> Iterator[tuple[str, tuple[ir.Type, ...], ir.Attribute | None]]:
    """Yields the location, types and shardings of each operation that an operation's regions have:
    of many that are alike, text is made once.
    """
    for each in (each.operation for region in op.regions for block in region for each in block):
        if each.regions:
            yield from _alike(each)
        if each.name.startswith("stablehlo.") and each.name != "stablehlo.constant":
            shardings = each.attributes.get("sdy.sharding")
            yield str(each.location), tuple(of.type for of in each.results), shardings


def _type_texts(types: tuple[ir.Type, ...], shardings: ir.Attribute | None) -> Iterator[str]:
    given: list[Any] = [None] * len(types)
    if shardings is not None:
        given = [*sdy.TensorShardingPerValueAttr(shardings).shardings]
    for kind, sharding in zip(types, given, strict=True):
        if isinstance(kind, ir.RankedTensorType):
            shape = tuple(kind.shape)
            spec = ((),) * len(shape) if sharding is None else of_sharding(sharding, None)
            element = re.sub("^i1$", "bool", str(kind.element_type).replace("ui", "u"))
            yield str(sharding) if spec is None else type_text(element, shape, spec)

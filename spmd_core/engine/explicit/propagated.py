"""Reads how Shardy shards the probed values of a program under Auto axes."""

import re
from collections import defaultdict
from contextlib import suppress
from typing import Any

import jax
from jax.sharding import PartitionSpec
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.engine.explicit.watch import Key, Watch
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.exported.leaves import of_sharding
from spmd_core.fields import Spec

_PROBE = re.compile(r"spmd_probe_(\d+)_(\d+)_")


def wanted_specs(traced: Any, watch: Watch) -> dict[Key, list[Any]]:
    """The specs of each expression's result, as propagation leaves them; the first where it is
    evaluated several times alike. Nothing is compiled.
    """
    module = traced.lower().compiler_ir("stablehlo")
    specs: dict[tuple[int, int], PartitionSpec] = {}
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True), module.context)
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(
            copy.operation
        )
        for op in operations(copy.operation):  # the last first: of several alike the first stays
            if op.name == "stablehlo.optimization_barrier":
                _probed(op, specs)
    wanted: dict[Key, list[Any]] = defaultdict(list)
    for number, (key, tree, dims) in enumerate(watch.probed):
        given = [specs.get((number, at), PartitionSpec()) for at in range(len(dims))]
        with suppress(IndexError):  # a leaf has no sharding that is known
            leaves = [PartitionSpec(*(spec[dim] for dim in own)) for spec, own in zip(given, dims, strict=True)]  # fmt: skip
            made = jax.tree.unflatten(tree, leaves)
            if made not in wanted[key]:
                wanted[key].append(made)
    return wanted


def _probed(op: Any, specs: dict[tuple[int, int], PartitionSpec]) -> None:
    location = str(op.location)
    match = _PROBE.search(location)
    if match is None or "transpose(" in location[: match.start()].rpartition('"')[2]:
        return
    rank = len(ir.RankedTensorType(op.results[0].type).shape)
    spec: Spec | None = ((),) * rank
    if "sdy.sharding" in op.attributes:
        given = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"])
        spec = of_sharding(given.shardings[0], None)
    if spec is not None:
        named = PartitionSpec(*(axes or None for axes in spec))
        specs[int(match[1]), int(match[2])] = named

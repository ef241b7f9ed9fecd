"""Returns the collectives that Shardy makes of a program's shardings; no pass of XLA's runs."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.engine.exported.constrained import own_line
from spmd_core.engine.exported.leaves import PASSES, of_sharding
from spmd_core.engine.exported.lower import meshed, quoted_files
from spmd_core.engine.partitioned import lowered
from spmd_core.experiment import Experiment, type_text
from spmd_core.runs import Partitioned, Requested

_EXPLICIT = (
    "sdy-close-shardings,func.func(sdy-insert-explicit-reshards{enable-full-version=true},"
    "sdy-reshard-to-collectives,cse)"
)
# of each operation the attribute that names its axes; a permute has those of its sharding
_AXES = {
    "all_gather": "gathering_axes",
    "all_reduce": "reduction_axes",
    "reduce_scatter": "reduce_scatter_axes",
    "all_to_all": "params",
    "collective_permute": "out_sharding",
}
_DIM, _AXIS, _NUMBER = (re.compile(each) for each in (r"\{([^}]*)\}", r'"([^"]*)"', r": (\d+)->"))


def propagated(experiment: Experiment, strategy: str) -> Partitioned:
    """Returns the collectives of a strategy's program as propagation alone requests them, on logical
    arrays: those that the compiler leaves, and those that it merges or moves away.
    """
    if program := experiment.exported:
        kind = experiment.place.kind
        module = meshed(program, kind if kind in ("tpu", "gpu") else "cpu", runs=False)
    else:
        module = lowered(experiment, strategy).compiler_ir("stablehlo")
    with module.context:
        passes = f"builtin.module({PASSES},{_EXPLICIT})"
        passmanager.PassManager.parse(passes).run(module.operation)
        files = quoted_files(experiment, strategy)
        requests = _Requests(
            ir.SymbolTable(module.operation),
            (files,) if isinstance(files, str) else files,
            dict(experiment.mesh),
        )
        made = tuple(requests.collectives(ir.SymbolTable(module.operation)["main"].operation))
    return Partitioned(collectives=made, is_propagated=True)


@dataclass(frozen=True)
class _Requests:
    """Walks a module along its calls; `times` is how often a step runs what it is in."""

    functions: Any
    files: tuple[str, ...]
    sizes: dict[str, int]
    times: int | None = 1

    def collectives(self, op: Any) -> Iterator[Requested]:
        """Yields the collectives of an operation's regions."""
        for each in (each.operation for region in op.regions for block in region for each in block):
            name, requests = each.name, self
            if name.removeprefix("sdy.") in _AXES:
                yield from self._made(each, name.removeprefix("sdy."))
            elif name == "func.call":
                callee = ir.FlatSymbolRefAttr(each.attributes["callee"]).value
                yield from self.collectives(self.functions[callee].operation)
            elif len(each.regions):
                if name == "stablehlo.while":
                    trips = _trips(each)
                    requests = replace(self, times=self.times and trips and self.times * trips)
                yield from requests.collectives(each)

    def _made(self, op: Any, name: str) -> Iterator[Requested]:
        """Yields one for each dim along which an operation gathers, else one."""
        text = str(op.attributes[_AXES[name]])
        dims = {at: _AXIS.findall(each) for at, each in enumerate(_DIM.findall(text))}
        split: dict[int | None, list[str]] = {at: axes for at, axes in dims.items() if axes}
        axes = [axis for axes in split.values() for axis in axes]
        if name != "all_gather":
            number = _NUMBER.search(text)
            split = {int(number[1]) if number else None: axes}
        users = [use.owner for use in op.results[0].uses]
        slices = [_AXIS.findall(_attribute(each, "slicing_axes")) for each in users]
        if name == "all_reduce" and slices and all({*each} == {*axes} for each in slices):
            name = "reduce_scatter"  # as XLA has it, of the same array
        kind = ir.RankedTensorType(op.results[0].type)
        sharding = sdy.TensorShardingAttr(op.attributes["out_sharding"])
        nbytes = math.prod(kind.shape) * _bits(kind.element_type) // 8
        nbytes //= self._devices(_AXIS.findall(str(sharding).partition("[")[2]))
        lines = (own_line(str(each.location), self.files) for each in (op, *users))
        spec = of_sharding(sharding, None)
        array = (
            type_text(str(kind.element_type), tuple(kind.shape), spec or ())
            if spec is not None
            else str(kind)
        )
        source = next(filter(None, lines), None)
        for at, over in reversed(split.items()):
            if self._devices(over) == 1:
                continue
            size = nbytes * (self._devices(over) if op.name == "sdy.reduce_scatter" else 1)
            yield Requested(
                kind=name.replace("_", "-"),
                axes=tuple(dict.fromkeys(over)),
                bytes=size,
                count=self.times,
                bytes_total=self.times and size * self.times,
                source=source,
                reason=f"{'partial sums of' if 'reduce' in name else 'to'} {array}",
                dim=at,
            )
            nbytes //= self._devices(over)

    def _devices(self, axes: list[str]) -> int:
        return math.prod(self.sizes[axis] for axis in axes)


def _attribute(op: Any, name: str) -> str:
    return str(op.attributes[name]) if name in op.attributes else ""


def _bits(element: Any) -> int:
    """Returns the bits of an element as they are sent."""
    if isinstance(element, ir.ComplexType):
        return 2 * _bits(element.element_type)
    return max(8, element.width)


def _trips(loop: Any) -> int | None:
    """Returns how often a loop as JAX writes a scan runs; None of another one."""
    (compare,) = [each for each in loop.regions[0].blocks[0] if each.name == "stablehlo.compare"][
        :1
    ] or [None]
    owner = compare and compare.operands[1].owner
    if owner is None or isinstance(owner, ir.Block) or not owner.name.endswith(".constant"):
        return None
    value: Callable[..., Any] = ir.DenseIntElementsAttr
    return int(value(owner.attributes["value"])[0])

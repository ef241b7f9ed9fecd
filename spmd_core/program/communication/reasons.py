"""Why a collective is there: what the sharding requires, and what the compiler does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

from spmd_core.experiment import Experiment, spec_code
from spmd_core.program.communication.generic import (
    became,
    by_itself,
    collective_matmul,
    generic,
    merged_names,
    names,
    of_shards,
    of_window,
    other_reduction,
    output_words,
    partial_sums,
    place_words,
)
from spmd_core.program.communication.parsed import ParsedCollective
from spmd_core.program.hlo.collective_ops import Site, end_of_carried
from spmd_core.program.hlo.lines import line_of, named_line
from spmd_core.program.hlo.module import Instruction, Module
from spmd_core.program.hlo.requested import call_of, ring_size
from spmd_core.program.ir.needed import ELEMENTWISE
from spmd_core.program.ir.text import file_name
from spmd_core.workloads import STRATEGIES, ProgramLayout

_MOVES = frozenset(
    (
        "bitcast",
        "copy",
        "transpose",
        "reshape",
        "convert",
        "slice",
        "dynamic-slice",
        "concatenate",
        "pad",
        "copy-start",
        "copy-done",
        "broadcast",
        "all-gather",
        "all-gather-start",
        "all-gather-done",
        "all-to-all",
        "collective-permute",
        "collective-permute-start",
        "collective-permute-done",
        "get-tuple-element",
        "tuple",
        "parameter",
        "constant",
        "partition-id",
        "optimization-barrier",
    )
)
_SWAP = 2  # devices that exchange their shards
_INDEX_ARITHMETIC = frozenset(("multiply", "add", "compare", "select", "clamp"))


@dataclass(frozen=True, slots=True)
class Flow:
    """The data flow of a compiled program around its collectives."""

    module: Module

    def maker(self, site: Site) -> Instruction | None:
        """The instruction, or the parameter, whose one value a collective moves; None where it
        carries several.
        """
        at = site.start.outer
        for _ in site.computation.instructions:
            sources = {
                name
                for name in at.operands
                if site.computation.by_name[name].opcode not in ("constant", "partition-id")
            }
            if len(sources) != 1:
                return None if at is site.start.outer or self.only_moves(at) else at
            at = site.computation.by_name[sources.pop()]
            if at.opcode == "parameter" or not self.only_moves(at):
                return at
        return None

    def result(self, site: Site) -> int | None:
        """The number of the program's result that a collective's value becomes, element by element;
        None where it becomes several, or something else.
        """
        if not site.computation.is_entry:
            return None
        seen, root = {site.start.outer.name}, site.computation.root
        kept = {*_MOVES, *ELEMENTWISE}
        for each, is_passed in self._reached(
            site, lambda one: self._consists_of(one, lambda inside: inside.opcode in kept)
        ):
            if not is_passed:
                return None
            seen.add(each.name)
        values = root.operands if root.opcode == "tuple" else (root.name,)
        numbers = [at for at, name in enumerate(values) if name in seen]
        return numbers[0] if len(numbers) == 1 else None

    def _reached(
        self, site: Site, passes: Callable[[Instruction], bool]
    ) -> Iterator[tuple[Instruction, bool]]:
        """The instructions that a collective's value comes to, in their order, and whether each
        passes it on.
        """
        computation = site.computation
        start = end_of_carried(self.module, computation, site.start) or site.start.outer
        seen, waiting = {start.name}, list[int]()
        at, is_passed = start, True
        while True:
            for user in computation.users[at.name] if is_passed else ():
                if user.name not in seen:
                    seen.add(user.name)
                    heappush(waiting, computation.places[user.name])
            if not waiting:
                return
            at = computation.instructions[heappop(waiting)]
            is_passed = passes(at)
            yield at, is_passed

    def only_moves(self, instruction: Instruction) -> bool:
        """Whether it computes nothing with its value; arithmetic of indices in a fusion may be."""
        return self._consists_of(instruction, lambda each: each.opcode in _MOVES)

    def _consists_of(self, instruction: Instruction, fits: Callable[[Instruction], bool]) -> bool:
        if instruction.opcode != "fusion":
            return fits(instruction)
        inner = [
            each for name in instruction.called() for each in self.module.by_name[name].instructions
        ]
        return all(
            fits(each) or (each.opcode in _INDEX_ARITHMETIC and each.shape.element[0] in "su")
            for each in inner
        )


@dataclass(frozen=True)
class Reasons:
    """Explains the collectives of a strategy's program by the experiment it was written for."""

    experiment: Experiment | ProgramLayout
    strategy: str
    module: Module

    def why(self, collective: ParsedCollective) -> str | None:
        """The reason of one collective; None where it is unknown."""
        if collective.kind == "send" or not collective.axes:
            return generic(collective)
        by_hand = self._by_hand(collective)
        if by_hand and self.experiment.exported is not None:
            return by_itself(collective, by_hand) + became(collective)
        lead = f"the program calls {by_hand}: " if by_hand else ""
        if collective.ring:
            return collective_matmul(collective)
        if collective.wanted in ("all-reduce", "reduce-scatter"):
            return self._of_sum(collective, by_hand) + became(collective)
        if (halo := self._halo(collective)) is not None:
            return lead + halo
        if (operand := self._operand(collective)) is not None:
            name, shard = operand
            return lead + self._of_operand(collective, name, shard) + became(collective)
        if (result := self._result(collective)) is not None:
            return lead + self._of_result(collective, result) + became(collective)
        if by_hand:
            return by_itself(collective, by_hand)
        return self._of_value(collective) + became(collective)

    def _by_hand(self, collective: ParsedCollective) -> str | None:
        """The function that the program calls for a collective; None for one of the compiler's."""
        calls = {call_of(name) for name in merged_names(collective.op_name or "")}
        if self.experiment.exported is not None:
            # of axes that `shard_map` leaves to the compiler, what moves over them is no call
            mapped = self.experiment.exported.described.manual_axes
            is_written = "/shard_map/" in (collective.op_name or "") and {*collective.axes} <= {
                *mapped
            }
        else:
            is_written = STRATEGIES[self.strategy].collectives == "program"
        return calls.pop() if is_written and len(calls) == 1 else None

    @cached_property
    def _flow(self) -> Flow:
        return Flow(self.module)

    def _of_sum(self, collective: ParsedCollective, by_hand: str | None) -> str:
        over, call = names(collective.axes), f" (the program calls {by_hand})" if by_hand else ""
        if reduction := other_reduction(collective):
            return reduction + call
        keeps = ", and each device keeps its shard of the sum"
        keeps = keeps if collective.wanted == "reduce-scatter" else ""
        dims = [
            f"`{dim}`"
            for dim in self.experiment.what.contracted
            if set(collective.axes) <= set(self.experiment.axes_of_dim(dim))
        ]
        mapped = f"`{self.experiment.what.mapped}`"
        if "transpose(" in (collective.op_name or "") and mapped in dims:
            dims = [mapped]  # a gradient is a sum over the rows
        if dims:
            which = (
                f"the contracted dim {dims[0]}"
                if len(dims) == 1
                else f"a contracted dim, {' or '.join(dims)},"
            )
            how = (
                f"so the program adds the partial sums over {over} ({by_hand})"
                if by_hand
                else f"so the partial sums are added over {over}"
            )
            return f"{which} is sharded over {over}: each device holds a partial sum, {how}{keeps}"
        return by_itself(collective, by_hand) if by_hand else partial_sums(collective) + keeps

    def _halo(self, collective: ParsedCollective) -> str | None:
        """A permute along the dim over which a window slides."""
        halo = self.experiment.what.program.halo
        if halo is None or collective.kind != "collective-permute":
            return of_window(collective)
        dim, width = halo
        if not set(collective.axes) <= set(self.experiment.axes_of_dim(dim)):
            return None
        size = self.experiment.sizes.get(width, 1)
        return (
            f"halo exchange between neighbors: `{dim}` is sharded over {names(collective.axes)}, "
            f"and a window of {size} elements reaches into the neighbors' shards"
        )

    def _held(self, name: str) -> str:
        array, spec = self.experiment.what.array(name), self.experiment.spec(name)
        if self.experiment.exported is not None and any(spec):  # its dims have numbers, no names
            return f"as {spec_code(spec)}"
        along = zip(array.present(self.experiment.sizes), spec, strict=True)
        parts = [f"over {names(axes)} along `{dim}`" for dim, axes in along if axes]
        return f"sharded {' and '.join(parts)}" if parts else "replicated"

    def _of_operand(self, collective: ParsedCollective, name: str, shard: int) -> str:
        along, spec = names(collective.axes), self.experiment.spec(name)
        if not {axis for axes in spec for axis in axes} & set(collective.axes):
            return (
                f"`{name}` is stored {self._held(name)}: the compiler shards it over {along} "
                f"within the program, and its shards move over {along}"
            )
        if collective.wanted == "all-gather":
            return f"`{name}` is stored {self._held(name)}, but is needed replicated over {along}"
        if collective.kind == "collective-permute" and collective.site.start.bytes < shard:
            return (
                f"`{name}` is stored {self._held(name)}: devices along {along} need a part of each "
                "other's shards"
            )
        return (
            f"`{name}` is stored {self._held(name)}, but is needed in another sharding: its "
            f"shards move over {along}"
        )

    def _of_result(self, collective: ParsedCollective, name: str) -> str:
        along, held = names(collective.axes), self._held(name)
        called = output_words(name) if name[:1].isdecimal() else f"`{name}`"
        if collective.wanted == "all-gather":
            return f"{called} is computed sharded over {along}, but is returned {held}"
        return (
            f"{called} is computed in another sharding than it is returned in "
            f"({held}): its shards move over {along}"
        )

    def _operand(self, collective: ParsedCollective) -> tuple[str, int] | None:
        """The workload's operand that is moved as it was stored, and the bytes of its shard; None
        for a computed value.
        """
        made = self._flow.maker(collective.site)
        if made is None or made.opcode != "parameter" or not collective.site.computation.is_entry:
            return None
        operands, number = self.experiment.what.operands, int(made.argument)
        return (operands[number].name, made.shape.bytes) if number < len(operands) else None

    def _result(self, collective: ParsedCollective) -> str | None:
        """The workload's result that a moved value becomes, element by element; None for one that
        is computed with.
        """
        number, results = self._flow.result(collective.site), self.experiment.what.results
        return results[number].name if number is not None and number < len(results) else None

    def _of_value(self, each: ParsedCollective) -> str:
        """Of a computed value: what made it and what needs it, by their operations and lines."""
        made = self._flow.maker(each.site)
        by = self._named(made) if made is not None else ""
        # a fusion may have the name of the operation that reads the value
        is_known = made is not None and by and made.op_name != each.op_name
        passes = each.kind == "collective-permute" and ring_size(each.groups) > _SWAP
        return of_shards(each, f"the value of {by}" if is_known else "", passes=passes)

    def _named(self, each: Instruction) -> str:
        program = self.experiment.exported
        own = file_name(self.experiment.workload, self.strategy)
        file = program.described.files if program else own
        return place_words(each.op_name, named_line(line_of(each, file), file))

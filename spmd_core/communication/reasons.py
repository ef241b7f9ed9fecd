"""Why a collective is there, in a sentence: what the sharding asks for and what the compiler or the program makes of it."""

from dataclasses import dataclass

from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.types import Axes, Spec
from spmd_core.hlo.module import Computation, Instruction, Module
from spmd_core.workloads.strategies import BY_HAND

_MOVES_ONLY = frozenset((
    "bitcast", "copy", "transpose", "reshape", "convert", "slice", "dynamic-slice", "concatenate", "pad", "copy-start", "copy-done", "broadcast",
    "all-gather", "all-gather-start", "all-gather-done", "all-to-all", "collective-permute", "collective-permute-start", "collective-permute-done",
    "get-tuple-element", "tuple", "parameter", "constant", "partition-id", "multiply", "add", "compare", "select", "clamp", "optimization-barrier"))
_INDEX_ARITHMETIC = frozenset(("multiply", "add", "compare", "select", "clamp"))
_LAX = {"psum": "adds", "all_gather": "gathers", "ppermute": "passes on", "all_to_all": "exchanges", "psum_scatter": "adds and scatters"}


@dataclass(frozen=True)
class Reasons:
    """Explains the collectives of one strategy's program by the experiment that it was written for."""

    experiment: Experiment
    strategy: str
    module: Module

    def why(self, kind: str, axes: tuple[str, ...], computation: Computation, instruction: Instruction) -> str | None:
        """The reason of one collective; None where the experiment does not tell."""
        by_hand = self._by_hand(instruction)
        if kind in ("all-reduce", "reduce-scatter"):
            return self._of_sum(kind, axes, by_hand)
        operand = self._operand(computation, instruction)
        result = self._result(computation, instruction)
        if operand is not None:
            return _lead(by_hand) + self._of_operand(kind, axes, operand)
        if result is not None:
            return _lead(by_hand) + self._of_result(kind, axes, result)
        if by_hand:
            return f"the program itself calls {by_hand} over {_and(axes)}"
        if kind == "all-gather":
            return f"an intermediate value is sharded over {_and(axes)}, but the next op needs it replicated"
        return f"an intermediate value is resharded for the next op: its shards move over {_and(axes)}"

    def _of_sum(self, kind: str, axes: tuple[str, ...], by_hand: str | None) -> str | None:
        dims = [f"`{dim}`" for dim in self.experiment.what.contracted if axes and set(axes) <= set(self._axes_of_dim(dim))]
        keeps = ", and each device keeps its shard of the sum" if kind == "reduce-scatter" else ""
        if dims:
            which = f"the contracted dim {dims[0]}" if len(dims) == 1 else f"a contracted dim, {' or '.join(dims)},"
            over = _and(axes)
            how = f"so the program adds the partial sums over {over} ({by_hand})" if by_hand else \
                f"so the partial sums are added over {over}"
            return f"{which} is sharded over {_and(axes)}: each device holds a partial sum, {how}{keeps}"
        if by_hand:
            return f"the program itself calls {by_hand} over {_and(axes)}"
        return f"devices along {_and(axes)} hold partial sums, which are added{keeps}" if axes else None

    def _axes_of_dim(self, dim: str) -> Axes:
        """Axes that cut a dim, in any operand that has it."""
        found: dict[str, None] = {}
        for array in self.experiment.what.operands:
            present = array.present(self.experiment.sizes)
            if dim in present:
                found.update(dict.fromkeys(self.experiment.spec(array.name)[present.index(dim)]))
        return tuple(found)

    def _of_operand(self, kind: str, axes: tuple[str, ...], name: str) -> str:
        held = _cut(self.experiment.what.array(name).present(self.experiment.sizes), self.experiment.spec(name))
        if kind == "all-gather":
            return f"`{name}` is stored {held}, but is needed replicated over {_and(axes)}"
        return f"`{name}` is stored {held}, but is needed in another sharding: its shards move over {_and(axes)}"

    def _of_result(self, kind: str, axes: tuple[str, ...], name: str) -> str:
        asked = _cut(self.experiment.what.array(name).present(self.experiment.sizes), self.experiment.spec(name))
        if kind == "all-gather":
            return f"`{name}` is computed sharded over {_and(axes)}, but is requested {asked}"
        return f"`{name}` is computed in another sharding than requested ({asked}): its shards move over {_and(axes)}"

    def _by_hand(self, instruction: Instruction) -> str | None:
        """The lax function that the program calls for this collective, where its text has it written by hand."""
        if self.strategy not in BY_HAND or "/shard_map" not in (instruction.op_name or ""):
            return None
        last = (instruction.op_name or "").rsplit("/", 1)[-1]
        return next((name for name in _LAX if last == name or last.startswith(f"{name}_")), None)

    def _operand(self, computation: Computation, instruction: Instruction) -> str | None:
        """The operand of the workload that a collective moves as it was stored; None where it moves something computed."""
        if not computation.is_entry:
            return None
        at = instruction
        for _ in range(len(computation.instructions)):
            sources = {name for name in at.operands if computation.by_name[name].opcode not in ("constant", "partition-id")}
            if len(sources) != 1 or (at is not instruction and not self._only_moves(at)):
                return None
            at = computation.by_name[sources.pop()]
            if at.opcode == "parameter":
                operands = self.experiment.what.operands
                return operands[int(at.argument)].name if int(at.argument) < len(operands) else None
        return None

    def _result(self, computation: Computation, instruction: Instruction) -> str | None:
        """The result of the workload that a collective hands over; None where its value is computed with."""
        if not computation.is_entry:
            return None
        at, results = instruction, self.experiment.what.results
        while not at.is_root:
            users = computation.users[at.name]
            if len(users) != 1 or not self._only_moves(users[0]):
                return None
            if users[0].is_root and users[0].opcode == "tuple" and len(results) == len(users[0].operands):
                return results[list(users[0].operands).index(at.name)].name
            at = users[0]
        return results[0].name

    def _only_moves(self, instruction: Instruction) -> bool:
        """Whether an instruction computes nothing with its value; arithmetic of indices inside a fusion is let pass."""
        if instruction.opcode != "fusion":
            return instruction.opcode in _MOVES_ONLY - _INDEX_ARITHMETIC
        inner = [each for name in instruction.called() for each in self.module.by_name[name].instructions]
        return all(each.opcode in _MOVES_ONLY and not (each.opcode in _INDEX_ARITHMETIC and each.shape.element[0] not in "su") for each in inner)


def _lead(by_hand: str | None) -> str:
    return f"the program calls {by_hand}: " if by_hand else ""


def _and(axes: tuple[str, ...]) -> str:
    return " and ".join(axes) if axes else "no axis"


def _cut(dims: tuple[str, ...], spec: Spec) -> str:
    """A spec in words, e.g. `sharded over x along in`; `replicated` where nothing is sharded."""
    parts = [f"over {_and(axes)} along `{dim}`" for dim, axes in zip(dims, spec, strict=True) if axes]
    return f"sharded {' and '.join(parts)}" if parts else "replicated"

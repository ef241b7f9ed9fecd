"""From a program after sharding propagation to its steps: value, spec, bytes, what is resharded."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from spmd_core.base import by_key, parsed
from spmd_core.facts import AxisOrigin, Collective, Reshard, Shardings, Spec, Step
from spmd_core.program.hlo.lines import File, frame_of, place
from spmd_core.program.hlo.module import Computation, Frame, HloError, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import (
    Mesh,
    Sharding,
    parse_sharding,
    parts_of,
    without_ones,
)
from spmd_core.program.hlo.text import split
from spmd_core.program.ir.needed import needed_specs, partial_sums

MOST_STEPS = 500
NAME = "shardings"  # beside the program texts of a strategy
Blame = Callable[[Computation, Instruction, str], AxisOrigin | None]  # of a value's axis
Lines = Callable[[str], Sequence[str]]  # of a source file, by its name
_SKIPPED = (
    "constant",
    "tuple",
    "get-tuple-element",
    "iota",
    "parameter",
    "partition-id",
    "replica-id",
    "after-all",
    "bitcast",
    "while",
    "call",
    "conditional",
    "custom-call",
)
CONSTRAINT = "sharding_constraint"  # as JAX names with_sharding_constraint
_NEAR = 32  # values that are looked at for one
_CODE = 160  # characters of a line
_NUMBERED = re.compile(r"/\*.*?\*/")  # how HLO numbers the parts of a long tuple
_NUMBER = re.compile(r"[.#]\d+")


def steps_of(
    module: Module,
    mesh: Mesh,
    lines: Lines,
    collectives: Sequence[Collective] = (),
    file: File = "",
    blame: Blame = lambda *_: None,
) -> Shardings:
    """The steps of a program as propagation left it; `lines` reads the source that it quotes: of
    `file`, the program's own text or several, where a step has a line in it. `blame` gives the
    origin of an axis.
    """
    reader = _Reader(module, mesh, lines, file, blame)
    reader.walk(module.entry, "")
    named = _with_operands(
        _with_names(reader.steps, lambda name: lines(reader.files[name])), reader.made
    )
    steps = _with_collectives(named, collectives)
    return Shardings(steps=tuple(steps[:MOST_STEPS]), left_out=max(0, len(steps) - MOST_STEPS))


class _Reader:
    """Walks the computations in order and enters loops and calls where they occur."""

    def __init__(self, module: Module, mesh: Mesh, lines: Lines, file: File, blame: Blame) -> None:
        self.blame = blame
        self.module, self.mesh, self.lines, self.file = module, mesh, lines, file
        self.steps: list[Step] = []
        self.files: dict[str, str] = {}  # by their names without folders
        self.made: dict[str, int] = {}  # instruction -> the number of its step
        self._seen: set[str] = set()

    def walk(self, computation: Computation, inside: str) -> None:
        """The steps of a computation; each computation once."""
        if computation.name in self._seen:
            return
        self._seen.add(computation.name)
        if computation.is_entry:
            for each in computation.parameters:
                self.steps.append(self._step(each, computation, inside))
        for each in computation.instructions:
            if each.opcode in ("while", "call", "conditional"):
                self._open(each, inside)
                self.steps += self._results(each, computation, inside)
            elif self._is_step(each, computation):
                self.steps.append(self._step(each, computation, inside))

    def _open(self, each: Instruction, inside: str) -> None:
        """The steps of the computations that an instruction runs: of a loop, its body."""
        loop = last_part(each.op_name) or "while" if each.opcode == "while" else inside
        for name in each.called():
            condition = each.attributes.get("condition", "").lstrip("%") == name
            if name in self.module.by_name and not condition:
                self.walk(self.module.by_name[name], loop)

    def _results(self, each: Instruction, computation: Computation, inside: str) -> Iterator[Step]:
        if each.shape.element != "tuple":
            if each.frames:
                yield self._step(each, computation, inside)
            return
        for user in computation.users[each.name]:
            if (
                user.opcode == "get-tuple-element"
                and user.shape.dims
                and (computation.users[user.name] or user.is_root)
            ):
                named = replace(user, op_name=each.op_name, frames=each.frames)
                yield self._step(named, computation, inside)

    def _is_step(self, each: Instruction, computation: Computation) -> bool:
        if each.opcode in _SKIPPED or each.shape.element in ("tuple", "token", "opaque"):
            return False
        if each.opcode == "broadcast":  # of a number
            operand = computation.by_name.get(each.operands[0])
            if operand is not None and not operand.shape.dims:
                return False
        return bool(each.shape.dims or "/" in (each.op_name or "")) and bool(each.frames)

    def _step(self, each: Instruction, computation: Computation, inside: str) -> Step:
        shape, sharding = each.shape, sharding_of(each, computation, self.mesh)
        frame = self._frame(each)
        code = line_at(self.lines(frame.file), frame.line) if frame else ""
        source = place(frame) if frame else ""
        if frame:
            self.files[source.rpartition(":")[0]] = frame.file
        is_operand = each.opcode == "parameter"
        self.made[each.name] = len(self.steps)
        return Step(
            name=(each.op_name or each.name) if is_operand else "",
            operation="operand" if is_operand else last_part(each.op_name) or each.opcode,
            op="" if is_operand else each.op_name or "",
            shape=shape.dims,
            dtype=shape.element,
            spec=sharding.spec if sharding else None,
            manual=sharding.manual if sharding else (),
            bytes=self._bytes(each, sharding) if sharding else None,
            source=source,
            code=code,
            inside=inside,
            reshards=tuple(self._reshards(each, computation, sharding)) if sharding else (),
            sums=self._sums(each, computation, sharding) if sharding else (),
            constraint=self._constraint(each, computation) if each.frames else "",
            origins=self._origins(each, computation, sharding.spec if sharding else ()),
        )

    def _origins(
        self, each: Instruction, computation: Computation, spec: Sequence[Sequence[str]]
    ) -> tuple[AxisOrigin, ...]:
        if len(self.steps) >= MOST_STEPS:  # one that is left out
            return ()
        origins = (self.blame(computation, each, axis) for axes in spec for axis in axes)
        return tuple(filter(None, origins))

    def _constraint(self, each: Instruction, computation: Computation) -> str:
        """`file:line` of the with_sharding_constraint that a value has its sharding by; "" where
        there is none.
        """
        at = constraint_of(each, computation)
        frame = self._frame(at) if at is not None else None
        return place(frame) if frame else ""

    def _frame(self, each: Instruction) -> Frame | None:
        return frame_of(each, self.file) or next(iter(each.frames), None)

    def _bytes(self, each: Instruction, sharding: Sharding) -> int | None:
        """Bytes per device, with shards padded to the largest."""
        try:
            element = each.shape.bytes / max(1, prod(each.shape.dims))
        except HloError:
            return None
        shard = prod(
            -(-size // parts_of(axes, self.mesh))
            for size, axes in zip(each.shape.dims, sharding.spec, strict=True)
        )
        return int(shard * element)

    def _operands(
        self, each: Instruction, computation: Computation
    ) -> Iterator[tuple[Instruction, Sharding | None]]:
        for name in each.operands:
            operand = computation.by_name[name]
            yield operand, sharding_of(operand, computation, self.mesh)

    def _reshards(
        self, each: Instruction, computation: Computation, given: Sharding
    ) -> Iterator[Reshard]:
        operands = list(self._operands(each, computation))
        specs = [sharding.spec if sharding else None for _, sharding in operands]
        for (operand, sharding), needed in zip(
            operands,
            needed_specs(each, given.spec, [o.shape for o, _ in operands], specs),
            strict=True,
        ):
            if sharding is None or needed is None or not operand.shape.dims:
                continue
            before, after = without_ones(sharding.spec, self.mesh), without_ones(needed, self.mesh)
            if before != after and not _is_number(operand, computation):
                free = all(
                    wanted[: len(had)] == had for had, wanted in zip(before, after, strict=True)
                )
                left = _missing(before, after), _missing(after, before)
                yield Reshard(
                    operand=operand.name,
                    before=before,
                    after=after,
                    free=free,
                    origins=self._origins(operand, computation, left[0]),
                    against=self._origins(each, computation, left[1]),
                )

    def _sums(
        self, each: Instruction, computation: Computation, given: Sharding
    ) -> tuple[str, ...]:
        specs = [
            sharding.spec if sharding else None for _, sharding in self._operands(each, computation)
        ]
        held = {axis for axes in given.spec for axis in axes} | set(given.manual)
        sizes = dict(self.mesh)
        return tuple(
            axis for axis in partial_sums(each, specs) if axis not in held and sizes[axis] > 1
        )


def _missing(spec: Spec, other: Spec) -> Spec:
    """The axes of each dim that another spec does not have there."""
    return tuple(
        tuple(axis for axis in axes if axis not in others)
        for axes, others in zip(spec, other, strict=True)
    )


def constraint_of(each: Instruction, computation: Computation) -> Instruction | None:
    """The with_sharding_constraint of the program that a value has its sharding by: its own, or one
    that reads it as it is.
    """
    waiting, text = [each], each.attributes.get("sharding")
    for _ in range(_NEAR):
        if not waiting:
            return None
        at = waiting.pop(0)
        if last_part(at.op_name) == CONSTRAINT and at.frames:
            return at
        waiting += [
            user
            for user in computation.users[at.name]
            if user.shape.dims == each.shape.dims and user.attributes.get("sharding") == text
        ]
    return None


def sharding_of(each: Instruction, computation: Computation, mesh: Mesh) -> Sharding | None:
    """The sharding of an array; None if it cannot be written with mesh axes."""
    text = each.attributes.get("sharding")
    if text is None and each.opcode == "get-tuple-element":
        parts = _parts(computation.by_name[each.operands[0]])
        index = int(each.attributes.get("index") or 0)
        text = parts[index] if index < len(parts) else None
    return _readable(text, len(each.shape.dims), mesh)


def result_shardings(of: Computation, mesh: Mesh) -> list[Sharding | None]:
    """Returns the sharding of each result of a computation; [] where its root states none."""
    ranks = (len(array.dims) for array in of.root.arrays)
    return [_readable(*each, mesh) for each in zip(_parts(of.root), ranks, strict=False)]


def _parts(each: Instruction) -> list[str]:
    text = _NUMBERED.sub("", each.attributes.get("sharding", ""))
    return split(text[1:-1] if each.shape.element == "tuple" else text) if text else []


@lru_cache(maxsize=4096)  # a program has thousands of arrays, sharded in few ways
def _readable(text: str | None, rank: int, mesh: Mesh) -> Sharding | None:
    try:
        return parse_sharding(text, rank, mesh)
    except (HloError, ValueError):
        return None


def _is_number(operand: Instruction, computation: Computation) -> bool:
    while operand.opcode in ("broadcast", "convert", "reshape") and operand.operands:
        operand = computation.by_name[operand.operands[0]]
    return operand.opcode in ("constant", "iota")


def last_part(path: str | None) -> str:
    """The operation of an op name."""
    return (path or "").rsplit("/", 1)[-1]


def line_at(lines: Sequence[str], number: int) -> str:
    """A line of a file, short and without its indentation; "" where it has none of that number."""
    return lines[number - 1].strip()[:_CODE] if 0 < number <= len(lines) else ""


# Names -----------------------------------------------------------------------------------------


def _with_names(steps: Sequence[Step], lines: Lines) -> list[Step]:
    """A statement's variable names its last step."""
    last: dict[tuple[str, str, str], int] = {}
    for at, step in enumerate(steps):
        if step.source and step.operation != "operand":
            file, _, number = step.source.rpartition(":")
            if target := assigned(tuple(lines(file))).get(int(number)):
                last[step.source, step.inside, target] = at
    named = list(steps)
    for (_, _, target), at in last.items():
        named[at] = named[at].model_copy(update={"name": target})
    return named


@lru_cache(maxsize=16)
def assigned(lines: tuple[str, ...]) -> Mapping[int, str]:
    """Line -> the variable that a statement on it assigns; of a function's result, `function()`.

    >>> assigned(("def f(a, b):", "    y = (a +", "         b)", "    return y"))
    {2: 'y', 3: 'y', 4: 'f()'}
    """
    source = "\n".join(line.rstrip("\n") for line in lines)
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return {}
    names: dict[int, str] = {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    returned = {
        id(node): function.name
        for function in functions  # inner functions come later
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    }
    for node in ast.walk(tree):
        name = f"{returned[id(node)]}()" if isinstance(node, ast.Return) else ""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        if name and isinstance(node, ast.stmt):
            names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return dict(sorted(names.items()))


def _with_operands(steps: Sequence[Step], made: Mapping[str, int]) -> list[Step]:
    """Names the operands of reshards after their own steps, once these have names."""

    def called(instruction: str) -> str:
        at = made.get(instruction)
        if at is None:
            return _NUMBER.sub("", instruction).replace("_", " ")
        return steps[at].name or steps[at].operation.replace("_", " ")

    return [
        step.model_copy(
            update={
                "reshards": tuple(
                    each.model_copy(update={"operand": called(each.operand)})
                    for each in step.reshards
                )
            }
        )
        if step.reshards
        else step
        for step in steps
    ]


def _with_collectives(steps: list[Step], collectives: Sequence[Collective]) -> list[Step]:
    """Adds the collectives of the compiled program to the steps of the same operation and line."""
    of_op = by_key((step.op, at) for at, step in enumerate(steps))
    for each in collectives:
        over = f" over {', '.join(each.axes)}" if each.axes else ""
        at = max(
            (
                at
                for at in of_op.get(each.op or "", ())
                if each.op and (each.source is None or steps[at].source == each.source)
            ),
            key=lambda at: (bool(steps[at].sums or steps[at].reshards), at),
            default=None,
        )
        if at is not None:
            label = f"{each.kind}{over}"
            steps[at] = steps[at].model_copy(
                update={"collectives": tuple(dict.fromkeys((*steps[at].collectives, label)))}
            )
    return steps

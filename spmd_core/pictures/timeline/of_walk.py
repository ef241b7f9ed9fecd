"""The timeline of a predicted step, from the walk through its compiled schedule: operations that
take time, and which of them need which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spmd_core.base import by_key
from spmd_core.pictures.timeline.values import (
    COPIES,
    EXPOSED,
    LOOP,
    WAIT,
    Span,
    Timeline,
    TimelineScene,
)
from spmd_core.program import Computation, Instruction, Shape, trip_count
from spmd_core.time import ModuleCosts, Segment, Walk

MOST = 8


class Needs:
    """Follows operands back through instructions that take no time to the operations that do.

    `at` numbers those operations by name; `instructions` has every instruction with its
    computation.
    """

    def __init__(
        self, at: Mapping[str, int], instructions: Mapping[str, tuple[Instruction, Computation]]
    ) -> None:
        self._at, self._instructions = at, instructions
        self._sources: dict[str, frozenset[int]] = {}

    def of(self, instruction: Instruction, computation: Computation) -> tuple[int, ...]:
        """Numbers of the operations that an instruction needs, the latest in the order last."""
        numbers = frozenset[int]()
        for name in instruction.operands:
            if name in computation.by_name:
                numbers |= self._source(name, computation)
        return tuple(sorted(numbers - {self._at.get(instruction.name)})[-MOST:])

    def _source(self, name: str, computation: Computation) -> frozenset[int]:
        """The operations that a value comes from; of one element of a tuple, of that element."""
        waiting = [name]
        while waiting:  # without recursion: chains are as long as programs
            at = waiting[-1]
            if at in self._sources:
                waiting.pop()
                continue
            inputs = self._inputs(computation.by_name[at], computation)
            missing = [each for each in inputs if each not in self._sources]
            if at in self._at or not missing:
                own = (
                    frozenset({self._at[at]})
                    if at in self._at
                    else frozenset[int]().union(*(self._sources[each] for each in inputs))
                )
                self._sources[at] = own
                waiting.pop()
            else:
                waiting += missing
        return self._sources[name]

    def _inputs(self, instruction: Instruction, computation: Computation) -> list[str]:
        if instruction.opcode == "get-tuple-element":
            tuple_ = computation.by_name.get(instruction.operands[0])
            index = int(instruction.attributes.get("index") or 0)
            if tuple_ is not None and tuple_.opcode == "tuple" and tuple_.name not in self._at:
                return [tuple_.operands[index]]
        return [each for each in instruction.operands if each in computation.by_name]


MOST_SPANS = 3000  # of a scene: the longest are kept
CHIP = "chip"
_LINE, _SOURCE = 240, 80  # characters
_WAIT = "wait for "


def timeline_of(costs: ModuleCosts, walk: Walk) -> Timeline:
    """Every operation of the step once, and those of each loop's body once."""
    return _Builder(costs).timeline(walk)


class _Builder:
    """Looks up in a module what a walk's segments are of."""

    def __init__(self, costs: ModuleCosts) -> None:
        self.costs, self.module = costs, costs.module
        self.instructions: dict[str, tuple[Instruction, Computation]] = {
            each.name: (each, computation)
            for computation in self.module.computations
            for each in computation.instructions
        }
        self.communicating = {comm.name for comm in costs.collectives.values() if comm is not None}

    def timeline(self, walk: Walk) -> Timeline:
        """The scenes of a walk: the full walk, then loops in its order."""
        by_loop = {"": list[Segment]()} | by_key((each.loop, each) for each in walk.segments)
        names = list(by_loop)
        parents = {
            each.name: names.index(each.loop)
            for each in walk.segments
            if each.kind == LOOP and each.loop in by_loop
        }
        times, scenes = {"": 1}, list[TimelineScene]()
        for name in sorted(names, key=lambda name: _depth(name, names, parents)):
            if name:
                times[name] = self._trips(name) * times[names[parents[name]]]
        for name in names:
            scene = self._scene(by_loop[name], names)
            length = walk.seconds if not name else self._pass(name, walk.segments, scene)
            scenes.append(
                replace(
                    scene,
                    name=name,
                    length_s=length,
                    times=times[name],
                    parent=parents[name] if name else None,
                )
            )
        exposed = sum(time for what, time in walk.tally.waits.items() if what not in COPIES)
        return Timeline((replace(scenes[0], exposed_s=exposed), *scenes[1:]))

    def _trips(self, loop: str) -> int:
        return trip_count(self.module, self.instructions[loop][1], self.instructions[loop][0]) or 1

    def _pass(self, loop: str, segments: Sequence[Segment], scene: TimelineScene) -> float:
        held = next(each for each in segments if each.name == loop and each.kind == LOOP)
        ends = [span.end_s for span in scene.spans if span.row == 0]
        return max(ends, default=held.duration_s / self._trips(loop))

    def _scene(self, segments: list[Segment], loops: list[str]) -> TimelineScene:
        """The longest segments as spans, in order of start; what is left out is counted."""
        segments = [each for each in segments if each.duration_s > 0]
        kept = sorted(segments, key=lambda each: -each.duration_s)[:MOST_SPANS]
        kept.sort(key=lambda each: (each.start_s, -each.duration_s))
        tracks = {each.track for each in kept} | {CHIP}
        rows = sorted(tracks, key=lambda row: (row != CHIP, not row.startswith("ici"), row))
        at = {each.name: place for place, each in enumerate(kept) if each.kind != WAIT}
        stood = by_key(  # collective or copy -> when the chip waits for it
            (cause, (each.start_s, each.start_s + each.duration_s))
            for each in kept
            if each.kind == WAIT and (cause := each.name.removeprefix(_WAIT)) in at
        )
        needs = Needs(at, self.instructions)
        spans = [
            replace(
                self._wait(each, at)
                if each.kind == WAIT
                else self._work(each, stood.get(each.name, ()), needs, loops),
                row=rows.index(each.track),
            )
            for each in kept
        ]
        left = len(segments) - len(kept)
        return TimelineScene(
            "",
            tuple(rows),
            tuple(spans),
            0.0,
            left_out=left,
            left_out_s=sum(each.duration_s for each in segments)
            - sum(each.duration_s for each in kept)
            if left
            else 0.0,
        )

    def _wait(self, segment: Segment, at: dict[str, int]) -> Span:
        """A stretch in which the chip is idle; `name` is what waits, where one does."""
        cause = segment.name.removeprefix(_WAIT)
        known = self.instructions.get(cause)
        kind = EXPOSED if cause in self.communicating else WAIT
        return Span(
            cause,
            kind,
            0,
            segment.start_s,
            segment.duration_s,
            op=known[0].op_name or "" if known else "",
            waits_for=at.get(cause),
            waiter=at.get(segment.detail),
        )

    def _work(
        self, segment: Segment, stood: Sequence[tuple[float, float]], needs: Needs, loops: list[str]
    ) -> Span:
        instruction, computation = self.instructions[segment.name]
        work = self.costs.operations.get(id(instruction))
        comm = self.costs.collectives.get(id(instruction))
        if comm is not None:
            nbytes = comm.nbytes
        elif work is not None:
            nbytes = work.nbytes
        else:
            nbytes = None
        end = segment.start_s + segment.duration_s
        exposed = tuple(
            (max(low, segment.start_s), min(high, end))
            for low, high in stood
            if low < end and high > segment.start_s
        )
        return Span(
            segment.name,
            segment.kind,
            0,
            segment.start_s,
            segment.duration_s,
            op=self._op(instruction, work is not None and work.kind == "matmul"),
            source=source_of(instruction),
            line=line_of(instruction),
            nbytes=nbytes or None,
            flops=work.flops or None if work is not None else None,
            exposed=exposed,
            exposed_s=sum(high - low for low, high in stood),
            needs=needs.of(instruction, computation),
            inside=loops.index(segment.name)
            if segment.kind == LOOP and segment.name in loops
            else None,
        )

    def _op(self, instruction: Instruction, multiplies: bool) -> str:
        """The path of the operation; of a fusion around a matmul, that of the matmul."""
        callee = self.module.callee(instruction) if instruction.opcode == "fusion" else None
        if callee is not None and multiplies:
            inner = next(
                (
                    each
                    for each in callee.instructions
                    if each.opcode in ("convolution", "dot") and each.op_name
                ),
                None,
            )
            if inner is not None:
                return inner.op_name or ""
        if instruction.op_name is None and callee is not None:
            return callee.root.op_name or ""
        return instruction.op_name or ""


def _depth(name: str, names: list[str], parents: dict[str, int]) -> int:
    return 0 if not name else 1 + _depth(names[parents[name]], names, parents)


def line_of(instruction: Instruction) -> str:
    """The instruction as text, without layouts and attributes."""
    operands = ", ".join(instruction.operands)
    return shorten_line(
        f"{instruction.name} = {_shape(instruction.shape)} {instruction.opcode}({operands})"
    )


def shorten_line(text: str, most: int = _LINE) -> str:
    """The beginning of a long line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shape(shape: Shape) -> str:
    if shape.element == "tuple":
        return f"({', '.join(_shape(part) for part in shape.parts)})"
    return f"{shape.element}[{','.join(map(str, shape.dims))}]"


def source_of(instruction: Instruction) -> str:
    """File, line and function of the program that made an instruction; "" where it names none."""
    if not instruction.frames:
        return ""
    frame = instruction.frames[0]
    place = f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"
    return shorten_line(f"{place} {frame.function}".strip(), _SOURCE)

"""Walks the compiled schedule: operations in their order on the chip, collectives and copies by data flow beside them."""

from collections import defaultdict
from dataclasses import dataclass, field

from spmd_core.cost.comm import Cluster, Communication, base_kind, channels_passed, find, is_done
from spmd_core.cost.constants import HBM_EFFICIENCY, HOST_EFFICIENCY
from spmd_core.cost.ops import NOTHING, Work, operation
from spmd_core.cost.traffic import async_copy_bytes
from spmd_core.hlo_module import HOST_MEMORY_SPACE, Computation, Instruction, Module
from spmd_core.trip_counts import trip_count

_FORWARD = ("bitcast", "copy-done", "slice-done", "dynamic-slice-done", "dynamic-update-slice-done", "opt-barrier", "add-dependency")
_COPIES = ("copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start")
STEADY = 3  # iterations of a loop that are walked; the last one's length stands for the rest


@dataclass(slots=True)
class Segment:
    """A stretch of the timeline: on the chip, on links, or waiting. `count` is how often it comes in a step."""

    name: str
    kind: str  # matmul, kernel, memory, loop, wait or a collective's kind
    track: str  # chip, or the links
    start_s: float
    duration_s: float
    place: str  # computation
    count: int = 1
    detail: str = ""


@dataclass(slots=True)
class Tally:
    """Sums over one walk, loops multiplied out; seconds."""

    work: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    low: float = 0.0  # of the work alone, and `high`
    high: float = 0.0
    links: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # by collective's kind, host or copy
    communications: dict[str, tuple[Communication, int, float]] = field(default_factory=dict)  # name -> it, count, exposed seconds
    flops: int = 0
    nbytes: int = 0
    blocking: float = 0.0  # collectives that nothing may overlap, by the compiler's choice
    unknown_loops: list[str] = field(default_factory=list)
    kernels: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: "Tally", times: int) -> None:
        """Add another tally `times` over."""
        for mine, theirs in ((self.work, other.work), (self.links, other.links), (self.waits, other.waits), (self.kernels, other.kernels)):
            for key, value in theirs.items():
                mine[key] += value * times
        for name, (comm, count, exposed) in other.communications.items():
            self.note(comm, name, count * times, exposed * times)
        self.low += other.low * times
        self.high += other.high * times
        self.blocking += other.blocking * times
        self.flops += other.flops * times
        self.nbytes += other.nbytes * times
        self.unknown_loops += other.unknown_loops

    def note(self, comm: Communication, name: str, count: int, exposed: float) -> None:
        """Count a collective."""
        _, before, waited = self.communications.get(name, (comm, 0, 0.0))
        self.communications[name] = (comm, before + count, waited + exposed)


@dataclass(slots=True)
class Ready:
    """When a value is there, per element of a tuple, and what made it (for naming a wait)."""

    times: list[float]
    causes: list[str]

    @property
    def last(self) -> float:
        """When all of it is there."""
        return max(self.times, default=0.0)


@dataclass(slots=True)
class Walk:
    """The result of walking a computation: its length, tally, and timeline."""

    seconds: float
    tally: Tally
    segments: list[Segment]


class Walker:
    """Walks computations of one module on one cluster."""

    def __init__(self, module: Module, cluster: Cluster, literal: bool = False) -> None:
        """`literal`: an async op starts and holds up the chip where the compiler wrote its start and its done, not by data flow."""
        self.module, self.cluster, self.chip, self.literal = module, cluster, cluster.topology.chip, literal
        self.works: dict[int, Work] = {}
        self.comms: dict[int, Communication | None] = {}
        self.holding: dict[int, bool] = {}

    def entry(self) -> Walk:
        """The whole program, once."""
        state = _State()
        segments: list[Segment] = []
        tally = Tally()
        self._run(self.module.entry, {}, state, tally, segments)
        return Walk(max(state.chip, state.tail), tally, segments)

    def _comm(self, instruction: Instruction, computation: Computation) -> Communication | None:
        key = id(instruction)
        if key not in self.comms:
            self.comms[key] = find(self.module, instruction, computation, self.cluster)
        return self.comms[key]

    def _work(self, instruction: Instruction, computation: Computation) -> Work:
        key = id(instruction)
        if key not in self.works:
            self.works[key] = operation(self.module, instruction, computation, self.chip)
        return self.works[key]

    def _run(self, computation: Computation, given: dict[int, Ready], state: "_State", tally: Tally, segments: list[Segment]) -> Ready:
        """Walk a computation in its order. What would have to wait stands aside, and what comes after it and is ready goes first."""
        values: dict[str, Ready] = {}
        aside: list[Instruction] = []
        for instruction in computation.instructions:
            aside.append(instruction)
            self._advance(aside, computation, values, given, state, tally, segments)
        while aside:
            ready = [(self._late(each, values), place) for place, each in enumerate(aside) if all(name in values for name in each.operands)]
            instruction = aside.pop(min(ready)[1])
            values[instruction.name] = self._step(instruction, computation, values, given, state, tally, segments)
            self._advance(aside, computation, values, given, state, tally, segments)
        return values[computation.root.name]

    def _advance(self, aside: list[Instruction], computation: Computation, values: dict[str, Ready], given: dict[int, Ready], state: "_State",
                 tally: Tally, segments: list[Segment]) -> None:
        """Do whatever of `aside` need not wait, the first in the schedule's order first."""
        place = 0
        while place < len(aside):
            instruction = aside[place]
            known = all(name in values for name in instruction.operands)
            if known and (self.literal or not self._holds_chip(instruction, computation) or self._late(instruction, values) <= state.chip):
                del aside[place]
                values[instruction.name] = self._step(instruction, computation, values, given, state, tally, segments)
                place = 0
            else:
                place += 1

    def _late(self, instruction: Instruction, values: dict[str, Ready]) -> float:
        """When the operands that an instruction computes with are there."""
        if "async_collective" in instruction.attributes.get("calls", ""):
            return max((operand.last for operand in self._needed(instruction, values)), default=0.0)
        return max((values[name].last for name in instruction.operands), default=0.0)

    def _holds_chip(self, instruction: Instruction, computation: Computation) -> bool:
        """Whether an instruction takes time on the chip: work, loops, synchronous collectives."""
        key = id(instruction)
        if key not in self.holding:
            comm = None if instruction.opcode in NOTHING or is_done(self.module, instruction) else self._comm(instruction, computation)
            if instruction.opcode in ("while", "conditional", "call"):
                self.holding[key] = True
            elif instruction.opcode in NOTHING or instruction.opcode in _COPIES or is_done(self.module, instruction):
                self.holding[key] = False
            elif comm is not None:
                self.holding[key] = not comm.asynchronous
            else:
                self.holding[key] = self._work(instruction, computation).seconds > 0
        return self.holding[key]

    def _step(self, instruction: Instruction, computation: Computation, values: dict[str, Ready], given: dict[int, Ready], state: "_State",
              tally: Tally, segments: list[Segment]) -> Ready:
        operands = [values[name] for name in instruction.operands if name in values]
        opcode = instruction.opcode
        if opcode == "parameter":
            return given.get(int(instruction.argument), Ready([0.0] * max(1, len(instruction.arrays)), [""] * max(1, len(instruction.arrays))))
        if opcode == "tuple":
            return Ready([operand.last for operand in operands], [_cause(operand) for operand in operands])
        if opcode == "get-tuple-element" and operands:
            index = int(instruction.attributes.get("index") or 0)
            held = operands[0]
            if index < len(held.times) and len(held.times) > 1:
                return Ready([held.times[index]], [held.causes[index]])
            return Ready([held.last], [_cause(held)])
        if is_done(self.module, instruction):
            if self.literal:
                self._wait(operands, state, tally, segments, computation, instruction)
            return Ready([max((o.last for o in operands), default=0.0)], [_cause(*operands)])
        if opcode in _FORWARD:
            return Ready([max((o.last for o in operands), default=0.0)], [_cause(*operands)])
        comm = self._comm(instruction, computation)
        if comm is not None:
            return self._communicate(comm, instruction, computation, operands, state, tally, segments)
        if opcode in _COPIES:
            return self._copy(instruction, computation, operands, state, tally)
        if opcode == "while":
            return self._loop(instruction, computation, operands, state, tally, segments)
        if opcode in ("conditional", "call"):
            return self._branch(instruction, operands, state, tally, segments)
        return self._operate(instruction, computation, operands, values, state, tally, segments)

    def _operate(self, instruction: Instruction, computation: Computation, operands: list[Ready], values: dict[str, Ready], state: "_State",
                 tally: Tally, segments: list[Segment]) -> Ready:
        work = self._work(instruction, computation)
        passed = channels_passed(self.module, instruction) if "async_collective" in instruction.attributes.get("calls", "") else {}
        if passed:
            operands = self._needed(instruction, values)
        if work.kind == "none" or work.seconds == 0.0:
            return Ready([max((o.last for o in operands), default=0.0)] * max(1, len(instruction.arrays)), [_cause(*operands)] * max(1, len(instruction.arrays)))
        self._wait(operands, state, tally, segments, computation, instruction)
        start, state.chip = state.chip, state.chip + work.seconds
        tally.work[work.kind if work.kind != "matmul" or work.bound == "compute" else "memory"] += work.seconds
        tally.low += work.low
        tally.high += work.high
        tally.flops += work.flops
        tally.nbytes += work.nbytes
        if work.kind == "kernel":
            tally.kernels[instruction.name.rstrip("0123456789.")] += work.seconds
        segments.append(Segment(instruction.name, work.kind, "chip", start, work.seconds, computation.name, 1, instruction.op_name or ""))
        ready = Ready([state.chip] * max(1, len(instruction.arrays)), [""] * max(1, len(instruction.arrays)))
        for number, channel in passed.items():
            source = state.channels.get(channel) if channel is not None else None
            ready.times[number], ready.causes[number] = source if source else (ready.times[number], "")
        if passed:
            self._pass_parameters(instruction, passed, values, ready)
        return ready

    def _needed(self, instruction: Instruction, values: dict[str, Ready]) -> list[Ready]:
        """Operands that a step fusion computes with: not the buffers that it only carries on."""
        callee = self.module.callee(instruction)
        assert callee is not None
        users = callee.users
        kept = []
        for parameter in callee.parameters:
            used = users[parameter.name]
            carried = all((u.is_root and u.opcode == "tuple") or base_kind(u.opcode) or u.opcode == "custom-call" for u in used)
            name = instruction.operands[int(parameter.argument)]
            if not carried and name in values:
                kept.append(values[name])
        return kept

    def _pass_parameters(self, instruction: Instruction, passed: dict[int, int | None], values: dict[str, Ready], ready: Ready) -> None:
        callee = self.module.callee(instruction)
        assert callee is not None and callee.root is not None
        for number, channel in passed.items():
            if channel is None:
                parameter = callee.by_name[callee.root.operands[number]]
                source = values.get(instruction.operands[int(parameter.argument)])
                if source is not None:
                    ready.times[number], ready.causes[number] = source.last, _cause(source)

    def _wait(self, operands: list[Ready], state: "_State", tally: Tally, segments: list[Segment], computation: Computation, by: Instruction) -> None:
        """Hold the chip until the operands are there; the wait is charged to what was late."""
        late = max((o.last for o in operands), default=0.0)
        if late <= state.chip:
            return
        cause = next((c for o in operands for t, c in zip(o.times, o.causes, strict=False) if t == late and c), "copy")
        waited = late - state.chip
        if cause in tally.communications:
            comm, count, exposed = tally.communications[cause]
            tally.communications[cause] = (comm, count, exposed + waited)
            tally.waits[comm.kind] += waited
        else:
            tally.waits[cause if cause in ("host", "copy") else "copy"] += waited
        segments.append(Segment(f"wait for {cause}", "wait", "chip", state.chip, waited, computation.name, 1, by.name))
        state.chip = late

    def _communicate(self, comm: Communication, instruction: Instruction, computation: Computation, operands: list[Ready], state: "_State",
                     tally: Tally, segments: list[Segment]) -> Ready:
        there = max((o.last for o in operands), default=0.0)
        free = max((state.links[name] for name in comm.resources), default=0.0)
        tally.note(comm, instruction.name, 1, 0.0)
        for name in comm.resources:
            tally.links[name] += comm.seconds
        asynchronous = comm.asynchronous and not (self.literal and base_kind(instruction.opcode) == instruction.opcode)
        if asynchronous:
            start = max(there, free, state.chip if self.literal else 0.0)
        else:
            self._wait(operands, state, tally, segments, computation, instruction)
            start = max(state.chip, free)
        end = start + comm.seconds
        for name in comm.resources:
            state.links[name] = end
        state.tail = max(state.tail, end)
        if comm.channel is not None:
            state.channels[comm.channel] = (end, instruction.name)
        if not asynchronous:
            exposed = end - state.chip
            tally.note(comm, instruction.name, 0, exposed)
            tally.waits[comm.kind] += exposed
            tally.blocking += comm.seconds
            state.chip = end
        segments.append(Segment(instruction.name, comm.kind, "+".join(comm.resources) or "links", start, comm.seconds, computation.name, 1, comm.words))
        width = max(1, len(instruction.arrays))
        return Ready([end] * width, [instruction.name] * width)

    def _copy(self, instruction: Instruction, computation: Computation, operands: list[Ready], state: "_State", tally: Tally) -> Ready:
        """Copies between HBM, VMEM and host memory, on their own engines."""
        sources = [computation.by_name[name] for name in instruction.operands if name in computation.by_name]
        hbm, host = async_copy_bytes(instruction, sources)
        there = max((o.last for o in operands), default=0.0)
        if host:
            engine = "host in" if any(s.memory_space == HOST_MEMORY_SPACE for source in sources for s in source.arrays) and instruction.opcode != "dynamic-update-slice-start" else "host out"
            seconds = host / (self.chip.host_bandwidth * HOST_EFFICIENCY)
        else:
            engine, seconds = "copy", hbm / (self.chip.device_hbm_bandwidth * HBM_EFFICIENCY)
        start = max(there, state.links[engine])
        state.links[engine] = start + seconds
        tally.links[engine] += seconds
        state.tail = max(state.tail, start + seconds)
        return Ready([start + seconds], ["host" if host else "copy"])

    def _loop(self, instruction: Instruction, computation: Computation, operands: list[Ready], state: "_State", tally: Tally,
              segments: list[Segment]) -> Ready:
        body = self.module.callee(instruction, "body")
        assert body is not None
        trips = trip_count(self.module, computation, instruction)
        if trips is None:
            tally.unknown_loops.append(instruction.name)
        count = 1 if trips is None else trips
        held = operands[0] if operands else Ready([0.0], [""])
        start = state.chip
        before, length = start, 0.0
        walked: list[Segment] = []
        one = Tally()
        for turn in range(min(count, STEADY)):
            before, one, walked = state.chip, Tally(), []
            held = self._run(body, {0: held}, state, one, walked)
            length = state.chip - before
            if turn < min(count, STEADY) - 1:
                tally.add(one, 1)
        rest = max(0, count - STEADY)
        tally.add(one, 1 + rest)
        state.shift(rest * length)
        for segment in walked:
            segment.count *= count
            segment.start_s -= before
        segments.append(Segment(instruction.name, "loop", "chip", start, state.chip - start, computation.name, 1, f"{count} x {length:.6g} s"))
        segments.extend(walked)
        late = rest * length
        return Ready([time + late for time in held.times], held.causes)

    def _branch(self, instruction: Instruction, operands: list[Ready], state: "_State", tally: Tally, segments: list[Segment]) -> Ready:
        """A call, or the first branch of a conditional."""
        name = next(iter(instruction.called()), None)
        callee = self.module.by_name.get(name) if name else None
        if callee is None:
            return Ready([max((o.last for o in operands), default=0.0)], [""])
        return self._run(callee, dict(enumerate(operands)), state, tally, segments)


class _State:
    """Clocks: the chip, each set of links, the last thing to end, and the collectives under way by channel."""

    def __init__(self) -> None:
        self.chip = 0.0
        self.tail = 0.0
        self.links: dict[str, float] = defaultdict(float)
        self.channels: dict[int, tuple[float, str]] = {}

    def shift(self, seconds: float) -> None:
        """Let time pass for all clocks alike."""
        self.chip += seconds
        self.tail += seconds
        for name in self.links:
            self.links[name] += seconds
        self.channels = {channel: (end + seconds, name) for channel, (end, name) in self.channels.items()}


def _cause(*readies: Ready) -> str:
    late = max((r.last for r in readies), default=0.0)
    return next((c for r in readies for t, c in zip(r.times, r.causes, strict=False) if t == late and c), "")

"""Walks the compiled schedule: operations in their order on the chip, collectives and copies by
data flow beside them.
"""

from collections.abc import Sequence
from dataclasses import replace

from spmd_core.machine import Gpu
from spmd_core.program import (
    Computation,
    Instruction,
    is_done,
    kind_of,
    rendezvous,
    trip_count,
)
from spmd_core.time.cost.advance import (
    beside_collectives,
    communicate,
    copy,
    copy_s,
    fall_behind,
    finish,
    hold,
    pass_on,
    wait,
)
from spmd_core.time.cost.clocks import ReadyAt, Segment, State, Tally, Walk, cause_of, latest
from spmd_core.time.cost.comm import Communication, channels_passed, overlapping_order
from spmd_core.time.cost.module_costs import ModuleCosts
from spmd_core.time.cost.ops import NOTHING, OperationCost

_FORWARD = (
    "bitcast",
    "copy-done",
    "slice-done",
    "dynamic-slice-done",
    "dynamic-update-slice-done",
    "opt-barrier",
    "add-dependency",
)
_COPIES = ("copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start")
# of the collectives that hang on an operation: so long is it waited for rather than another begun
PATIENCE = 0.1
STEADY = 3  # iterations of a loop that are walked; the last one's length is used for the rest


class Walker:
    """Walks a module's computations.

    `literal`: an async op starts and holds up the chip where the compiler wrote its start and its
    done, not by data flow. `fastest`: everything at its peak or nominal rate, so that the walk
    ends no later than a machine could. `overlapping`: in an order that hides communication, where
    the compiler's does not.
    """

    def __init__(
        self,
        costs: ModuleCosts,
        *,
        literal: bool = False,
        fastest: bool = False,
        overlapping: bool = False,
    ) -> None:
        self.costs, self.module, self.chip = costs, costs.module, costs.cluster.topology.chip
        self.literal, self.fastest, self.overlapping = literal, fastest, overlapping
        self.orders: dict[str, Sequence[Instruction]] = {}  # by computation
        # by id of an instruction:
        self.patience: dict[int, float] = {}  # seconds that the chip waits for it
        self.holding: dict[int, bool] = {}  # whether it takes time on the chip
        # of a recv-done: its rendezvous, and the name of its send where the schedule has it before
        self.receives: dict[int, tuple[str, str]] = {}

    def entry(self) -> Walk:
        """The full program, once."""
        state = State()
        self._run(self.module.entry, {}, state)
        finish(state)
        return Walk(state.chip, state.tally, state.segments)

    def _comm(self, instruction: Instruction, computation: Computation) -> Communication | None:
        collective = self.costs.collective(instruction, computation)
        return (
            replace(collective, seconds=collective.bound_s)
            if collective and self.fastest
            else collective
        )

    def _work(self, instruction: Instruction, computation: Computation) -> OperationCost:
        cost = self.costs.operation(instruction, computation)
        return replace(cost, seconds=cost.least) if self.fastest else cost

    def _order(self, computation: Computation) -> Sequence[Instruction]:
        """The instructions in the order in which they are looked at."""
        if not self.overlapping:
            return computation.instructions
        if computation.name not in self.orders:

            def seconds(instruction: Instruction) -> float:
                if instruction.opcode in _COPIES:
                    return copy_s(instruction, computation, self.chip)[1]
                if instruction.opcode in NOTHING or is_done(self.module, instruction):
                    return 0.0
                comm = self._comm(instruction, computation)
                return comm.seconds if comm is not None else 0.0

            order, chain = overlapping_order(computation, seconds)
            self.orders[computation.name] = order
            self.patience |= {id(each): PATIENCE * chain[each.name] for each in order}
        return self.orders[computation.name]

    def _run(self, computation: Computation, given: dict[int, ReadyAt], state: State) -> ReadyAt:
        """Walk a computation in its order. What would have to wait stands aside, and what comes
        after it and is ready goes first.
        """
        values: dict[str, ReadyAt] = {}
        aside: list[Instruction] = []
        outer, state.begin = state.begin, state.chip
        self._pair_transfers(computation)
        for instruction in self._order(computation):
            if not self._holds_chip(instruction, computation) and self._known(instruction, values):
                values[instruction.name] = self._step(
                    instruction, computation, values, given, state
                )
                continue
            aside.append(instruction)
            self._advance(aside, computation, values, given, state)
        while aside:
            ready = [
                (self._late(each, values), place)
                for place, each in enumerate(aside)
                if self._known(each, values)
            ]
            instruction = aside.pop(min(ready)[1])
            values[instruction.name] = self._step(instruction, computation, values, given, state)
            self._advance(aside, computation, values, given, state)
        state.begin = outer
        return values[computation.root.name]

    def _advance(
        self,
        aside: list[Instruction],
        computation: Computation,
        values: dict[str, ReadyAt],
        given: dict[int, ReadyAt],
        state: State,
    ) -> None:
        """Do whatever of `aside` need not wait, the first in the schedule's order first."""
        place = 0
        while place < len(aside):
            instruction = aside[place]
            at_once = self.literal or not self._holds_chip(instruction, computation)
            until = state.chip + self.patience.get(id(instruction), 0.0)
            if self._known(instruction, values) and (
                at_once or self._late(instruction, values) <= until
            ):
                del aside[place]
                values[instruction.name] = self._step(
                    instruction, computation, values, given, state
                )
                place = 0
            else:
                place += 1

    def _pair_transfers(self, computation: Computation) -> None:
        """Let the end of a receive between slices wait for the send that the schedule puts before
        it.
        """
        sends: dict[str, str] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "send" and (name := rendezvous(instruction)):
                sends[name] = instruction.name
            elif instruction.opcode == "recv-done":
                name = rendezvous(computation.by_name[instruction.operands[0]]) or ""
                self.receives[id(instruction)] = name, sends.get(name, "")

    def _known(self, instruction: Instruction, values: dict[str, ReadyAt]) -> bool:
        _, send = self.receives.get(id(instruction), ("", ""))
        return all(name in values for name in instruction.operands) and (not send or send in values)

    def _late(self, instruction: Instruction, values: dict[str, ReadyAt]) -> float:
        if "async_collective" in instruction.attributes.get("calls", ""):
            return max((operand.last for operand in self._needed(instruction, values)), default=0.0)
        return max((values[name].last for name in instruction.operands), default=0.0)

    def _holds_chip(self, instruction: Instruction, computation: Computation) -> bool:
        """Whether an instruction takes time on the chip: work, loops, synchronous collectives."""
        key = id(instruction)
        if key not in self.holding:
            self.holding[key] = self._takes_time(instruction, computation)
        return self.holding[key]

    def _takes_time(self, instruction: Instruction, computation: Computation) -> bool:
        if instruction.opcode in ("while", "conditional", "call"):
            return True
        if instruction.opcode in (*NOTHING, *_COPIES) or is_done(self.module, instruction):
            return False
        if comm := self._comm(instruction, computation):
            return not comm.overlaps
        return self._work(instruction, computation).seconds > 0

    def _step(
        self,
        instruction: Instruction,
        computation: Computation,
        values: dict[str, ReadyAt],
        given: dict[int, ReadyAt],
        state: State,
    ) -> ReadyAt:
        operands = [values[name] for name in instruction.operands if name in values]
        opcode = instruction.opcode
        if opcode == "recv-done":
            meeting, send = self.receives[id(instruction)]
            source, carried = values.get(send), state.transfers.get(meeting, (0.0, ""))
            time, cause = (source.last, cause_of(source)) if source else carried
            return ReadyAt([time] * 2, [cause] * 2)
        passed = pass_on(instruction, operands, given)
        if passed is not None:
            return passed
        if is_done(self.module, instruction):
            if self.literal:
                wait(operands, state, computation.name, instruction.name)
            return ReadyAt([latest(*operands)], [cause_of(*operands)])
        if opcode in _FORWARD:
            return ReadyAt([latest(*operands)], [cause_of(*operands)])
        comm = self._comm(instruction, computation)
        if comm is not None:
            return communicate(comm, instruction, computation.name, operands, state, self.literal)
        if opcode in _COPIES:
            return copy(instruction, computation, operands, state, self.chip, self.fastest)
        if opcode == "while":
            return self._loop(instruction, computation, operands, state)
        if opcode == "conditional":
            return self._branch(instruction, computation, operands, state)
        if opcode == "call":
            return self._run(
                self.module.computation(instruction.called()[0], instruction),
                dict(enumerate(operands)),
                state,
            )
        return self._operate(instruction, computation, operands, values, state)

    def _operate(
        self,
        instruction: Instruction,
        computation: Computation,
        operands: list[ReadyAt],
        values: dict[str, ReadyAt],
        state: State,
    ) -> ReadyAt:
        work = self._work(instruction, computation)
        passed: dict[int, int | None] = {}
        if "async_collective" in instruction.attributes.get("calls", ""):
            passed = channels_passed(self.module, instruction)
        if passed:
            operands = self._needed(instruction, values)
        if work.kind == "none" or work.seconds == 0.0:
            return ReadyAt(
                [latest(*operands)] * max(1, len(instruction.arrays)),
                [cause_of(*operands)] * max(1, len(instruction.arrays)),
            )
        wait(operands, state, computation.name, instruction.name)
        if isinstance(self.chip, Gpu) and work.bound == "compute" and not self.fastest:
            work = beside_collectives(work, state, self.chip)
        hold(work, instruction, computation.name, state)
        ready = ReadyAt(
            [state.chip] * max(1, len(instruction.arrays)), [""] * max(1, len(instruction.arrays))
        )
        for number, channel in passed.items():
            source = state.channels.get(channel) if channel is not None else None
            ready.times[number], ready.causes[number] = (
                source if source else (ready.times[number], "")
            )
        if passed:
            self._pass_parameters(instruction, passed, values, ready)
        return ready

    def _needed(self, instruction: Instruction, values: dict[str, ReadyAt]) -> list[ReadyAt]:
        """Operands that a step fusion computes with: not the buffers that it only carries on."""
        callee = self.module.callee(instruction)
        assert callee is not None
        users = callee.users
        kept = []
        for parameter in callee.parameters:
            used = users[parameter.name]
            carried = all(
                (u.is_root and u.opcode == "tuple")
                or kind_of(u.opcode)
                or u.opcode == "custom-call"
                for u in used
            )
            name = instruction.operands[int(parameter.argument)]
            if not carried and name in values:
                kept.append(values[name])
        return kept

    def _pass_parameters(
        self,
        instruction: Instruction,
        passed: dict[int, int | None],
        values: dict[str, ReadyAt],
        ready: ReadyAt,
    ) -> None:
        callee = self.module.callee(instruction)
        assert callee is not None and callee.root is not None
        for number, channel in passed.items():
            if channel is None:
                parameter = callee.by_name[callee.root.operands[number]]
                source = values.get(instruction.operands[int(parameter.argument)])
                if source is not None:
                    ready.times[number], ready.causes[number] = source.last, cause_of(source)

    def _loop(
        self,
        instruction: Instruction,
        computation: Computation,
        operands: list[ReadyAt],
        state: State,
    ) -> ReadyAt:
        """Walk a few iterations; the rest take as long as the last, and fall behind as much."""
        body, condition = (self.module.callee(instruction, key) for key in ("body", "condition"))
        assert body is not None and condition is not None
        outer = (state.tally, state.segments)
        count = self._trips(instruction, computation, state)
        rest = max(0, count - STEADY)
        held = operands[0] if operands else ReadyAt([0.0], [""])
        start = before = state.chip
        links: dict[str, float] = {}
        walked: list[Segment] = []
        for turn in range(min(count, STEADY)):
            before, links = state.chip, dict(state.links)
            state.tally, state.segments = Tally(), []
            wait([self._run(condition, {0: held}, state)], state, condition.name, instruction.name)
            held = self._run(body, {0: held}, state)
            walked = state.segments
            outer[0].add(state.tally, 1 if turn < min(count, STEADY) - 1 else 1 + rest)
        state.tally, state.segments = outer
        length = state.chip - before
        end, late = state.chip, rest * length
        worst = fall_behind(state, links, before, length, rest)
        _within_loop(walked, instruction.name, count, before)
        words, taken = f"{count} x {length:.6g} s", state.chip - start
        state.segments.append(
            Segment(instruction.name, "loop", "chip", start, taken, computation.name, 1, words)
        )
        state.segments.extend(walked)
        times = [time + late + (worst if time > end else 0.0) for time in held.times]
        held = ReadyAt(times, held.causes)
        # which ends the loop
        wait([self._run(condition, {0: held}, state)], state, condition.name, instruction.name)
        return held

    def _trips(self, instruction: Instruction, computation: Computation, state: State) -> int:
        """Iterations of a loop; 1, and noted, where they are unknown."""
        trips = trip_count(self.module, computation, instruction)
        if trips is None:
            state.tally.unknown_loops.append(instruction.name)
            return 1
        return trips

    def _branch(
        self,
        instruction: Instruction,
        computation: Computation,
        operands: list[ReadyAt],
        state: State,
    ) -> ReadyAt:
        """The branch of a conditional that takes longest (`fastest`: shortest): which one runs is
        known only at run time.
        """
        wait(operands[:1], state, computation.name, instruction.name)
        names = instruction.called()
        walked = []
        for name, given in zip(names, operands[1:], strict=True):
            apart = state.fork()
            held = self._run(self.module.computation(name, instruction), {0: given}, apart)
            walked.append((max(apart.chip, held.last), apart, held))
        times = [time for time, _, _ in walked]
        _, apart, held = walked.pop(times.index((min if self.fastest else max)(times)))
        for _, other, _ in walked:
            state.tally.untaken |= other.tally.untaken | other.tally.communications
        if walked:
            state.tally.unknown_branches.append(instruction.name)
            state.tally.faster["branch"] += max(times) - min(times)
        state.tally.add(apart.tally, 1)
        state.segments.extend(apart.segments)
        state.become(apart)
        return held


def _within_loop(walked: list[Segment], loop: str, count: int, begin_s: float) -> None:
    """Count the segments of an iteration that began at `begin_s` for all of a loop's; those of a
    loop inside have their own begin.
    """
    for segment in walked:
        segment.count *= count
        if not segment.loop:
            segment.loop, segment.start_s = loop, segment.start_s - begin_s

"""What an instruction does to the clocks of a walk: the chip waits, a collective takes its links, a copy takes its engine."""

from spmd_core.cost.clocks import Ready, Segment, State, cause_of, latest
from spmd_core.cost.comm import Communication, base_kind, rendezvous
from spmd_core.cost.constants import HBM_EFFICIENCY, HOST_EFFICIENCY
from spmd_core.cost.traffic import async_copy_bytes
from spmd_core.hlo.module import HOST_MEMORY_SPACE, Computation, Instruction
from spmd_core.machine.chips import Chip


def wait(operands: list[Ready], state: State, place: str, by: str) -> None:
    """Hold the chip until the operands are there; the wait is charged to what was late. `place` is the computation, `by` who waits."""
    late = latest(*operands)
    if late <= state.chip:
        return
    cause = cause_of(*operands) or "copy"
    waited = late - state.chip
    if cause in state.tally.communications:
        comm, count, exposed = state.tally.communications[cause]
        state.tally.communications[cause] = (comm, count, exposed + waited)
        state.tally.waits[comm.kind] += waited
    else:
        state.tally.waits[cause if cause in ("host", "copy") else "copy"] += waited
    state.segments.append(Segment(f"wait for {cause}", "wait", "chip", state.chip, waited, place, 1, by))
    state.chip = late


def communicate(comm: Communication, instruction: Instruction, place: str, operands: list[Ready], state: State, literal: bool) -> Ready:
    """Start a collective when its operands are there and its links are free. A synchronous one holds the chip until its end.

    `literal`: as the compiler wrote it, not before the chip comes to its start.
    """
    free = max((state.links[name] for name in comm.resources), default=0.0)
    state.tally.note(comm, instruction.name, 1, 0.0)
    for name in comm.resources:
        state.tally.links[name] += comm.seconds
    asynchronous = comm.asynchronous and not (literal and base_kind(instruction.opcode) == instruction.opcode)
    if asynchronous:
        start = max(latest(*operands), free, state.chip if literal else state.begin)
    else:
        wait(operands, state, place, instruction.name)
        start = max(state.chip, free)
    end = start + comm.seconds
    for name in comm.resources:
        state.links[name] = end
    state.tail = max(state.tail, end)
    if name := rendezvous(instruction):
        state.transfers[name] = (end, instruction.name)
    if comm.channel is not None:
        state.channels[comm.channel] = (end, instruction.name)
    if not asynchronous:
        exposed = end - state.chip
        state.tally.note(comm, instruction.name, 0, exposed)
        state.tally.waits[comm.kind] += exposed
        state.tally.blocking += comm.seconds
        state.chip = end
    state.segments.append(Segment(instruction.name, comm.kind, "+".join(comm.resources) or "links", start, comm.seconds, place, 1, comm.words))
    width = max(1, len(instruction.arrays))
    return Ready([end] * width, [instruction.name] * width)


def copy(instruction: Instruction, computation: Computation, operands: list[Ready], state: State, chip: Chip) -> Ready:
    """A copy between HBM, VMEM and host memory, on an engine of its own."""
    sources = [computation.by_name[name] for name in instruction.operands if name in computation.by_name]
    hbm, host = async_copy_bytes(instruction, sources)
    if host:
        from_host = any(array.memory_space == HOST_MEMORY_SPACE for source in sources for array in source.arrays)
        engine = "host in" if from_host and instruction.opcode != "dynamic-update-slice-start" else "host out"
        seconds = host / (chip.host_bandwidth * HOST_EFFICIENCY)
    else:
        engine, seconds = "copy", hbm / (chip.device_hbm_bandwidth * HBM_EFFICIENCY)
    start = max(latest(*operands), state.links[engine], state.begin)
    state.links[engine] = start + seconds
    state.tally.links[engine] += seconds
    state.tail = max(state.tail, start + seconds)
    return Ready([start + seconds], ["host" if host else "copy"])

"""What an instruction does to the clocks of a walk: the chip waits, a collective takes its links, a
copy takes its engine.
"""

from dataclasses import replace

from spmd_core.machine import Chip, Gpu
from spmd_core.program import HOST_MEMORY_SPACE, Computation, Instruction, kind_of, rendezvous
from spmd_core.time.cost.clocks import Busy, ReadyAt, Segment, State, cause_of, latest
from spmd_core.time.cost.comm import Communication
from spmd_core.time.cost.constants import hbm_s
from spmd_core.time.cost.kernels import kernel_kind
from spmd_core.time.cost.links import NCCL, host_s
from spmd_core.time.cost.ops import OperationCost
from spmd_core.time.cost.traffic import async_copy_bytes
from spmd_core.time.gpu.constants import CHANNELS


def wait(operands: list[ReadyAt], state: State, place: str, by: str) -> None:
    """Hold the chip until the operands are there; the wait is charged to what was late. `place` is
    the computation, `by` who waits.
    """
    late = latest(*operands)
    if late <= state.chip:
        return
    _charge(cause_of(*operands) or "copy", late, state, place, by)
    state.chip = late


def _charge(cause: str, late: float, state: State, place: str = "", by: str = "") -> None:
    """Charge the chip's wait until `late` to its cause, and what the cause began behind to that.

    So no collective is charged for longer than it runs: 4 bytes that queue behind 4 GiB are not
    what the chip waits for. Each part is a stretch of the timeline.
    """

    def stood(since: float, end: float) -> None:
        state.segments.append(
            Segment(f"wait for {cause}", "wait", "chip", since, end - since, place, 1, by)
        )

    kind, end = cause if cause in ("host", "copy") else "copy", late
    while end > state.chip and (busy := state.under_way.get(cause)) and busy.start < end:
        kind, since = busy.comm.kind, max(state.chip, busy.start)
        state.tally.note(busy.comm, cause, 0, max(0.0, min(end, busy.end) - since))
        state.tally.waits[kind] += end - since
        stood(since, end)
        end, cause = since, busy.behind
    if end > state.chip:
        state.tally.waits[kind] += end - state.chip
        cause = cause or kind
        stood(state.chip, end)


def finish(state: State) -> None:
    """Let the chip wait for the last transfer that is under way at the program's end."""
    if state.tail > state.chip:
        last = next((name for name, busy in state.under_way.items() if busy.end == state.tail), "")
        _charge(last, state.tail, state)
        state.chip = state.tail


def communicate(
    comm: Communication,
    instruction: Instruction,
    place: str,
    operands: list[ReadyAt],
    state: State,
    literal: bool,
) -> ReadyAt:
    """Start a collective when its operands are there and its links are free. A synchronous one
    holds the chip until its end. `literal`: as the compiler wrote it, not before the chip comes to
    its start.
    """
    state.tally.note(comm, instruction.name, 1, 0.0)
    for name in comm.resources:
        state.tally.links[name] += comm.seconds
    in_order = literal and kind_of(instruction.opcode) == instruction.opcode
    asynchronous = comm.overlaps and not in_order
    holder = max(comm.resources, key=lambda name: state.links[name], default="")
    free, ready = state.links[holder] if holder else 0.0, latest(*operands)
    if asynchronous:
        start = max(ready, free, state.chip if literal else state.begin)
    else:
        wait(operands, state, place, instruction.name)
        start = max(state.chip, free)
    end = start + comm.seconds
    behind = state.holders.get(holder, "") if free >= ready else cause_of(*operands)
    behind = behind if behind != instruction.name else ""
    state.under_way[instruction.name] = Busy(comm, start, end, behind)
    _hold_links(comm, instruction, end, state)
    if not asynchronous:
        _charge(instruction.name, end, state, place, instruction.name)
        state.tally.blocking += comm.seconds
        state.chip = end
    links = "+".join(comm.resources) or "links"
    name = instruction.name
    state.segments.append(
        Segment(name, comm.kind, links, start, comm.seconds, place, 1, comm.words)
    )
    width = max(1, len(instruction.arrays))
    return ReadyAt([end] * width, [name] * width)


def _hold_links(comm: Communication, instruction: Instruction, end: float, state: State) -> None:
    """Note until when a collective has its links, its channel and its rendezvous."""
    for link in comm.resources:
        state.links[link], state.holders[link] = end, instruction.name
    state.tail = max(state.tail, end)
    if name := rendezvous(instruction):
        state.transfers[name] = (end, instruction.name)
    if comm.channel is not None:
        state.channels[comm.channel] = (end, instruction.name)


def copy(
    instruction: Instruction,
    computation: Computation,
    operands: list[ReadyAt],
    state: State,
    chip: Chip,
    fastest: bool = False,
) -> ReadyAt:
    """A copy between HBM, VMEM and host memory, on an engine of its own; `fastest`, at the nominal
    rate.
    """
    engine, seconds = copy_s(instruction, computation, chip, fastest)
    start = max(latest(*operands), state.links[engine], state.begin)
    state.links[engine] = start + seconds
    state.tally.links[engine] += seconds
    state.tail = max(state.tail, start + seconds)
    return ReadyAt([start + seconds], ["copy" if engine == "copy" else "host"])


def copy_s(
    instruction: Instruction, computation: Computation, chip: Chip, fastest: bool = False
) -> tuple[str, float]:
    """(engine, seconds) of a copy, as above."""
    sources = [
        computation.by_name[name] for name in instruction.operands if name in computation.by_name
    ]
    hbm, host = async_copy_bytes(instruction, sources)
    if not host:
        return "copy", hbm / chip.device_hbm_bandwidth if fastest else hbm_s(chip, hbm)
    from_host = any(
        array.memory_space == HOST_MEMORY_SPACE for source in sources for array in source.arrays
    )
    into = from_host and instruction.opcode != "dynamic-update-slice-start"
    return "host in" if into else "host out", host_s(chip, host, nominal=fastest)


def beside_collectives(work: OperationCost, state: State, gpu: Gpu) -> OperationCost:
    """Work that begins now on a GPU, longer by what the collectives under way take of it: their
    multiprocessors, for as long as both run.
    """
    taken = CHANNELS / gpu.sms
    busy, both = state.under_way.get(state.holders.get(NCCL, "")), 0.0
    while busy is not None and busy.end > state.chip:
        both += busy.end - max(state.chip, busy.start)
        earlier = state.under_way.get(busy.behind)
        busy = earlier if earlier is not None and earlier.start < busy.start else None
    late = taken * min(both, work.seconds / (1 - taken))
    return replace(work, seconds=work.seconds + late, high=work.high + late) if late else work


def hold(work: OperationCost, instruction: Instruction, place: str, state: State) -> None:
    """An operation holds the chip: its seconds, FLOPs and bytes are counted, and where it stood."""
    start, state.chip = state.chip, state.chip + work.seconds
    kind = work.kind if work.kind != "matmul" or work.bound == "compute" else "memory"
    state.tally.work[kind] += work.seconds
    state.tally.faster[kind] += work.seconds - work.low
    state.tally.slower[kind] += work.high - work.seconds
    state.tally.flops += work.flops
    state.tally.nbytes += work.nbytes
    if work.kind == "kernel":
        state.tally.kernels[kernel_kind(instruction)] += work.seconds
    state.segments.append(
        Segment(
            instruction.name,
            kind,  # as it is counted: a matmul that HBM bounds is HBM's in both
            "chip",
            start,
            work.seconds,
            place,
            1,
            instruction.op_name or "",
        )
    )


def pass_on(
    instruction: Instruction, operands: list[ReadyAt], given: dict[int, ReadyAt]
) -> ReadyAt | None:
    """When what an instruction only passes on is ready; None for one that does something."""
    opcode = instruction.opcode
    if opcode == "send-done":
        return ReadyAt([0.0], [""])
    if opcode == "parameter":
        count = max(1, len(instruction.arrays))
        return given.get(int(instruction.argument), ReadyAt([0.0] * count, [""] * count))
    if opcode == "tuple":
        return ReadyAt(
            [operand.last for operand in operands], [cause_of(operand) for operand in operands]
        )
    if opcode == "get-tuple-element" and operands:
        index, held = int(instruction.attributes.get("index") or 0), operands[0]
        if index < len(held.times) and len(held.times) > 1:
            return ReadyAt([held.times[index]], [held.causes[index]])
        return ReadyAt([held.last], [cause_of(held)])
    return None


def fall_behind(
    state: State, links: dict[str, float], before: float, length: float, rest: int
) -> float:
    """Shift a loop's last walked turn by the `rest` turns that are not walked, each of `length`
    seconds; links that fall behind the chip go on falling behind. Seconds that the last one is
    late by. `links` and `before` are the clocks at the start of that turn.
    """
    behind = {
        name: rest * max(0.0, time - max(links.get(name, 0.0), before) - length)
        for name, time in state.links.items()
    }
    state.shift(rest * length)
    for name, seconds in behind.items():
        state.links[name] += seconds
    worst = max(behind.values(), default=0.0)
    state.tail += worst
    return worst

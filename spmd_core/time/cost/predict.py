"""From a compiled program to a prediction: fits, interval, what binds, collectives, facts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spmd_core.facts import (
    Binds,
    Bounds,
    Buffer,
    Collective,
    Estimate,
    PredictedMemory,
    Prediction,
    StoredFact,
)
from spmd_core.program import BETWEEN_SLICES, HBM, Module, parse_module, read_collectives, sites
from spmd_core.time.cost.clocks import Tally, Walk
from spmd_core.time.cost.comm import Cluster, Communication
from spmd_core.time.cost.constants import NEARLY_FULL, taken_memory
from spmd_core.time.cost.kernels import KERNELS
from spmd_core.time.cost.links import straggling
from spmd_core.time.cost.module_costs import ModuleCosts, bounds, interval
from spmd_core.time.cost.schedule import Walker

MAX_BUFFERS = 12
NOTABLE = 0.03  # of the step
_OWN_HOST = 2**16  # bytes: host temporaries that a TPU program has of its own
Keep = Callable[[ModuleCosts, Walk], None]


@dataclass(frozen=True, slots=True)
class Useful:
    """What the program is for: model FLOPs and tokens of a step, where it is a model's."""

    flops: int | None = None
    tokens: int | None = None


def predict(
    text: str,
    cluster: Cluster,
    memory: Mapping[str, int],
    mesh: tuple[tuple[str, int], ...],
    useful: Useful = Useful(),
    collectives: tuple[Collective, ...] | None = None,
    keep: Keep | None = None,
) -> Prediction:
    """Price a compiled program. `memory` is the compiler's account in bytes, by the names of its
    analysis without `_size_in_bytes`.

    `collectives` are those of the same program where they have been read (with source and reason);
    else they are read here. `keep` is given the walk, for who wants each operation of it.
    ValueError or HloError where the program cannot be read.
    """
    module = parse_module(text)
    costs = ModuleCosts(module, cluster)
    walk, literal_s = walked(costs)
    if keep is not None:
        keep(costs, walk)
    if collectives is None:
        collectives = read_collectives(module, mesh, places=cluster.coordinates)
    listed = priced(collectives, walk.tally, costs)
    held = memory_bytes(memory, cluster)
    chip = cluster.topology.chip
    facts = (*_facts(walk, literal_s, held, listed), *taken_memory(chip, held.peak, held.host))
    prediction = _prediction(costs, walk, listed, held, useful)
    prediction = prediction.model_copy(update={"facts": facts})
    return prediction if prediction.fits else prediction.without_time


def _prediction(
    costs: ModuleCosts,
    walk: Walk,
    listed: tuple[Collective, ...],
    held: PredictedMemory,
    useful: Useful,
) -> Prediction:
    topology = costs.cluster.topology
    chip, chips, late = topology.chip, topology.chips, straggling(topology)
    seconds, waits = walk.seconds * (1 + late), walk.seconds * late
    ends = (*interval(walk, Walker(costs, fastest=True).entry().seconds), *bounds(walk))
    low, high, overlapped, sequential = (each * (1 + late) for each in ends)
    room = chip.capacity.host
    return Prediction(
        fits=not held.missing and (held.host or 0) <= room,
        memory_bytes=held,
        host_capacity_bytes=room,
        predicted_s=Estimate(low=low, estimate=seconds, high=high),
        bounds_s=Bounds(overlapped=overlapped, sequential=sequential),
        mfu=_rate(useful.flops, chips * chip.peak_flops * seconds),
        tflops_per_chip=_rate(useful.flops, chips * seconds * 1e12),
        tokens_per_s_per_chip=_rate(useful.tokens, chips * seconds),
        chip_seconds=chips * seconds,
        binds=binds(walk.tally, waits),
        shares_s=shares(walk.tally) | ({"wait: slices": waits} if waits else {}),
        collectives=listed,
        buffers=buffers(costs.module),
    )


def _rate(useful: float | None, capacity: float) -> float | None:
    return useful / capacity if useful and capacity else None


def walked(costs: ModuleCosts) -> tuple[Walk, float]:
    """A walk by data flow, and the seconds of the compiler's own order of starts and dones. Where
    that order gave up overlapping, the walk takes the operations in one that does not.
    """
    walk = Walker(costs).entry()
    literal_s = Walker(costs, literal=True).entry().seconds
    if literal_s > (1 + NOTABLE) * walk.seconds:
        better = Walker(costs, overlapping=True).entry()
        if better.seconds < walk.seconds:
            return better, literal_s
    return walk, literal_s


def shares(tally: Tally) -> dict[str, float]:
    """Where the estimate goes, seconds: kinds of work, and waits by what is waited for."""
    waits = {f"wait: {name}": time for name, time in tally.waits.items() if time > 0}
    work = {name: time for name, time in tally.work.items() if name != "kernel"}
    return {name: time for name, time in {**work, **tally.kernels, **waits}.items() if time > 0}


def binds(tally: Tally, late: float = 0.0) -> Binds | None:
    """The resource that takes the largest share of the estimate. `late`: seconds of
    waiting for the slowest slice.
    """
    groups: dict[Binds, float] = {
        "compute": tally.work.get("matmul", 0.0) + tally.work.get("kernel", 0.0),
        "memory": tally.work.get("memory", 0.0) + tally.waits.get("copy", 0.0),
        "host": tally.waits.get("host", 0.0),
        "data centre network": tally.waits.get("send", 0.0) + late,
        "interconnect": sum(
            time for name, time in tally.waits.items() if name not in ("copy", "host", "send")
        ),
    }
    most = max(groups, key=lambda name: groups[name])
    return most if groups[most] > 0 else None


def memory_bytes(memory: Mapping[str, int], cluster: Cluster) -> PredictedMemory:
    """The compiler's account of a program that it accepted: it fits.

    Its own peak counts vector memory, and host buffers where there are some: arguments, results
    and temporaries in HBM are used instead. Temporaries beside host buffers are counted generously.
    """
    capacity = cluster.topology.chip.device_hbm_bytes
    placed, host = memory.get("host_argument", 0), memory.get("host_temp", 0)
    host = placed + host if placed or host > _OWN_HOST else 0
    argument, temp = memory.get("argument", 0), memory.get("temp", 0)
    peak = argument + temp + memory.get("output", 0) - memory.get("alias", 0)
    # XLA for GPUs refuses nothing: what is more than the capacity is missing
    missing = max(0, peak - capacity) if cluster.topology.chip.is_gpu else 0
    if host and not missing:
        peak = min(capacity, peak)
    return PredictedMemory(
        argument=argument,
        output=memory.get("output"),
        temp=temp,
        alias=memory.get("alias"),
        code=memory.get("generated_code"),
        peak=peak,
        host=host,
        capacity=capacity,
        missing=missing,
    )


def buffers(module: Module) -> tuple[Buffer, ...]:
    """The largest arrays that instructions of the program (not of its fusions) leave in HBM."""
    largest: dict[tuple[str, str], Buffer] = {}
    for computation in _main_computations(module):
        for instruction in computation.instructions:
            if (
                instruction.opcode
                in ("tuple", "get-tuple-element", "bitcast", "while", "copy-done", "parameter")
                and not computation.is_entry
            ):
                continue
            if instruction.opcode in ("tuple", "get-tuple-element", "bitcast", "while"):
                continue
            for shape in instruction.arrays:
                if shape.memory_space == HBM and shape.padded_bytes >= 2**20:
                    text = f"{shape.element}[{','.join(map(str, shape.dims))}]"
                    largest.setdefault(
                        (text, instruction.op_name or ""),
                        Buffer(
                            name=instruction.name,
                            bytes=shape.padded_bytes,
                            shape=text,
                            op=instruction.op_name,
                        ),
                    )
    return tuple(sorted(largest.values(), key=lambda each: -each.bytes)[:MAX_BUFFERS])


def _main_computations(module: Module):
    yield module.entry
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "while" and (body := module.callee(instruction, "body")):
                yield body


def _facts(
    walk: Walk, literal_s: float, held: PredictedMemory, collectives: tuple[Collective, ...]
) -> Iterator[StoredFact]:
    for loop in dict.fromkeys(walk.tally.unknown_loops):
        yield StoredFact(kind="loop counted once", values={"loop": loop})
    for branch in dict.fromkeys(walk.tally.unknown_branches):
        yield StoredFact(kind="longest branch", values={"branch": branch})
    if held.peak and not held.host and held.peak > NEARLY_FULL * held.capacity:
        yield StoredFact(
            kind="nearly full", values={"peak_bytes": held.peak, "capacity_bytes": held.capacity}
        )
    blocking = [
        each
        for each in walk.tally.communications.values()
        if not each[0].overlaps and each[2] > NOTABLE * walk.seconds / 4
    ]
    if blocking:
        kinds = ", ".join(sorted({each[0].kind for each in blocking}))
        waits = sum(each[2] for each in blocking)
        yield StoredFact(kind="synchronous", values={"kinds": kinds, "exposed_s": waits})
    changed = {
        (each.asked, each.kind)
        for each in collectives
        if each.asked and each.kind != BETWEEN_SLICES
    }
    for asked, kind in sorted(changed):
        yield StoredFact(kind="became another", values={"asked": asked, "kind": kind})
    yield from _of_kernels(walk)
    # the compiler's own order of starts and dones may be much worse than data flow allows
    if literal_s - walk.seconds > NOTABLE * walk.seconds:
        more = literal_s / walk.seconds - 1
        yield StoredFact(kind="gave up overlapping", values={"literal_s": literal_s, "more": more})


def _of_kernels(walk: Walk) -> Iterator[StoredFact]:
    """The shares of kernels, for which XLA gives no cost."""
    for kind, seconds in walk.tally.kernels.items():
        values = {"what": KERNELS[kind], "share": seconds / walk.seconds}
        yield StoredFact(kind="no cost", values=values)


def priced(
    collectives: tuple[Collective, ...],
    tally: Tally,
    costs: ModuleCosts,
) -> tuple[Collective, ...]:
    """The same list in the same order, with seconds per execution and in all, and routes.

    `tally` is what walking the module came to. What the walk never met (the body of
    a loop that never runs) is priced all the same, and exposed for 0 s.
    """
    comms = {
        site.start.outer.name: costs.collective(site.start.outer, site.computation)
        for site in sites(costs.module)
    }
    return tuple(_priced(each, comms.get(each.name or ""), tally) for each in collectives)


def _priced(each: Collective, comm: Communication | None, tally: Tally) -> Collective:
    if comm is None:
        return each
    walked = tally.communications.get(comm.name) or tally.untaken.get(comm.name)
    _, count, waited = walked or (comm, 0, 0.0)
    # (a loop's last walked iteration is used for the rest, so a wait may be counted a little too
    # often)
    exposed = min(comm.seconds, waited / count) if count else 0.0
    known = each.count is not None
    return each.model_copy(
        update={
            "seconds": comm.seconds,
            "exposed_s": exposed,
            "bound_s": comm.bound_s,
            "seconds_total": comm.seconds * (each.count or 0) if known else None,
            "exposed_total_s": exposed * (each.count or 0) if known else None,
            "route": comm.words,
            "algorithm": comm.algorithm,
        }
    )

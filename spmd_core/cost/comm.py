"""The collectives of a module as the schedule meets them: what starts, what finishes, what only passes buffers on."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from spmd_core.cost.asked import asked
from spmd_core.cost.constants import DCN_LATENCY_S
from spmd_core.cost.links import EXPECTED, NOMINAL, Paths, collective_s, dcn_bandwidth, paths, permute_s, route
from spmd_core.hlo.collectives import KINDS, groups_of
from spmd_core.hlo.module import Computation, Instruction, Module
from spmd_core.hlo.replica_groups import parse_pairs
from spmd_core.machine.topologies import Coordinates, Topology

_RENDEZVOUS = re.compile(r'_xla_host_transfer_rendezvous="([^"]*)"')
# These only move data, which needs no core: data flow may overlap them even where a flag is off and the compiler wrote them synchronous.
# A sum needs the core, and stays where the compiler put it.
MOVES_ONLY = ("collective-permute", "all-gather")
_TRANSFER = re.compile(r'transfer_type="([A-Z_]+)"')
_EMITTER = re.compile(r'"emitter":"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective: `nbytes` is the larger of operand and result per device; `resources` are the links that it occupies."""

    kind: str
    nbytes: int
    seconds: float
    resources: tuple[str, ...]
    group: tuple[int, ...]
    words: str
    asynchronous: bool
    channel: int | None
    name: str
    op_name: str | None
    algorithm: str = ""
    asked: str | None = None  # what the program asked for, where the compiler chose another
    bound_s: float = 0.0  # at the links' nominal rate, without latency


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a module runs: the topology, and the coordinates of each device of its assignment."""

    topology: Topology
    coordinates: tuple[Coordinates, ...]


def base_kind(opcode: str) -> str | None:
    """The collective that an opcode is a form of."""
    name = opcode.removesuffix("-start")
    return name if name in KINDS else None


def find(module: Module, instruction: Instruction, computation: Computation, cluster: Cluster) -> Communication | None:
    """The collective that starts at this instruction (start and done at once where it is synchronous), or None."""
    comm = _find(module, instruction, computation, cluster)
    if comm is None or comm.kind == "send":
        return comm
    return replace(comm, asked=asked(module, computation, instruction, comm.kind, comm.op_name, len(comm.group)))


def _find(module: Module, instruction: Instruction, computation: Computation, cluster: Cluster) -> Communication | None:
    kind = base_kind(instruction.opcode)
    if kind is not None:
        named = "async_collective_name" in instruction.attributes.get("frontend_attributes", "")
        asynchronous = named or instruction.opcode.endswith("-start") or kind in MOVES_ONLY
        return _communication(instruction, computation, instruction, kind, asynchronous, cluster)
    if instruction.opcode in ("async-start", "call-start"):  # the second is offloaded to the sparse cores
        held = _inside(module, instruction)
        return None if held is None else _communication(held[1], held[0], instruction, base_kind(held[1].opcode) or "", True, cluster)
    if instruction.opcode in ("send", "recv"):
        return _megascale(instruction, computation, cluster)
    if instruction.opcode != "fusion":
        return None
    callee = module.callee(instruction)
    if callee is None or callee.root is None:
        return None
    if callee.root.attributes.get("custom_call_target") == '"AsyncCollectiveStart"':
        inner = next(i for i in callee.instructions if base_kind(i.opcode))
        return _communication(inner, callee, instruction, base_kind(inner.opcode) or "", True, cluster)
    if instruction.attributes.get("kind") == "kCustom" and not is_done(module, instruction):
        inner = next((i for i in callee.instructions if base_kind(i.opcode)), None)
        if inner is not None:
            smaller = instruction.shape.bytes < sum(callee.by_name[name].shape.bytes for name in inner.operands)
            kind = "reduce-scatter" if inner.opcode == "all-reduce" and smaller else base_kind(inner.opcode) or ""
            return _communication(inner, callee, instruction, kind, False, cluster)
    return None


def _inside(module: Module, instruction: Instruction) -> tuple[Computation, Instruction] | None:
    """The collective in what an instruction calls, however deep, with the computation that it stands in."""
    for name in instruction.called():
        for each in module.by_name[name].instructions:
            if base_kind(each.opcode):
                return module.by_name[name], each
            if deeper := _inside(module, each):
                return deeper
    return None


def is_done(module: Module, instruction: Instruction) -> bool:
    """Whether this only waits for a collective that another instruction started."""
    opcode = instruction.opcode
    if opcode in ("async-done", "async-update", "call-done") or (opcode.endswith("-done") and base_kind(opcode.removesuffix("-done"))):
        return True
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    return callee is not None and any(i.attributes.get("custom_call_target") == '"AsyncCollectiveDone"' for i in callee.instructions)


def rendezvous(instruction: Instruction) -> str | None:
    """What a send and its recv have in common."""
    match = _RENDEZVOUS.search(instruction.attributes.get("frontend_attributes", ""))
    return match[1] if match else None


def channels_passed(module: Module, instruction: Instruction) -> dict[int, int | None]:
    """Result number -> channel of a collective that this step fusion carries on, None where it passes a parameter through."""
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    if callee is None or callee.root is None or callee.root.opcode != "tuple":
        return {}
    found: dict[int, int | None] = {}
    for number, name in enumerate(callee.root.operands):
        part = callee.by_name[name]
        if base_kind(part.opcode):
            found[number] = part.channel
        elif part.opcode == "parameter":
            found[number] = None
    return found


def _communication(
    inner: Instruction, computation: Computation, outer: Instruction, kind: str, asynchronous: bool, cluster: Cluster,
) -> Communication:
    operand_bytes = sum(computation.by_name[name].shape.bytes for name in inner.operands)
    shapes = inner.arrays
    if inner.opcode.endswith("-start"):  # the result holds operands, results and flags
        shapes = tuple(shape for shape in shapes if shape.elements > 1 and shape.element != "u32")
        result_bytes = max((shape.bytes for shape in shapes), default=0)
        if len(shapes) > 2:
            result_bytes = sum(shape.bytes for shape in shapes) - operand_bytes
    else:
        result_bytes = inner.shape.bytes
    nbytes = max(operand_bytes, result_bytes, 1)
    emitters = (_EMITTER.search(each.attributes.get("backend_config", "")) for each in (outer, inner))
    algorithm = next((match[1] for match in emitters if match), "")
    if kind == "collective-permute":
        ways, group = _ways(cluster, inner.attributes.get("source_target_pairs", ""))
        seconds, bound = (permute_s(cluster.topology, ways, nbytes, rates) for rates in (EXPECTED, NOMINAL))
        resources = ways.used
        words = f"neighbors over {', '.join(resources)}" if resources else "no link"
    else:
        group = tuple(int(device) for device in groups_of(inner, len(cluster.coordinates))[0])
        where = route(cluster.topology, group, cluster.coordinates)
        seconds, bound = (collective_s(cluster.topology, kind, where, nbytes, rates) if len(group) > 1 else 0.0 for rates in (EXPECTED, NOMINAL))
        resources, words = where.resources, where.words
    return Communication(kind, nbytes, seconds, resources, tuple(group), words, asynchronous, inner.channel, outer.name,
                         inner.op_name or outer.op_name, algorithm, None, bound)


@lru_cache(maxsize=64)
def _ways(cluster: Cluster, pairs_text: str) -> tuple[Paths, tuple[int, ...]]:
    """(paths, first pair) of a permute; a program repeats the same few patterns many times over, thousands of pairs each."""
    pairs = [(source, target) for source, target in parse_pairs(pairs_text).tolist()]
    return paths(cluster.topology, pairs, cluster.coordinates), pairs[0] if pairs else ()


def _counterparts(cluster: Cluster) -> tuple[int, ...]:
    """The first device and those at its place in the other slices: a transfer does not name its partners, but runs between such devices."""
    first = cluster.coordinates[:1]
    return tuple(number for number, place in enumerate(cluster.coordinates) if place[:-1] == first[0][:-1])


def _megascale(instruction: Instruction, computation: Computation, cluster: Cluster) -> Communication | None:
    """A transfer between slices: send and recv named `_xla_megascale_*`, counted at the send; the hosts add what they receive."""
    if instruction.opcode != "send" or "megascale" not in instruction.attributes.get("frontend_attributes", ""):
        return None
    nbytes = computation.by_name[instruction.operands[0]].shape.bytes
    slices = cluster.topology.slices
    match = _TRANSFER.search(instruction.attributes["frontend_attributes"])
    wanted = match[1].lower().replace("_", "-") if match else ""
    share = 2 * (1 - 1 / slices) if wanted == "all-reduce" else slices - 1
    seconds = DCN_LATENCY_S + share * nbytes / dcn_bandwidth(cluster.topology)
    return Communication("send", nbytes, seconds, ("dcn",), _counterparts(cluster), "DCN between slices", True, instruction.channel, instruction.name,
                         instruction.op_name, asked=wanted if wanted in KINDS else None,
                         bound_s=share * nbytes / dcn_bandwidth(cluster.topology, NOMINAL))

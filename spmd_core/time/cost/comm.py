"""What each collective of a module takes: its links, its seconds, and its bound."""

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.machine import Coordinates, Topology
from spmd_core.program import (
    BETWEEN_SLICES,
    Computation,
    Instruction,
    Module,
    StartOp,
    counterparts,
    groups_of,
    kind_of,
    parse_pairs,
    start_of,
    transfer_of,
)
from spmd_core.time.cost.constants import DCN_LATENCY_S
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL,
    Paths,
    collective_s,
    dcn_bandwidth,
    paths,
    permute_s,
    route,
)

# These only move data, which needs no core: data flow may overlap them even where a flag is off
# and the compiler wrote them synchronous. A sum needs the core, and stays where the compiler put
# it.
MOVES_ONLY = ("collective-permute", "all-gather")
_EMITTER = re.compile(r'"emitter":"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective: `nbytes` is the larger of operand and result per device.

    `resources` are the links that it occupies; `overlaps`, whether data flow may run it beside the
    work; `bound_s` is at the links' nominal rate, without latency.
    """

    kind: str
    nbytes: int
    seconds: float
    resources: tuple[str, ...]
    group: tuple[int, ...]
    words: str
    asynchronous: bool
    channel: int | None
    name: str
    algorithm: str = ""
    bound_s: float = 0.0

    @property
    def overlaps(self) -> bool:
        """Whether it may run beside the work."""
        return self.asynchronous or self.kind in MOVES_ONLY


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a module runs: the topology, and the coordinates of each device of its assignment."""

    topology: Topology
    coordinates: tuple[Coordinates, ...]


def find(
    module: Module, instruction: Instruction, computation: Computation, cluster: Cluster
) -> Communication | None:
    """The collective that starts at this instruction (and ends at once if synchronous), or None."""
    start = start_of(module, computation, instruction)
    if start is None:
        return None
    if start.kind == BETWEEN_SLICES:
        return _between_slices(start, cluster)
    return _communication(start, cluster)


def channels_passed(module: Module, instruction: Instruction) -> dict[int, int | None]:
    """Result number -> channel of a collective that this step fusion carries on, None where it
    passes a parameter through.
    """
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    if callee is None or callee.root is None or callee.root.opcode != "tuple":
        return {}
    passed: dict[int, int | None] = {}
    for number, name in enumerate(callee.root.operands):
        part = callee.by_name[name]
        if kind_of(part.opcode):
            passed[number] = part.channel
        elif part.opcode == "parameter":
            passed[number] = None
    return passed


def _communication(start: StartOp, cluster: Cluster) -> Communication:
    inner, outer, topology = start.inner, start.outer, cluster.topology
    nbytes = max(start.bytes, 1)
    emitters = (
        _EMITTER.search(each.attributes.get("backend_config", "")) for each in (outer, inner)
    )
    algorithm = next((match[1] for match in emitters if match), "")
    if start.kind == "collective-permute":
        ways, group = _ways(cluster, inner.attributes.get("source_target_pairs", ""))
        seconds, bound = (permute_s(topology, ways, nbytes, rates) for rates in (EXPECTED, NOMINAL))
        resources = ways.used
        far = "neighbors" if ways.longest < 2 else f"up to {ways.longest} hops"
        words = f"{far} over {', '.join(resources)}" if resources else "no link"
    else:
        groups = groups_of(inner, len(cluster.coordinates))
        group = tuple(groups[0].tolist())
        where = route(topology, group, cluster.coordinates, groups)
        seconds, bound = (
            collective_s(topology, start.kind, where, nbytes, rates) if len(group) > 1 else 0.0
            for rates in (EXPECTED, NOMINAL)
        )
        resources, words = where.resources, where.words
    return Communication(
        start.kind,
        nbytes,
        seconds,
        resources,
        tuple(group),
        words,
        start.asynchronous,
        inner.channel,
        outer.name,
        algorithm,
        bound,
    )


@lru_cache(maxsize=64)
def _ways(cluster: Cluster, pairs_text: str) -> tuple[Paths, tuple[int, ...]]:
    """Returns the paths and the first pair of a permute; kept, since a program repeats the same few
    patterns many times over, of thousands of pairs each.
    """
    pairs = [(source, target) for source, target in parse_pairs(pairs_text).tolist()]
    return paths(cluster.topology, pairs, cluster.coordinates), pairs[0] if pairs else ()


def _between_slices(start: StartOp, cluster: Cluster) -> Communication:
    """A transfer between slices, counted at the send; the hosts add what they receive."""
    topology, slices, nbytes = cluster.topology, cluster.topology.slices, start.operand_bytes
    sums = transfer_of(start.outer) == "all-reduce"
    share = 2 * (1 - 1 / slices) if sums else slices - 1
    bound = share * nbytes / dcn_bandwidth(topology, NOMINAL)
    seconds = DCN_LATENCY_S + share * nbytes / dcn_bandwidth(topology)
    groups = counterparts(cluster.coordinates)
    group = tuple(int(device) for device in groups[0]) if groups.size else ()
    return Communication(
        BETWEEN_SLICES,
        start.bytes,
        seconds,
        ("dcn",),
        group,
        "DCN between slices",
        True,
        start.outer.channel,
        start.outer.name,
        bound_s=bound,
    )


def overlapping_order(
    computation: Computation,
    seconds: Callable[[Instruction], float],
) -> tuple[tuple[Instruction, ...], dict[str, float]]:
    """The instructions of a computation in an order that hides communication: of those whose
    operands are there, the one goes first on which the longest chain of collectives depends.

    This is what the compiler's latency-hiding scheduler does where memory allows it. `seconds` of
    an instruction that is no collective are 0. Also, by name, the seconds of those chains.
    """
    place = {each.name: number for number, each in enumerate(computation.instructions)}
    chain: dict[str, float] = {}
    for each in reversed(computation.instructions):
        later = max(
            (chain[user.name] for user in computation.users[each.name] if user.name in chain),
            default=0.0,
        )
        chain[each.name] = later + seconds(each)
    missing = {
        each.name: len({name for name in each.operands if name in place})
        for each in computation.instructions
    }
    queue = [(-chain[name], place[name]) for name, count in missing.items() if not count]
    heapq.heapify(queue)
    order: list[Instruction] = []
    while queue:
        each = computation.instructions[heapq.heappop(queue)[1]]
        order.append(each)
        for user in {user.name: user for user in computation.users[each.name]}.values():
            missing[user.name] -= 1
            if not missing[user.name]:
                heapq.heappush(queue, (-chain[user.name], place[user.name]))
    return tuple(order), chain

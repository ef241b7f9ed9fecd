"""How long NCCL takes for a collective: rings over NVLink and the network, sums in the switch.

Of a group with k GPUs in each of H domains a ring passes every GPU once, and leaves each domain on
k rails, one for each GPU's network card. An all-gather, or the reverse, passes V (1 - 1/n) bytes
over every link. Sums in the switch (NVLink SHARP) need no ring: each GPU reads the sum of its part
from the switch, and writes it to all by one store, V (1 + 1/k) bytes over each GPU's links.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spmd_core.machine import Gpu
from spmd_core.time.gpu.constants import (
    COLLECTIVE_S,
    EXCHANGE_SHARE,
    HOP_S,
    LAUNCH_S,
    NETWORK_HOP_S,
    NETWORK_SHARE,
    PEER_S,
    PIPE_S,
    SHARP_SLOWER,
    SWITCH_PIPE_S,
    SWITCH_S,
    TREE_SHARE,
    XLA_SUM_S,
    XLA_SUM_SHARE,
)

# who calls NCCL: XLA; a test of NCCL alone; one whose network adds up as well (InfiniBand SHARP); an
# engine of serving, which has kernels of its own besides
Caller = Literal["xla", "nccl", "sharp", "engine"]
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of one group: `here` in each of `domains` NVLink domains."""

    here: int
    domains: int = 1

    @property
    def count(self) -> int:
        """All of it."""
        return self.here * self.domains


@dataclass(frozen=True, slots=True)
class Over:
    """Links that a collective goes over: their nominal rate in bytes per second, its seconds there."""

    name: str
    rate: float
    seconds: float


def nccl_s(gpu: Gpu, kind: str, group: Group, nbytes: float, caller: Caller = "xla") -> float:
    """Seconds of a collective of `nbytes`, the larger of operand and result per device. ValueError
    of a kind that has no formula.
    """
    direct = _direct_s(gpu, group, nbytes) if caller == "engine" else math.inf
    if kind in ("all-gather", "reduce-scatter", "collective-broadcast"):
        return min(direct, COLLECTIVE_S + _ring_s(gpu, group, nbytes))
    if kind == "all-reduce":
        late = XLA_SUM_S if caller == "xla" and gpu.switch_share else 0.0
        twice = 2 * direct - LAUNCH_S  # one kernel
        around = min(_ring_s(gpu, group, nbytes, trees) for trees in (False, True))
        return (
            min(COLLECTIVE_S + 2 * around, _in_switch_s(gpu, group, nbytes, caller), twice) + late
        )
    if kind in ("all-to-all", "ragged-all-to-all"):
        return _exchange_s(gpu, group, nbytes, caller)
    raise ValueError(f"collective {kind!r} has no formula")


def least_s(gpu: Gpu, kind: str, group: Group, nbytes: float) -> float:
    """Seconds at the links' nominal rates, without latency: of an all-reduce as scattered sums that
    are gathered, which no measured sum in the switch has come below.
    """
    return least_over(gpu, kind, group, nbytes).seconds


def least_over(gpu: Gpu, kind: str, group: Group, nbytes: float) -> Over:
    """Returns the links over which `least_s` of a collective takes longest."""
    n, here, domains = group.count, group.here, group.domains
    links, card = gpu.link_bandwidth, gpu.dcn_bandwidth
    if kind in ("all-to-all", "ragged-all-to-all"):
        near, far = nbytes * (here - 1) / n, nbytes * (n - here) / n
        cards = Over("each GPU's network card", card, far / card)
    else:
        times = 2 if kind == "all-reduce" else 1
        near = times * nbytes * (1 - 1 / here if domains > 1 else 1 - 1 / n)
        seconds = times * nbytes * (1 - 1 / domains) / (here * card)
        cards = Over(f"the network cards of {here} GPUs", here * card, seconds)
    return max(Over("NVLink", links, near / links), cards, key=lambda each: each.seconds)


def pairs_s(gpu: Gpu, near: int, far: int, nbytes: float, *, nominal: bool = False) -> float:
    """Seconds of messages of `nbytes` from GPU to GPU: the most that one sends or receives, `near`
    over NVLink and `far` over its network card.
    """
    link, card = (1.0, 1.0) if nominal else (gpu.ring_share, EXCHANGE_SHARE)
    begin = 0.0 if nominal else COLLECTIVE_S + (NETWORK_HOP_S if far else HOP_S)
    over = max(
        near * nbytes / (gpu.link_bandwidth * link), far * nbytes / (gpu.dcn_bandwidth * card)
    )
    return begin + over + (0.0 if nominal else PIPE_S * math.sqrt(nbytes / _MIB))


def _direct_s(gpu: Gpu, group: Group, nbytes: float) -> float:
    """A kernel in which each GPU reads its parts from all others over NVLink, as the custom
    all-reduce of vLLM and TensorRT-LLM's do, twice, within a CUDA graph.
    """
    if group.domains > 1:
        return math.inf
    rate = gpu.link_bandwidth * gpu.ring_share
    return LAUNCH_S + HOP_S + nbytes * (1 - 1 / group.here) / rate


def _ring_s(gpu: Gpu, group: Group, nbytes: float, trees: bool = False) -> float:
    """Once around: every part passes all GPUs; or up a tree of the domains."""
    around, between = (1, math.log2(group.domains)) if trees else (group.domains, group.domains - 1)
    steps = (group.here - 1) * around * HOP_S + between * NETWORK_HOP_S
    rate = math.inf if group.here == 1 else gpu.link_bandwidth * gpu.ring_share
    if group.domains > 1:
        rate = min(rate, group.here * gpu.dcn_bandwidth * NETWORK_SHARE)
    rate *= TREE_SHARE if trees else 1.0
    return steps + nbytes * (1 - 1 / group.count) / rate + PIPE_S * math.sqrt(nbytes / _MIB)


def _in_switch_s(gpu: Gpu, group: Group, nbytes: float, caller: Caller) -> float:
    """Sums in the switches; infinite where there are none."""
    if not gpu.switch_share or group.here < 4 or (group.domains > 1 and caller != "sharp"):
        return math.inf
    share = gpu.switch_share * (XLA_SUM_SHARE if caller == "xla" else 1.0)
    inside = nbytes * (1 + 1 / group.here) / (gpu.link_bandwidth * share)
    between = 0.0
    if group.domains > 1:
        inside *= SHARP_SLOWER
        between = nbytes / group.here / (gpu.dcn_bandwidth * NETWORK_SHARE)
    begin = COLLECTIVE_S + SWITCH_S + (2 * NETWORK_HOP_S if group.domains > 1 else 0.0)
    return begin + max(inside, between) + SWITCH_PIPE_S * math.sqrt(nbytes / _MIB)


def _exchange_s(gpu: Gpu, group: Group, nbytes: float, caller: Caller) -> float:
    """An all-to-all: to each GPU its part, over NVLink or over one's own network card; by an engine
    from within a kernel (DeepEP, whose published 155 us for 128 tokens to 32 H800 this meets).
    """
    n = group.count
    near = nbytes * (group.here - 1) / n / (gpu.link_bandwidth * gpu.ring_share)
    far = nbytes * (n - group.here) / n / (gpu.dcn_bandwidth * EXCHANGE_SHARE)
    if caller == "engine":
        return LAUNCH_S + (NETWORK_HOP_S if far else HOP_S) + max(near, far)
    begin = COLLECTIVE_S + PEER_S * (n - 1)
    return begin + max(near, far) + PIPE_S * math.sqrt(nbytes / _MIB)


def busiest(messages: np.ndarray) -> int:
    """The most of these messages, [n, 2] from and to a device, that one sends, or receives."""
    return max((int(np.bincount(each).max(initial=0)) for each in messages.T), default=0)

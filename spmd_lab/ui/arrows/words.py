"""The sentences about who sends to whom: the busiest link, what an arrow is, what is not known."""

from collections.abc import Sequence

import numpy as np

from spmd_core.base import bytes_text, count_text, scaled_text, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective
from spmd_core.machine import Gpu, Topology
from spmd_core.pictures import (
    PERMUTE,
    SEND,
    ArrowScene,
    ChipLink,
    Groups,
    Placed,
    Traffic,
    follows_axes,
    placed,
)
from spmd_core.program import CollectiveRow
from spmd_core.roofline import link_s
from spmd_core.terms import listed
from spmd_core.workloads import TRANSFERS

ALL = "All together"
_GROUPS = 3  # of devices, that a label names
_DEVICES = 4
_SHARED = (
    "Bytes by the rings that the cost model assumes, shared over axes by their bandwidth. "
    "An all-to-all takes the shortest ways."
)
_DIRECT = "An all-to-all goes from each to each."
_SWITCHED = (
    f"Rings as NCCL makes them: over the NVLink switch, and over each GPU's network card. {_DIRECT}"
)
_NO_LINKS = (
    f"Links between these devices are not known: each group passes shards round a ring. {_DIRECT}"
)
_SIMULATED = "Simulated devices share memory: an arrow is who sends to whom, no wire."
_SENT = {
    "reduce": ("2(n-1)/n", "a reduce-scatter, then an all-gather"),
    "part": ("(n-1)/n", "all but its own part"),
}


def sent(one: Collective) -> str:
    """Returns how the bytes of a collective become those that a device sends; "" where these are the
    same, or the devices of a group are not known.
    """
    known = TRANSFERS.get(one.kind)
    n = one.group_size or len(one.groups[0] if one.groups else ())
    if known is None or known.share not in _SENT or n < 2 or not one.bytes:
        return ""
    factor, why = _SENT[known.share]
    each = bytes_text(one.sent_share * one.bytes)
    return (
        f"{known.title} of {bytes_text(one.bytes)} among n = {n}: each device sends {each}, "
        f"{factor} of it: {why}."
    )


def headline(stand: Placed, traffic: Traffic, when: str) -> str:
    """The answer: the busiest link, and how long it takes at its nominal rate; `when` is e.g. `in
    one call`.
    """
    busiest = traffic.busiest
    if busiest is None:
        return nothing(traffic)
    size = bytes_text(busiest.nbytes)
    text = f"The busiest link carries {size} {when}, {ends(stand, busiest)}{over(busiest)}"
    if seconds := link_seconds(stand, busiest):
        rate = scaled_text(busiest.nbytes / seconds, "B/s")
        text += f": {seconds_text(seconds)} at its nominal {rate}"
    others = traffic.as_busy
    if others > 1:
        return f"{text}; {count_text(others)} more carry as much."
    return f"{text}; 1 more carries as much." if others else f"{text}."


def nothing(traffic: Traffic) -> str:
    """Why there is no arrow."""
    if traffic.unread:
        return (
            f"Which devices take part in {_many(traffic.unread)} is not known: the result names "
            "no groups, and its program text is not there or names others."
        )
    if traffic.one_device:
        return "Nothing is sent: each group is one device."
    return "Nothing is sent: no collective moves any byte between devices."


def _many(count: int) -> str:
    return "1 collective" if count == 1 else f"{count_text(count)} collectives"


def ends(stand: Placed, link: ChipLink) -> str:
    """From which device to which, by JAX's numbers: `device 3 → 4`."""
    return f"device {stand.numbers[link.source]} → {stand.numbers[link.target]}"


def over(link: ChipLink) -> str:
    """The end of a sentence: over which mesh axes."""
    return f" over {listed([f'`{axis}`' for axis in link.axes])}" if link.axes else ""


def way_words(stand: Placed, link: ChipLink) -> str:
    """What kind of link it is: `ICI x+`, `DCN`, `within the chip`, or the sender's ring."""
    if link.way == "dcn":
        return "network" if _is_gpu(stand) else "DCN"
    if link.way == "nvlink":
        return "NVLink"
    if link.way == "chip":
        return "within the chip"
    if link.way:
        return f"ICI {link.way}"
    return "direct" if link.kind == PERMUTE or stand.topology else "ring"


def _is_gpu(stand: Placed) -> bool:
    return stand.topology is not None and stand.topology.chip.is_gpu


def link_seconds(stand: Placed, link: ChipLink) -> float | None:
    """Seconds of a link's bytes at its nominal rate; None where that is not known."""
    if stand.topology is None or link.way in ("", "chip"):
        return None
    return link_s(stand.topology, link.way, link.nbytes)


def about(stand: Placed, experiment: Experiment) -> str:
    """What the arrows are, and by what algorithm."""
    if _is_gpu(stand):
        return _SWITCHED
    if stand.topology is not None:
        return _SHARED
    return _SIMULATED if experiment.place.is_simulated else _NO_LINKS


def notes(traffic: Traffic, drawn: ArrowScene) -> list[str]:
    """What the picture leaves out or assumes."""
    sentences = []
    if drawn.by_host:
        inside = f"; {bytes_text(drawn.inside)} stay within hosts" if drawn.inside else ""
        sentences.append(f"Drawn by host: a square is a host with its chips{inside}.")
    if drawn.planes < drawn.planes_in_all:
        sentences.append(
            f"{drawn.planes} of {drawn.planes_in_all} planes are drawn, from that of the "
            "busiest link on."
        )
    if traffic.as_listed:
        sentences.append(
            f"{_many(traffic.as_listed)} among devices that fill no subgrid of the torus: "
            "drawn as a ring in the order of the group."
        )
    if traffic.unread and traffic.links:
        sentences.append(
            f"{_many(traffic.unread)} not drawn: which devices take part is not known."
        )
    if traffic.unknown_count:
        sentences.append(
            f"{_many(traffic.unknown_count)} run an unknown number of times: counted once."
        )
    if traffic.one_device and traffic.links:
        sentences.append(f"{_many(traffic.one_device)} among one device each: nothing is sent.")
    ways = {link.way for link in traffic.links}
    if ways & {"z+", "z-"}:
        sentences.append("An arrow aslant leads to the next plane along z.")
    if "dcn" in ways:
        sentences.append(
            "A dashed arrow leads to another slice or NVLink domain, over the network."
        )
    return sentences


def row_label(row: CollectiveRow, stand: Placed, groups: Groups | None) -> str:
    """One choice of collectives: `all-reduce over x, 4.0 MiB × 12`; devices where no axis fits."""
    if row.count == 1:
        times = ""
    elif row.count is None:
        times = ", count unknown"
    else:
        times = f" × {count_text(row.count)}"
    return f"{row.what}{among(row.first, stand, groups)}, {row.size}{times}"


def among(collective: Collective, stand: Placed, groups: Groups | None) -> str:
    """Who takes part: mesh axes, or the devices where the groups follow none."""
    if groups is None or collective.kind == SEND or follows_axes(groups, collective, stand):
        return f" over {listed(collective.axes)}" if collective.axes else ""
    if collective.kind == PERMUTE or all(len(group) < 2 for group in groups):
        return ""
    named = [_devices(sorted(stand.numbers[at] for at in group)) for group in groups[:_GROUPS]]
    rest = f" | … ({len(groups)} groups)" if len(groups) > _GROUPS else ""
    return f" among devices {' | '.join(named)}{rest}"


def _devices(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_DEVICES]))
    return shown if len(numbers) <= _DEVICES else f"{shown} … ({len(numbers)})"


def alt(stand: Placed, traffic: Traffic, drawn: ArrowScene, when: str) -> str:
    """The picture in words, for who cannot see it."""
    noun = "hosts" if drawn.by_host else "nodes"
    return (
        f"{headline(stand, traffic, when)} {len(drawn.nodes)} {noun}, "
        f"{count_text(len(drawn.arrows))} arrows; the numbers are in the table below."
    )


def domains_title(topology: Topology) -> str:
    """The groups that GPUs are in: `2 NVLink domains of 8 GPUs`.

    >>> from spmd_core.machine import get_topology
    >>> domains_title(get_topology("gpu:gb200:72"))
    '1 NVLink domain of 72 GPUs, hosts of 4'
    """
    chip, each = topology.chip, topology.shape[0]
    word = chip.slice_word + ("s" if topology.slices > 1 else "")
    host = chip.host_chips if isinstance(chip, Gpu) and chip.host_chips < each else 0
    return f"{topology.slices} {word} of {each} GPUs" + (f", hosts of {host}" if host else "")


def domains_words(experiment: Experiment) -> str | None:
    """Which mesh axes stay in an NVLink domain and which cross the network; None off absent GPUs,
    and where a mesh does not fill them.
    """
    if not experiment.place.is_gpu:
        return None
    where = placed(experiment)
    if where.topology is None or where.places is None:
        return None
    domain = np.asarray([place[-1] for place in where.places])
    domain = domain.reshape([size for _, size in experiment.mesh])
    parts = []
    for axis, (name, size) in enumerate(experiment.mesh):
        spans = max(len(set(line)) for line in np.moveaxis(domain, axis, -1).reshape(-1, size))
        near = "shares an NVLink domain"
        parts += [f"{name} {near if spans == 1 else f'spans {spans} domains, over the network'}"]
    return f"{domains_title(where.topology)}: {'; '.join(parts)}."

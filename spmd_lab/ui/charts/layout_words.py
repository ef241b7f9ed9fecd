"""Devices, slices and mesh coordinates in words, for many shards at a time; and what has to move for a product of sharded arrays, or from spec to spec."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spmd_core.base import bytes_text, count_text, number_text, seconds_text
from spmd_core.experiment import Experiment, Layout, spec_code
from spmd_core.fields import Spec
from spmd_core.pictures import Move, Product
from spmd_core.roofline import Duration, Unknown
from spmd_core.terms import listed

_SOURCES = {
    "nominal": "Seconds by the cost model, latency included.",
    "measured": "Seconds as the calibration of this mesh measured them.",
    "calibrated": "Seconds by the calibration of this mesh.",
    "guessed": "Seconds are guesses: this target was not calibrated. Calibrate it on Collectives.",
}

Ints = NDArray[np.int64]
TimeOf = Callable[[Move], Duration | Unknown]
_LISTED = 4  # devices that are named one by one
_GROUPS = 24  # devices that a sentence names, about
SHARED = "Numbers: the devices that hold a shard. Color: the first of them."
NEEDED = (
    "What this sharding needs, axis by axis. Compiled, it may go another way, for instance "
    "by replicating an array first."
)


def not_to_scale(rows: str, stretch: float) -> str:
    """The note on a picture that has not the array's proportions.

    >>> not_to_scale("d0", 0.25)
    'Not to scale, so that every shard can be read: d0 is drawn 4 times shorter than it is.'
    """
    times, how = (stretch, "longer") if stretch > 1 else (1 / stretch, "shorter")
    return (
        f"Not to scale, so that every shard can be read: {rows} is drawn "
        f"{number_text(times)} times {how} than it is."
    )


def group_texts(groups: Ints) -> list[str]:
    """The devices of every row of `groups`, [shards, replication], as text: `3`, `0, 4`, `0–7`, or
    `0, 8 … 56 (8 devices)`.
    """
    count = groups.shape[1]
    if count <= _LISTED:
        return [", ".join(map(str, row)) for row in groups.tolist()]
    ends = groups[:, (0, 1, -1)].tolist()
    if (groups[:, -1] - groups[:, 0] == count - 1).all():
        return [f"{first}–{last}" for first, _, last in ends]
    return [
        f"{first}, {second} … {last} ({count_text(count)} devices)" for first, second, last in ends
    ]


def short_group_texts(groups: Ints) -> list[str]:
    """The same in as few characters as fit a cell: `3`, `0, 4`, `0–7`, or `0 +7` for eight devices,
    the first of which is 0.
    """
    count = groups.shape[1]
    if count <= 2:
        return group_texts(groups)
    if (groups[:, -1] - groups[:, 0] == count - 1).all():
        return [f"{first}–{last}" for first, last in groups[:, (0, -1)].tolist()]
    return [f"{first} +{count - 1}" for first in groups[:, 0].tolist()]


def range_texts(starts: Ints, stops: Ints) -> list[str]:
    """Slices along one dim, `2:4`."""
    return [f"{start}:{stop}" for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


def index_texts(starts: Ints, stops: Ints) -> list[str]:
    """Slices of all dims, `[0:2, 2:4]`; starts and stops are [shards, rank]."""
    by_dim = [range_texts(starts[:, dim], stops[:, dim]) for dim in range(starts.shape[1])]
    return (
        [f"[{', '.join(row)}]" for row in zip(*by_dim, strict=True)]
        if by_dim
        else ["[]"] * len(starts)
    )


def coordinate_texts(layout: Layout, devices: Ints, anywhere: tuple[str, ...] = ()) -> list[str]:
    """Mesh coordinates of devices, `x=0, y=3`; along the axes `anywhere` the text is `any`."""
    columns = [
        [f"{name}=any"] * len(devices)
        if name in anywhere
        else [f"{name}={place}" for place in layout.coordinates[devices, axis].tolist()]
        for axis, (name, _) in enumerate(layout.mesh)
    ]
    return [", ".join(row) for row in zip(*columns, strict=True)]


def sharing_text(layout: Layout) -> str | None:
    """Which devices hold the same data, in a sentence; None where no two do."""
    if layout.replication == 1:
        return None
    if layout.shard_count == 1:
        return "All devices hold the same data."
    listed = _GROUPS // min(layout.replication, _LISTED)
    groups = " · ".join(
        text.partition(" (")[0] for text in group_texts(layout.named_groups[:listed])
    ) + (" · …" if layout.shard_count > listed else "")
    return f"{count_text(layout.shard_count)} groups of {count_text(layout.replication)} devices hold the same data: {groups}"


def hosts_text(layout: Layout) -> str | None:
    """Which devices each host has, in a sentence; None where all are of one."""
    if layout.hosts is None:
        return None
    each = [np.flatnonzero(layout.hosts == host) for host in np.unique(layout.hosts)]
    named = [f"host {host}: {_spans(devices)}" for host, devices in enumerate(each)]
    return f"Devices by host: {' · '.join(named[:_GROUPS])}{' · …' if named[_GROUPS:] else ''}."


def _spans(devices: np.ndarray) -> str:
    """Ascending numbers, neighbors joined.

    >>> _spans(np.array([0, 1, 4, 5, 9]))
    '0 to 1, 4 to 5, 9'
    """
    runs = np.split(devices, np.flatnonzero(np.diff(devices) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def holders_text(layout: Layout, element: Sequence[int]) -> str:
    """Which devices hold an element: `Element [5, 2] is on device 4 (mesh x=1, y=0), which holds
    [4:8, 0:4].`
    """
    holders = layout.holders(element)
    first = int(holders[0])
    holds = index_texts(layout.starts[[first]], layout.stops[[first]])[0]
    index = ", ".join(map(str, element))
    if len(holders) == 1:
        mesh = coordinate_texts(layout, holders)[0]
        return f"Element [{index}] is on device {layout.numbers[first]} (mesh {mesh}), which holds {holds}."
    devices = group_texts(np.sort(layout.numbers[holders])[None])[0]
    many = "all devices" if len(holders) == layout.device_count else f"devices {devices}"
    return f"Element [{index}] is on {many}, each of which holds {holds}."


def numbers_words(layout: Layout) -> str:
    """What the numbers in the cells of a picture are."""
    if layout.device_ids is None:
        return "Numbers in cells are devices: positions in the mesh's device order."
    return "Numbers in cells are JAX's device ids, in the order in which the mesh places them."


def dim_text(layout: Layout, dim: int) -> str:
    """A dim and its mesh axes: `d0 over x`, `d1 over y then z`, `d2 not sharded`."""
    if not layout.shape:
        return "a scalar"
    axes = layout.spec[dim]
    over = f"over {' then '.join(axes)}" if axes else "not sharded"
    return f"{layout.dim_name(dim)} {over}"


def compact(number: int) -> str:
    """A whole number in few characters, and exactly: `512Ki` is 512 × 1,024, `3Mi` is 3 × 1,024².

    >>> compact(1000), compact(2**19), compact(2**20 + 1)
    ('1000', '512Ki', '1048577')
    """
    for power, name in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if number >= 16 * 1024 and number % 2**power == 0:
            return f"{number >> power}{name}"
    return str(number)


def axes_words(axes: Sequence[str]) -> str:
    """Axes in a sentence: `x` and `y`."""
    return listed([f"`{axis}`" for axis in axes]) if axes else "no axis"


def product_headline(experiment: Experiment, product: Product, time_of: TimeOf) -> str:
    """The answer for a product: what is sent, in how many collectives, how long they take."""
    sent = product.collectives
    if not sent:
        return "No communication: every device has what its part of the product needs"
    results = [array.name for array in experiment.what.results]
    kinds = listed(
        [  # an array and an axis may have one name: the noun distinguishes them
            f"{move.kind} of {'the result' if move.array in results else 'operand'} {move.array} over "
            f"{'axis' if len(move.axes) == 1 else 'axes'} {axes_words(move.axes)}"
            for move in sent
        ]
    )
    return f"{kinds[0].upper()}{kinds[1:]}{in_all(sent, time_of)}"


def reshard_headline(
    before: Spec, after: Spec, moves: Sequence[Move], missing: int, time_of: TimeOf
) -> str:
    """The answer for a change of spec: bytes that a device lacks, and by what they come."""
    way = f"{spec_code(before)} → {spec_code(after)}"
    sent = [move for move in moves if move.sends]
    if not sent:
        keeps = (
            "each device keeps a part of what it holds"
            if moves
            else "every device already holds it"
        )
        return f"{way}: nothing is sent, {keeps}"
    kinds = listed([f"{move.kind} over {axes_words(move.axes)}" for move in sent])
    return f"{way}: each device receives at most {bytes_text(missing)}, by {kinds}{in_all(sent, time_of)}"


def from_host(kind: str, held: str) -> str:
    """What precedes a change of spec of an array in host memory, and where its result is."""
    return (
        f"The array is in `{kind}`: first each device copies its {held} from the host. "
        "The result is in `device` memory."
    )


def in_all(sent: Sequence[Move], time_of: TimeOf) -> str:
    """The end of a sentence: what all collectives take, where that is known of each."""
    each = [time_of(move) for move in sent]
    known = [one for one in each if isinstance(one, Duration)]
    if len(known) < len(each):
        return ""
    seconds = sum(one.seconds for one in known)
    is_guess = any(one.source == "guessed" for one in known)
    return f": about {guess_text(seconds)}, a guess" if is_guess else f": {seconds_text(seconds)}"


def guess_text(seconds: float) -> str:
    """Returns seconds with the one digit that a guess has.

    >>> guess_text(0.0414), guess_text(1.87e-4)
    ('40 ms', '200 µs')
    """
    return seconds_text(float(f"{seconds:.1g}"))


def takes_text(duration: Duration | Unknown) -> str:
    """Returns what a collective takes, as far as it is known."""
    if isinstance(duration, Duration) and duration.source == "guessed":
        return guess_text(duration.seconds)
    return seconds_text(duration.seconds)


def why(experiment: Experiment, product: Product, move: Move) -> str:
    """Why a step of a product is there."""
    what = experiment.what
    if move.kind in ("all-reduce", "reduce-scatter"):
        dims = dict(product.split)
        contracted = listed([f"`{dim}`" for dim in dict.fromkeys(dims[axis] for axis in move.axes)])
        keeps = ", and each device keeps its shard" if move.kind == "reduce-scatter" else ""
        return (
            f"the contracted dim {contracted} is sharded over {axes_words(move.axes)}: partial "
            f"sums of {move.array} are added{keeps}"
        )
    names = what.array(move.array).present(experiment.sizes)
    stored = spec_code(experiment.spec(move.array))
    used = spec_code(dict(product.used)[move.array])
    if move.array == what.results[0].name:
        return f"{move.array} is computed as {used} and wanted as {stored}"
    if move.kind == "slice":
        dims = listed([f"`{names[dim]}`" for dim in move.dims])
        return f"each device needs only its part of {dims}: nothing is sent"
    return f"{move.array} is stored as {stored} and needed as {used}"


def step_why(move: Move) -> str:
    """Why a step from spec to spec is there."""
    dims = listed([f"d{dim}" for dim in move.dims]) if move.dims else "the array"
    return {
        "all-gather": f"{dims} is to be replicated over these axes",
        "all-to-all": f"from sharding {' to '.join(f'd{dim}' for dim in move.dims)}",
        "slice": f"{dims}: each device keeps a part of what it holds, nothing is sent",
        "collective-permute": "each device gets its shard from another that holds it",
    }.get(move.kind, "")


def time_source(sent: Sequence[Move], time_of: TimeOf) -> str:
    """Where the seconds of these moves are from, or why there are none."""
    return " ".join(dict.fromkeys(source_words(time_of(move)) for move in sent))


def together_about(to_scale: bool, planes: bool) -> str:
    """What the picture of several arrays shows; `planes`: of some, only two dims."""
    scale = (
        "To one scale."
        if to_scale
        else "Not to scale: what would be too thin to read is drawn thicker."
    )
    scale += " Of more than two dims, two are drawn, sharded ones first." if planes else ""
    return f"{scale} {SHARED}"


def source_words(duration: Duration | Unknown) -> str:
    """One sentence.

    >>> source_words(Unknown("The time is unknown."))
    'The time is unknown.'
    """
    if isinstance(duration, Unknown):
        return duration.reason
    if duration.stand_in:
        return f"Seconds by the calibration of this mesh, {duration.stand_in}."
    return _SOURCES[duration.source]

"""Builds the timeline of one call, and the account of its time, from a profiler's record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from spmd_core.base import by_key
from spmd_core.facts import Trace, TracedDevice, TracedOperation
from spmd_core.pictures.timeline.facts import COPY, ProgramFacts
from spmd_core.pictures.timeline.recorded import HOST, Event, Recorded
from spmd_core.pictures.timeline.values import (
    AT_WORK,
    BESIDE,
    WAIT,
    Span,
    Stretch,
    Timeline,
    TimelineScene,
    covered_s,
    joined,
    outside,
)

MOST_SPANS = 3000  # drawn: the longest are kept
MOST_ROWS = 32  # devices that are drawn: those that compute most and least
MOST_OPERATIONS = 60  # listed, the longest first
MOST_COLUMNS = 64  # devices up to which an operation's seconds are listed one by one
DRAWN = {"compute": "memory"}  # a kind -> the timeline's, which colors products apart


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one device's time: an event, or a part of it that is a wait for others."""

    device: int
    name: str
    kind: str
    start_s: float
    end_s: float
    late: int | None = None  # of a wait: the device that came last
    beside: bool = False
    unattributed: bool = False

    @property
    def stretch(self) -> Stretch:
        """From when to when."""
        return self.start_s, self.end_s

    @property
    def length_s(self) -> float:
        """How long it takes."""
        return self.end_s - self.start_s


def of_recorded(recorded: Recorded, facts: ProgramFacts) -> tuple[Timeline, Trace] | None:
    """The call of median length as a timeline, and its account; None if no device recorded
    anything.
    """
    calls = [call for call in recorded.split() if call.events]
    if not calls:
        return None
    ranked = sorted(calls, key=lambda call: call.length_s)
    chosen = ranked[(len(ranked) - 1) // 2]
    begin = min(event.start_s for event in chosen.events)
    pieces = pieces_of(
        [replace(event, start_s=event.start_s - begin) for event in chosen.events], facts
    )
    trace = account(pieces, facts, chosen.length_s)
    return (
        timeline(pieces, facts, chosen.length_s, trace.devices),
        trace.model_copy(update={"calls_s": tuple(call.length_s for call in calls)}),
    )


def of_host(recorded: Recorded) -> Timeline | None:
    """The host's timeline of the first call with host events; None if there are none."""
    call = next((call for call in recorded.split() if call.host), None)
    if call is None:
        return None
    begin = min(event.start_s for event in call.host)
    pieces = [
        Piece(HOST, each.name, "compute", each.start_s - begin, each.end_s - begin)
        for each in call.host
    ]
    return timeline(pieces, ProgramFacts(None), call.length_s, ())


def pieces_of(events: Sequence[Event], facts: ProgramFacts) -> list[Piece]:
    """Events without those that only group others; collectives without what they wait for."""
    ordered = sorted(events, key=lambda event: (event.start_s, -event.length_s))
    by_device = by_key((event.device, event) for event in ordered)
    # what runs beside is on the device's own track too, while it is issued: a few ns, which are no
    # time of the operation. A chip may record the track beside for all others.
    issued = {event.name for event in events if event.beside}
    kept = {
        device: [
            event
            for event in _without_groups(listed, facts)
            if event.beside or event.name not in issued
        ]
        for device, listed in by_device.items()
    }
    arrivals = _arrivals(kept, facts)
    pieces: list[Piece] = []
    for listed in kept.values():
        times: dict[str, int] = defaultdict(int)
        for event in listed:
            arrival = arrivals.get((event.device, event.name, times[event.name]))
            times[event.name] += 1
            pieces += _split(event, facts.of(event.name).kind, arrival)
    return sorted(pieces, key=lambda piece: (piece.start_s, -piece.length_s))


def _without_groups(events: Sequence[Event], facts: ProgramFacts) -> Iterator[Event]:
    """Events of a device but for loops and calls whose own operations were recorded too."""
    for at, event in enumerate(events):
        follows = events[at + 1] if at + 1 < len(events) else None
        holds = (
            follows is not None
            and follows.start_s < event.end_s
            and follows.end_s <= event.end_s
            and not follows.beside
        )
        if not (holds and facts.of(event.name).contains):
            yield event


def _arrivals(
    events: Mapping[int, Sequence[Event]], facts: ProgramFacts
) -> dict[tuple[int, str, int], tuple[float, int]]:
    """(device, collective, execution) -> when the last of its devices arrived, and which device."""
    started: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for device, listed in events.items():
        for event in listed:
            fact = facts.of(event.name)
            # of a stream, a start is all of it; elsewhere it only issues what runs beside
            if fact.groups and not event.beside and (event.stream or not fact.is_part):
                started[event.name][device].append(event.start_s)
    arrivals: dict[tuple[int, str, int], tuple[float, int]] = {}
    for name, starts in started.items():
        for device, peers in _peers(facts, name).items():
            for turn in range(len(starts.get(device, ()))):
                last = max(
                    (starts[peer][turn], peer) for peer in peers if len(starts.get(peer, ())) > turn
                )
                arrivals[device, name, turn] = last
    return arrivals


def _peers(facts: ProgramFacts, name: str) -> dict[int, set[int]]:
    """Device -> the devices that it needs for a collective, including itself: of a permute, its
    senders.
    """
    fact = facts.of(name)
    peers: dict[int, set[int]] = defaultdict(set)
    for group in fact.groups or ():
        if fact.kind == "collective-permute" and len(group) == 2:
            peers[group[1]] |= set(group)
            peers[group[0]].add(group[0])
        else:
            for device in group:
                peers[device] |= set(group)
    return peers


def _split(event: Event, kind: str, arrival: tuple[float, int] | None) -> list[Piece]:
    start, end = event.start_s, event.end_s
    pieces = []
    if arrival is not None and arrival[0] > start:
        here = min(arrival[0], end)
        pieces.append(Piece(event.device, event.name, WAIT, start, here, late=arrival[1]))
        start = here
    pieces.append(
        Piece(
            event.device,
            event.name,
            kind,
            start,
            end,
            beside=event.beside,
            unattributed=event.unattributed,
        )
    )
    return pieces


# Account of the time ------------------------------------------------------------------------


def account(pieces: Sequence[Piece], facts: ProgramFacts, step_s: float) -> Trace:
    """Seconds by device and by operation of a call of `step_s` seconds."""
    by_device = by_key((piece.device, piece) for piece in pieces)
    devices = tuple(_device(device, by_device[device], step_s) for device in sorted(by_device))
    computing = [each.compute_s for each in devices]
    beside = {piece.device for piece in pieces if piece.beside}
    communicating = [each for each in devices if not beside or each.device in beside]
    operations = _operations(pieces, facts, tuple(sorted(by_device)))
    return Trace(
        step_s=step_s,
        compute_s=fmean(computing),
        collectives_s=fmean(each.collectives_s for each in communicating),
        exposed_s=fmean(each.exposed_s for each in communicating),
        asynchronous_on=len(communicating) if len(communicating) < len(devices) else None,
        waits_s=fmean(each.waits_s for each in devices),
        skew=(max(computing) - min(computing)) / max(computing)
        if len(computing) > 1 and max(computing)
        else None,
        unattributed=_unattributed(by_device.values()),
        devices=devices,
        operations=operations[:MOST_OPERATIONS],
        other_operations=max(0, len(operations) - MOST_OPERATIONS),
    )


def _unattributed(devices: Iterable[Sequence[Piece]]) -> float:
    """The share of the devices' busy time in which only kernels run that name no instruction."""
    lost = busy = 0.0
    for pieces in devices:
        known = joined(each.stretch for each in pieces if not each.unattributed)
        every = joined(each.stretch for each in pieces)
        lost, busy = lost + covered_s(outside(every, known)), busy + covered_s(every)
    return lost / busy if busy else 0.0


def _device(device: int, pieces: Sequence[Piece], step_s: float) -> TracedDevice:
    """One device's seconds; what overlaps counts once, computing before all else."""
    work = joined(piece.stretch for piece in pieces if _is_work(piece.kind))
    copies = joined(piece.stretch for piece in pieces if piece.kind == COPY)
    waits = joined(piece.stretch for piece in pieces if piece.kind == WAIT)
    collectives = joined(piece.stretch for piece in pieces if _is_collective(piece.kind))
    exposed = outside(collectives, work)
    busy = joined((*work, *collectives))
    waits = outside(waits, busy)
    copies = outside(copies, joined((*busy, *waits)))
    parts = [covered_s(work), covered_s(exposed), covered_s(waits), covered_s(copies)]
    return TracedDevice(
        device=device,
        compute_s=parts[0],
        collectives_s=covered_s(collectives),
        exposed_s=parts[1],
        waits_s=parts[2],
        copies_s=parts[3],
        idle_s=max(0.0, step_s - sum(parts)),
    )


def _is_work(kind: str) -> bool:
    return kind in (*AT_WORK, "compute")


def _is_collective(kind: str) -> bool:
    return not _is_work(kind) and kind not in (COPY, WAIT)


def _operations(
    pieces: Sequence[Piece], facts: ProgramFacts, devices: tuple[int, ...]
) -> tuple[TracedOperation, ...]:
    """Each instruction's seconds, its waits apart; the longest on average first."""
    seconds: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for piece in pieces:
        key = piece.name, piece.kind
        seconds[key][piece.device] += piece.length_s
        counts[key][piece.device] += 1
    operations = []
    beside = {(piece.name, piece.kind) for piece in pieces if piece.beside}
    for (name, kind), on in seconds.items():
        recorded = tuple(on) if (name, kind) in beside else devices
        fact, slowest = facts.of(name), max(on, key=lambda device: on[device])
        operations.append(
            TracedOperation(
                name=name,
                kind=kind,
                op=fact.op,
                source=fact.source,
                count=max(counts[name, kind].values()),
                mean_s=sum(on.values()) / len(recorded),
                least_s=min(on.get(device, 0.0) for device in recorded),
                most_s=on[slowest],
                slowest=slowest,
                device_s=tuple(on.get(device) for device in devices)
                if len(devices) <= MOST_COLUMNS
                else (),
            )
        )
    return tuple(sorted(operations, key=lambda each: -each.mean_s))


# The picture ----------------------------------------------------------------------------------


def timeline(
    pieces: Sequence[Piece], facts: ProgramFacts, step_s: float, devices: Sequence[TracedDevice]
) -> Timeline:
    """A row per device, and another where something runs beside its operations."""
    drawn = drawn_devices(devices)
    inside = [
        piece for piece in pieces if piece.length_s > 0 and (piece.device in drawn or not devices)
    ]
    kept = sorted(inside, key=lambda piece: -piece.length_s)[:MOST_SPANS]
    kept.sort(key=lambda piece: (piece.start_s, -piece.length_s))
    lanes = _lanes(kept)
    rows = sorted(set(lanes))
    work = {
        device: joined(
            piece.stretch for piece in inside if piece.device == device and _is_work(piece.kind)
        )
        for device in {piece.device for piece in kept}
    }
    last: dict[int, int] = {}
    spans = []
    for at, (piece, lane) in enumerate(zip(kept, lanes, strict=True)):
        span = _span(piece, facts, work[piece.device])
        if piece.late is not None and piece.late in last:
            span = replace(span, needs=(last[piece.late],))
        if piece.kind != WAIT:
            last[piece.device] = at
        spans.append(replace(span, row=rows.index(lane)))
    left = len(inside) - len(kept)
    left_s = sum(piece.length_s for piece in inside) - sum(piece.length_s for piece in kept)
    scene = TimelineScene(
        "",
        tuple(map(row_name, rows)),
        tuple(spans),
        step_s,
        left_out=left,
        left_out_s=left_s if left else 0.0,
    )
    return Timeline((scene,), predicted=False)


def drawn_devices(devices: Sequence[TracedDevice]) -> frozenset[int]:
    """All devices, or of many those that compute most and least."""
    ranked = [each.device for each in sorted(devices, key=lambda each: each.compute_s)]
    half = MOST_ROWS // 2
    return frozenset(ranked if len(ranked) <= MOST_ROWS else (*ranked[:half], *ranked[-half:]))


def row_name(lane: tuple[int, int]) -> str:
    """A row of the timeline: `device 3`, `device 3, beside`, `host`."""
    device, beside = lane
    name = "host" if device == HOST else f"device {device}"
    if beside > 1:
        return f"{name}{BESIDE} {beside}"
    return f"{name}{BESIDE}" if beside else name


def _lanes(pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    """(device, lane) of each piece: the first that is free, from the second on beside."""
    free: dict[tuple[int, int], float] = defaultdict(float)
    lanes = []
    for piece in pieces:
        lane = (piece.device, int(piece.beside))
        while free[lane] > piece.start_s + 1e-9:
            lane = lane[0], lane[1] + 1
        free[lane] = piece.end_s
        lanes.append(lane)
    return lanes


def _span(piece: Piece, facts: ProgramFacts, work: Sequence[Stretch]) -> Span:
    if piece.kind == WAIT:
        return Span(
            f"device {piece.late}",
            WAIT,
            0,
            piece.start_s,
            piece.length_s,
            line=facts.of(piece.name).line,
        )
    fact = facts.of(piece.name)
    exposed = outside((piece.stretch,), work) if _is_collective(piece.kind) else ()
    return Span(
        piece.name,
        DRAWN.get(piece.kind, piece.kind),
        0,
        piece.start_s,
        piece.length_s,
        op=fact.op,
        source=fact.source,
        line=fact.line,
        nbytes=fact.nbytes,
        exposed=tuple(exposed),
        exposed_s=covered_s(exposed),
    )

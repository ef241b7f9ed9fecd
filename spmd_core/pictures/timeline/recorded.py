"""What a profiler recorded of a few calls, as values independent of any profiler."""

from collections.abc import Iterator
from dataclasses import dataclass

from spmd_core.base import by_key, sums_by_key

HOST = -1  # the device of what the host did


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a device did: seconds on the trace's clock, and the instruction's name.

    `beside`: on a track of its own beside the device's operations, such as an asynchronous copy.
    `stream`: on a stream of a GPU, where an instruction's start is all of what it starts. A kernel
    that names no instruction is `unattributed`, under its own name.
    """

    device: int
    name: str
    start_s: float
    length_s: float
    beside: bool = False
    stream: bool = False
    unattributed: bool = False

    @property
    def end_s(self) -> float:
        """When it ends."""
        return self.start_s + self.length_s


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution of a compiled program on a device, by the device's own clock."""

    device: int
    program: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """The events of all calls, and (start, end) of each call as the host saw it.

    `host` are the events of the calling thread. `left_out` counts events that were not read.
    `executions` are those that the devices recorded: a TPU does, simulated devices do not.
    """

    events: tuple[Event, ...]
    calls: tuple[tuple[float, float], ...]
    host: tuple[Event, ...] = ()
    left_out: int = 0
    executions: tuple[Execution, ...] = ()

    def split(self) -> tuple["Recorded", ...]:
        """Each call with its own events; a single call with all events if no call was marked.

        By the devices' own executions where they recorded any: a device's clock can be ahead of the
        host's, so that its operations seem to begin before the call (jax #23426).
        """
        if self.executions:
            return tuple(self._by_executions())
        if not self.calls:
            return (self,) if self.events else ()
        return tuple(
            Recorded(_within(self.events, call), (call,), _within(self.host, call), self.left_out)
            for call in self.calls
        )

    def _by_executions(self) -> Iterator["Recorded"]:
        """The executions of each device in order, as many to a call as each call has of them."""
        ordered = sorted(self.executions, key=lambda each: each.start_s)
        on = by_key((each.device, each) for each in ordered)
        of_each = {device: _parts(listed, len(self.calls)) for device, listed in on.items()}
        of_device = by_key((event.device, event) for event in self.events)
        count = min(len(parts) for parts in of_each.values())
        for turn in range(count):
            events = [
                event
                for device, parts in of_each.items()
                for event in of_device.get(device, ())
                # from the end: the profiler may have missed the first on some devices
                if parts[turn - count][0].start_s <= event.start_s < parts[turn - count][-1].end_s
            ]
            marked = self.calls[turn - count : turn - count + 1] or self.calls[-1:]
            host = _within(self.host, marked[0]) if len(self.calls) == count else ()
            yield Recorded(tuple(events), marked, host, self.left_out)

    @property
    def length_s(self) -> float:
        """From the first operation of any device to the end of the last; of the host without."""
        events = self.events or self.host
        return max(e.end_s for e in events) - min(e.start_s for e in events) if events else 0.0


def _parts(listed: list[Execution], calls: int) -> list[list[Execution]]:
    """A device's executions, those of each call together. Where they cannot be divided among the
    calls: each execution of the program that took the longest.
    """
    size, rest = divmod(len(listed), calls) if calls else (0, 1)
    if size and not rest:
        return [listed[at : at + size] for at in range(0, len(listed), size)]
    seconds = sums_by_key((each.program, each.end_s - each.start_s) for each in listed)
    longest = max(seconds, key=lambda program: seconds[program])
    return [[each] for each in listed if each.program == longest]


def _within(events: tuple[Event, ...], call: tuple[float, float]) -> tuple[Event, ...]:
    return tuple(event for event in events if call[0] <= event.start_s < call[1])

"""What a profiler recorded of a few calls, as values independent of any profiler."""

from dataclasses import dataclass

HOST = -1  # the device of what the host did


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a device did: seconds on the trace's clock, and the instruction's name.

    `beside`: on a track of its own beside the device's operations, such as an asynchronous copy.
    """

    device: int
    name: str
    start_s: float
    length_s: float
    beside: bool = False

    @property
    def end_s(self) -> float:
        """When it ends."""
        return self.start_s + self.length_s


@dataclass(frozen=True, slots=True)
class Recorded:
    """The events of all calls, and (start, end) of each call as the host saw it.

    `host` are the events of the calling thread. `left_out` counts events that were not read.
    """

    events: tuple[Event, ...]
    calls: tuple[tuple[float, float], ...]
    host: tuple[Event, ...] = ()
    left_out: int = 0

    def split(self) -> tuple["Recorded", ...]:
        """Each call with its own events; a single call with all events if no call was marked."""
        if not self.calls:
            return (self,) if self.events else ()
        return tuple(
            Recorded(_within(self.events, call), (call,), _within(self.host, call), self.left_out)
            for call in self.calls
        )

    @property
    def length_s(self) -> float:
        """From the first operation of any device to the end of the last; of the host without."""
        events = self.events or self.host
        return max(e.end_s for e in events) - min(e.start_s for e in events) if events else 0.0


def _within(events: tuple[Event, ...], call: tuple[float, float]) -> tuple[Event, ...]:
    return tuple(event for event in events if call[0] <= event.start_s < call[1])

"""The answer to "how long": seconds and where they come from, or why there are none."""

from dataclasses import dataclass
from typing import Literal

# nominal: data sheet and links of a topology; measured: by a calibration, at this very size;
# calibrated: between or beyond its sizes, or by what stands in; guessed: of simulated devices
Source = Literal["nominal", "measured", "calibrated", "guessed"]


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds of an operation or a collective within a program, and their interval.

    The dispatch floor, which every call of a program takes once, is in none of these: it is
    `floor_s`. `stand_in`: what was measured in place of the question, "" where nothing else was.
    """

    seconds: float
    low: float
    high: float
    source: Source
    floor_s: float = 0.0
    stand_in: str = ""

    @property
    def alone_s(self) -> float:
        """Seconds of a call that does nothing else, the dispatch floor included."""
        return self.floor_s + self.seconds


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known: the reason, in one sentence."""

    reason: str
    seconds: None = None


NOT_FILLED = Unknown("The mesh does not fill the topology, so that nothing is known of its links.")
NOT_CALIBRATED = Unknown(
    "The time is unknown: this target is not calibrated with this mesh; calibrate it with this "
    "mesh first, "
    "on Collectives, or choose a TPU topology as target."
)


def not_measured(what: str) -> Unknown:
    """Of something that a calibration leaves out, or that the links have no formula for."""
    return Unknown(f"The time is unknown: there is no estimate for {what} on this target.")

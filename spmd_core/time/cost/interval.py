"""How far a prediction may be off: perfect overlap and none, and an interval from what is uncertain
about each part.
"""

import math

from spmd_core.time.cost.clocks import Walk
from spmd_core.time.cost.constants import OVERLAP_HIGH, OVERLAP_LOW, UNMODELLED


def bounds(walk: Walk) -> tuple[float, float]:
    """(overlapped, sequential) in seconds, both at the rates of the estimate.

    Overlapped: every transfer beside the work and beside those on other links, so that the busiest
    resource is all that counts.
    Sequential: the work, and each transfer between chips or with the host after the other.
    """
    tally = walk.tally
    work = sum(tally.work.values())
    busiest = max((time for name, time in tally.links.items() if name != "copy"), default=0.0)
    network = sum(comm.seconds * count for comm, count, _ in tally.communications.values())
    host = tally.links.get("host in", 0.0) + tally.links.get("host out", 0.0)
    return min(max(work, busiest), walk.seconds), max(work + network + host, walk.seconds)


def interval(walk: Walk, least: float = 0.0) -> tuple[float, float]:
    """(low, high) in seconds: the root of the summed squares of what each kind of work, the overlap
    and the rest may be off by.

    They are independent guesses, which rarely all go wrong the same way at once. `least` is the
    time of the same program with everything at
    its peak or nominal rate: `low` is not below it, however much of the waiting is taken for
    hidden, since what cannot overlap does not.
    """
    tally = walk.tally
    _, sequential = bounds(walk)
    waits = sum(tally.waits.values())
    down = [*tally.faster.values(), OVERLAP_LOW * waits, UNMODELLED * walk.seconds]
    up = [
        *tally.slower.values(),
        OVERLAP_HIGH * (sequential - walk.seconds),
        UNMODELLED * walk.seconds,
    ]
    low = max(0.0, least, walk.seconds - math.hypot(*down))
    return min(low, walk.seconds), walk.seconds + math.hypot(*up)

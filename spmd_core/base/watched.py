"""Whether another process works: for those that wait for it."""

import time
from pathlib import Path

SILENT_S = 60.0  # a process that answers no ping for so long hangs
STOPPED_S = 5.0  # one that a signal has stopped for so long does not go on by itself
_LONGEST_LOOK_S = 2.0  # whoever looks more rarely rests, and so may what he looks at


class Watched:
    """Whether a process works, by the clock of who looks: no signal has stopped it, and it answers.
    While nobody looks, because the one who does rests, no time passes.
    """

    def __init__(self, pid: int):
        self._pid, self._looked_at = pid, time.monotonic()
        self._silent_s = self._stopped_s = 0.0

    def answered(self) -> None:
        """It has just sent something."""
        self._silent_s = 0.0

    def problem(self) -> str | None:
        """What is wrong with it; None where it works."""
        now = time.monotonic()
        passed, self._looked_at = min(now - self._looked_at, _LONGEST_LOOK_S), now
        self._silent_s += passed
        self._stopped_s = self._stopped_s + passed if is_stopped(self._pid) else 0.0
        if self._stopped_s > STOPPED_S:
            return f"was stopped by a signal for {STOPPED_S:.0f} s"
        return f"has not answered for {SILENT_S:.0f} s" if self._silent_s > SILENT_S else None


def waited_s(pid: int | str = "self") -> float:
    """Seconds in which a process had work, and no core was free for it, so far: those of its first
    thread. 0 where the system does not report it.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def unhindered() -> float:
    """Monotonic seconds, without those in which this process waited for a core."""
    return time.monotonic() - waited_s()


def is_stopped(pid: int) -> bool:
    """Whether a process rests where a signal has stopped it; False where the system does not
    report it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"

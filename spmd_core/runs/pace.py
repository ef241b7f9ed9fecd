"""The pace of a timed run: the share that is done, and how long is left."""

from dataclasses import dataclass, replace

from spmd_core.runs.states import RunStatus


@dataclass(frozen=True, slots=True)
class Pace:
    """What a viewer saw of a run before.

    Attributes:
      share: the largest share that was shown: a bar never goes back.
      process: the process that measured it then.
      began: seconds of the run, and the share of that process, at the first look at its rounds.
      turned_s: seconds of the run at the beginning of that process.
    """

    share: float = 0.0
    process: int = 1
    began: tuple[float, float] | None = None
    turned_s: float = 0.0


def paced(status: RunStatus, before: Pace) -> tuple[Pace, float | None]:
    """Returns the pace of a run now, and about how many seconds are left, None where unknown.

    The first round of a process comes after its compile, which is no measure of rounds. Processes
    compile and measure alike, so the mean of those before is that of those to come.
    """
    elapsed_s, count = status.elapsed_s or 0.0, max(status.experiment.processes, status.process)
    part = min(1.0, status.done / status.of) if status.of else 0.0
    now = before
    if status.process != before.process:
        now = replace(before, process=status.process, began=None, turned_s=elapsed_s)
    if now.began is None and status.done:
        now = replace(now, began=(elapsed_s, part))
    now = replace(now, share=max(now.share, (status.process - 1 + part) / count))
    to_come = count - status.process
    if status.process > 1:
        each_s = now.turned_s / (status.process - 1)
        return now, max(0.0, each_s * (to_come + 1) - (elapsed_s - now.turned_s))
    if now.began is None or part <= now.began[1]:
        return now, None
    rate_s = (elapsed_s - now.began[0]) / (part - now.began[1])
    return now, (1 - part) * rate_s + to_come * (elapsed_s + (1 - part) * rate_s)

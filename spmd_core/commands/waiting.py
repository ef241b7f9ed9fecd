"""Queues a run and waits for its end; Ctrl-C and SIGTERM cancel it."""

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from spmd_core.base import CLEAR, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.lab import Lab
from spmd_core.runs import Pace, RunStatus
from spmd_core.words import phase_words, progress

LOOK_S = 0.2  # between two looks at whether a signal came, or a run is paused


class Stops:
    """While it is entered, the first SIGINT or SIGTERM is noted, and the second one raises.

    An exception in the middle of a look at a run could keep a lock held, or come before there is
    anybody to cancel the run. A signal that is ignored stays ignored.
    """

    def __init__(self) -> None:
        self.came = False
        self._before = dict[int, object]()

    def __enter__(self) -> "Stops":
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


def interrupt(number: int, frame: object) -> NoReturn:
    """A signal handler that does as Ctrl-C does."""
    raise KeyboardInterrupt


def run_to_end(
    lab: Lab, experiment: Experiment, timeout_s: float | None = None, compile_only: bool = False
) -> tuple[RunStatus, bool]:
    """Queue a run and wait until it is over, with its progress on a terminal; its status, and
    whether a signal cancelled it.

    After `timeout_s` it is cancelled too. `compile_only`: as of `Lab.submit`.
    """
    shown = Follower()
    with Stops() as stops:
        run = lab.submit(experiment, compile_only=compile_only)
        status = wait(lab, run, timeout_s, shown, lambda: stops.came)
        if not status.is_over:
            lab.cancel(run)
            status = lab.wait(run, on_change=shown)
    show_progress()
    return status, stops.came


def wait(
    lab: Lab,
    run: str,
    timeout_s: float | None,
    shown: Callable[[RunStatus], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> RunStatus:
    """Wait until a run is over or `is_stopped`, or for `timeout_s` since it left the queue in which
    it was not paused; its status then.
    """
    left_s = timeout_s
    while True:
        begun = time.monotonic()
        status = lab.wait(run, LOOK_S if left_s is None else min(left_s, LOOK_S), on_change=shown)
        if status.is_over or is_stopped():
            return status
        if timeout_s is None or left_s is None:
            continue
        if status.state == "queued":  # also where it was put back
            left_s = timeout_s
        elif not status.paused_for:
            left_s -= time.monotonic() - begun
        if left_s <= 0:
            return status


class Follower:
    """Writes how far a run is, and what is left of it, each time that it changes."""

    def __init__(self) -> None:
        self._pace = Pace()

    def __call__(self, status: RunStatus) -> None:
        """Write how far a run is."""
        _, far, self._pace = progress(status, self._pace)
        far = f", {far}" if status.of else ""
        medians = ", ".join(
            f"{name} {seconds_text(median)}" for name, median in status.medians_s.items()
        )
        doing = f"{phase_words(status)}{far}  {medians}"
        show_progress(f"{status.elapsed_s or 0:6.1f} s  {doing}".rstrip())


def is_watched() -> bool:
    """Returns True if standard error is a terminal: nobody else sees progress."""
    return sys.stderr.isatty()


def show_progress(text: str = "") -> None:
    """Write a line over the one before, where standard error is a terminal; "" erases that."""
    if is_watched():
        print(CLEAR + text[:119], end="", file=sys.stderr, flush=True)

"""Quiet for what is timed: while a run is timed, no worker compiles beside it."""

import threading
from collections.abc import Callable

STILL_S = 10.0  # a compiler that only loads cannot be paused yet: so long a timed run waits for it


class Hush:
    """Between the lane that times (`begin`, `end`) and those that compile (`stir`, `still`)."""

    def __init__(self) -> None:
        self.timed: str | None = None  # the run that is timed now
        self._ring: Callable[[], None] = lambda: None
        self._guard = threading.Lock()
        self._stirring: set[str] = set()  # names of the lanes whose compiler works
        self._is_still = threading.Event()
        self._is_still.set()

    def tell(self, ring: Callable[[], None]) -> None:
        """`ring` wakes the lanes that compile."""
        self._ring = ring

    def begin(self, run: str) -> None:
        """`run` is timed from here on: returns once nothing compiles, or after STILL_S."""
        with self._guard:
            self.timed = run
        self._ring()
        self._is_still.wait(STILL_S)

    def end(self) -> None:
        """Nothing is timed any more."""
        with self._guard:
            was_timed, self.timed = self.timed, None
        if was_timed:
            self._ring()

    def stir(self, lane: str) -> bool:
        """Whether a lane's compiler may work, as it then does until `still`; not while a run is
        timed.
        """
        with self._guard:
            if self.timed is None:
                self._stirring.add(lane)
                self._is_still.clear()
            return self.timed is None

    def still(self, lane: str) -> None:
        """A lane's compiler does not work now: it is idle, or paused."""
        with self._guard:
            self._stirring.discard(lane)
            if not self._stirring:
                self._is_still.set()

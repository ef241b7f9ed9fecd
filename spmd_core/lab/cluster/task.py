"""One run on the cluster, as it is seen from here."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spmd_core.base import WorkerError
from spmd_core.lab.cluster.remote import Compiled, unpacked
from spmd_core.results import Failure

_FETCH_S = 10.0  # for a result that is ready: it may be lost with its worker just then


class Task:
    """A Dask task. `is_connected` says whether its connection is still the one in use."""

    def __init__(self, future: Any, is_connected: Callable[[], bool]):
        self._future, self._is_connected = future, is_connected
        self._said: list[tuple[str | None, str | None]] = []

    def heard(self, phase: str | None, strategy: str | None) -> None:
        """The worker says how far it is; from any thread."""
        self._said.append((phase, strategy))

    @property
    def said(self) -> tuple[str | None, str | None] | None:
        """(phase, strategy) as last heard; None before a worker has begun."""
        return self._said[-1] if self._said else None

    @property
    def is_lost(self) -> bool:
        """Whether it went with its scheduler."""
        return self._future.status == "cancelled" or not self._is_connected()

    def found(self) -> Compiled | None:
        """What it left, as its own failure where it failed; None while it is not over. What was
        done and went with its worker is compiled again: it is not over.
        """
        if self.is_lost or self._future.status not in ("finished", "error"):
            return None
        try:
            if self._future.status == "error":
                return _failed(self._future.exception(timeout=_FETCH_S))
            return unpacked(self._future.result(timeout=_FETCH_S))
        except WorkerError as error:
            return _crashed(str(error))
        except Exception:  # it was lost meanwhile: the next look says how it stands
            return None

    def cancel(self) -> None:
        """Nobody waits for it any more: a worker that is at it ends it."""
        if self._is_connected():
            with suppress(Exception):  # it may go just now, and its tasks with it
                self._future.cancel()


def _failed(error: BaseException | None) -> Compiled:
    if type(error).__name__ == "KilledWorker":
        most = getattr(error, "allowed_failures", 0)  # of Dask's configuration
        return _crashed(f"{most + 1} Dask workers died while they compiled it: see their logs")
    return _crashed(f"its task failed: {words(error) if error else 'nobody knows why'}")


def _crashed(sentence: str) -> Compiled:
    return Compiled(state="crashed", error=Failure(kind="WorkerCrashed", message=sentence))


def words(error: BaseException) -> str:
    """What an error of Dask's says, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

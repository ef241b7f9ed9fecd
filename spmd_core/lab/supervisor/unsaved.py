"""Results that could not be written: kept in memory for download, and tried again now and then."""

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spmd_core.base import StorageError
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import RunEnd
from spmd_core.results import Failure, Result
from spmd_core.runs import RunStatus

KIND = "NotWritten"  # of the failure that such a run shows


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over, with everything that it leaves."""

    status: RunStatus
    outcome: RunEnd
    texts: Mapping[str, Mapping[str, str]]
    stderr_tail: str | None = None


class UnsavedRuns:
    """The ended runs that only this process's memory holds. Safe to use from many threads."""

    def __init__(self, store: Store):
        self._store, self._guard = store, threading.Lock()
        self._ended: dict[str, Ended] = {}

    def write(self, ended: Ended) -> None:
        """Write a run's outcome to the data folder; StorageError where that fails."""
        outcome = ended.outcome
        self._store.finish(
            ended.status.run,
            outcome.state,
            result=outcome.result,
            texts=ended.texts,
            error=outcome.error,
            stderr_tail=ended.stderr_tail,
        )

    def keep(self, ended: Ended, problem: str) -> None:
        """Keep what could not be written, shown as failed for that reason."""
        words = (
            f"its result could not be written ({problem}). This process keeps it in memory "
            "until it ends: download it now"
        )
        status = replace(
            ended.status,
            state="failed",
            waiting_for=None,
            stderr_tail=ended.stderr_tail,
            error=Failure(kind=KIND, message=words),
        )
        with self._guard:
            self._ended[status.run] = replace(ended, status=status)
        say(f"run {status.run}: {words}")

    def try_again(self) -> bool:
        """Write what can be written now; whether nothing is left. StorageError: nothing can."""
        for run, ended in self._copy().items():
            self.write(ended)
            with self._guard:
                self._ended.pop(run, None)
        return not self._ended

    def status(self, run: str) -> RunStatus | None:
        """The status of a run that is kept here."""
        ended = self._copy().get(run)
        return ended.status if ended else None

    def result(self, run: str) -> Result | None:
        """The result of a run that is kept here."""
        ended = self._copy().get(run)
        return ended.outcome.result if ended else None

    def texts(self, run: str, strategy: str) -> dict[str, str]:
        """The program texts of a run that is kept here."""
        ended = self._copy().get(run)
        return dict(ended.texts.get(strategy, {})) if ended else {}

    def give_up(self) -> None:
        """This process ends: a last try, and a line on stderr for each result that is lost."""
        try:
            self.try_again()
        except StorageError as error:
            for run in self._copy():
                say(f"run {run}: its result is lost, because it could not be written ({error})")

    def _copy(self) -> dict[str, Ended]:
        with self._guard:
            return dict(self._ended)


def say(sentence: str) -> None:
    """Write a line to stderr, for who started this process."""
    print(f"spmd_core: {sentence}", file=sys.stderr, flush=True)

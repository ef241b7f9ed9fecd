"""What a Dask worker does with an experiment: it compiles it in a process of its own, which stays
warm for the next one. Only JSON goes either way.
"""

import atexit
import secrets
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import model_validator

from spmd_core.base import Frozen, RequestError, WorkerError, read_settings
from spmd_core.experiment import parse_experiment_text
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.compile_gate import CompileGate
from spmd_core.lab.supervisor.lanes import CompilingLane
from spmd_core.lab.supervisor.unsaved import UnsavedRuns
from spmd_core.machine import read_hardware
from spmd_core.results import Environment, Failure, Result
from spmd_core.runs import TERMINAL, RunStatus, check_runs_here

_LOOK_S = 0.2


class Compiled(Frozen):
    """What a run leaves on the machine that compiled it. `state` is its terminal one."""

    state: str
    result: Result | None = None
    texts: dict[str, dict[str, str]] = {}  # by strategy and name
    environment: Environment | None = None
    error: Failure | None = None
    stderr_tail: str | None = None

    @model_validator(mode="after")
    def _is_an_ending(self) -> Self:
        if self.state not in TERMINAL or (self.state == "succeeded" and self.result is None):
            raise ValueError(f"state {self.state!r} is not how such a run ends")
        return self


def packed(
    spec: str,
    timeout_s: float,
    directory: str,
    is_wanted: Callable[[], bool],
    report: Callable[[str | None, str | None], None],
) -> bytes:
    """`Compiled` as deflated JSON, made in `directory`; see `_Compiler.compiled`."""
    with _guard:
        compiler = _opened(timeout_s, directory)
    return zlib.compress(compiler.compiled(spec, is_wanted, report).model_dump_json().encode(), 1)


class _Compiler:
    """A compiling lane without the rest of a Lab, on a folder that goes with this process: where
    it is killed, Dask clears its directory up.
    """

    def __init__(self, timeout_s: float, directory: str):
        folder = Path(tempfile.mkdtemp(prefix="spmd-lab-", dir=directory))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._store, self._changed = Store(folder), threading.Condition()
        self._unsaved = UnsavedRuns(self._store)
        settings = replace(read_settings(), predict_timeout_s=timeout_s, dask="")
        self._lane = CompilingLane(
            self._store, settings, self._unsaved, self._changed, CompileGate()
        )
        self._lane.start()
        self._lane.open()
        atexit.register(self._close)

    def compiled(
        self,
        spec: str,
        is_wanted: Callable[[], bool],
        report: Callable[[str | None, str | None], None],
    ) -> Compiled:
        """The run of an experiment from its JSON form, ended where it is wanted no longer; `report`
        gets each phase and its strategy, from the first on.
        """
        try:
            experiment = parse_experiment_text(spec)
            check_runs_here(experiment, read_hardware(), self._store.environment)
        except RequestError as error:
            return Compiled(state="failed", error=Failure(kind="RequestError", message=str(error)))
        run = f"dask-{secrets.token_hex(8)}"
        self._store.submit(run, experiment)
        self._lane.wake()
        status = self._followed(run, is_wanted, report)
        try:
            return Compiled(
                state=status.state,
                result=self._store.result(run),
                texts=self._store.every_text(run),
                error=status.error,
                environment=self._store.environment(experiment.target),
                stderr_tail=status.stderr_tail,
            )
        finally:
            self._store.delete([run])

    def _followed(
        self,
        run: str,
        is_wanted: Callable[[], bool],
        report: Callable[[str | None, str | None], None],
    ) -> RunStatus:
        shown, is_asked = None, False
        while not (status := self._status(run)).is_over:
            if not self._lane.is_alive:
                raise WorkerError("the thread that compiles has ended: start this worker again")
            doing = (status.state == "queued", status.phase, status.strategy)
            if doing != shown and status.state != "queued":
                report(status.phase, status.strategy)
            shown = doing
            if not is_asked and not is_wanted():
                is_asked = True
                if not self._store.cancel_queued(run):
                    self._store.ask("cancel", run=run)
                    self._lane.wake()
            with self._changed:
                self._changed.wait(_LOOK_S)
        return status

    def _status(self, run: str) -> RunStatus:
        if live := self._lane.live.get(run):
            return live
        status = self._unsaved.status(run) or self._store.status(run)
        assert status is not None, "it is deleted after its end"
        return status

    def _close(self) -> None:
        self._lane.stop()
        self._lane.close()


_guard = threading.Lock()


@cache
def _opened(timeout_s: float, directory: str) -> _Compiler:
    return _Compiler(timeout_s, directory)

"""Predictions asked for by a dashboard: one compile at a time, in a thread that lives as long as the process; results kept as files."""

import contextlib
import json
import queue
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from spmd_core.errors import LabError
from spmd_core.hardware import read_hardware
from spmd_core.plan import Plan
from spmd_core.predicting import of_plan
from spmd_core.prediction import Prediction
from spmd_core.worker.compiling import compile_in_child


@dataclass(slots=True)
class Job:
    """A prediction on its way: what was asked, since when, and what came of it."""

    plan: Plan
    asked_at: float
    started_at: float | None = None
    prediction: Prediction | None = None
    error: str | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.prediction is not None or self.error is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the compile began, or since it was asked for."""
        return time.monotonic() - (self.started_at or self.asked_at)


class Predictions:
    """The queue of one data folder."""

    def __init__(self, folder: Path):
        self._folder = folder / "predictions"
        self._jobs: dict[str, Job] = {}
        self._queue: queue.Queue[str] = queue.Queue()
        self._lock = threading.Lock()
        threading.Thread(target=self._work, name="predictions", daemon=True).start()

    def ask(self, plan: Plan) -> str:
        """Queue a plan, unless it is known or on its way; the id to ask after it."""
        with self._lock:
            job = self._jobs.get(plan.id)
            if job is None or job.error is not None:
                self._jobs[plan.id] = Job(plan, time.monotonic(), prediction=self._stored(plan))
                if self._jobs[plan.id].prediction is None:
                    self._queue.put(plan.id)
        return plan.id

    def find(self, plan: Plan) -> Job | None:
        """The job of a plan; where there is none, its stored prediction as a finished job, or None."""
        with self._lock:
            if plan.id not in self._jobs and (stored := self._stored(plan)) is not None:
                self._jobs[plan.id] = Job(plan, time.monotonic(), prediction=stored)
            return self._jobs.get(plan.id)

    def cancel(self, plan: Plan) -> None:
        """End the compile of a plan, or take it out of the queue."""
        job = self._jobs.get(plan.id)
        if job is not None:
            job.cancelled.set()

    def finished(self) -> tuple[Job, ...]:
        """What this process has predicted, the latest last."""
        with self._lock:
            return tuple(job for job in self._jobs.values() if job.prediction is not None)

    def _work(self) -> None:
        while True:
            job = self._jobs[self._queue.get()]
            job.started_at = time.monotonic()
            try:
                request = {"plan": job.plan.to_json()}
                answer = compile_in_child(request, job.plan.target, job.plan.flags, read_hardware(), lambda _, job=job: not job.cancelled.is_set())
                prediction = of_plan(job.plan, answer)
                self.store(job.plan, prediction)
                job.prediction = prediction
            except (LabError, ValueError, OSError) as error:
                job.error = str(error)

    def _path(self, plan: Plan) -> Path:
        return self._folder / f"{plan.id}.json"

    def store(self, plan: Plan, prediction: Prediction) -> None:
        """Keep a prediction as a file."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(plan)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"plan": plan.to_json(), "prediction": prediction.model_dump(mode="json")}), "utf-8")
        part.replace(path)

    def _stored(self, plan: Plan) -> Prediction | None:
        with contextlib.suppress(OSError, ValueError, KeyError, ValidationError):
            return Prediction.model_validate(json.loads(self._path(plan).read_text("utf-8"))["prediction"])
        return None


_OPEN: dict[Path, Predictions] = {}
_OPENING = threading.Lock()


def predictions(folder: Path) -> Predictions:
    """The queue of a data folder, one per process."""
    with _OPENING:
        if folder not in _OPEN:
            _OPEN[folder] = Predictions(folder)
        return _OPEN[folder]

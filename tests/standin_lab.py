"""A Lab that queues in a list and runs nothing, for tests of sweeps."""

from dataclasses import replace
from pathlib import Path

from spmd_core.base import RequestError
from spmd_core.facts import Collective, Estimate, PredictedMemory, Prediction
from spmd_core.results import Environment, Result, StrategyResult
from spmd_core.runs import RunStatus

GIB = 2**30


class StandInLab:
    """A Lab that queues in a list and runs nothing."""

    def __init__(self, folder: Path):
        self.folder, self.queue, self.results, self.over, self.cancelled = folder, [], {}, {}, []
        self.reads = 0
        self.refuses = lambda experiment: None

    def submit(self, experiment, asker=None, compile_only=False):
        del asker, compile_only
        if sentence := self.refuses(experiment):
            raise RequestError(sentence)
        run = f"run{len(self.queue) + len(self.over)}"
        self.queue.append(RunStatus(run, "queued", experiment, 0.0, queue_position=len(self.queue)))
        return run

    def cancel(self, *runs, asker=None):
        for run in runs:
            self.cancelled.append(run)
            self.end(run, "cancelled")

    def end(self, run, state, error=None, found=None):
        status = next(status for status in self.queue if status.run == run)
        self.queue.remove(status)
        self.over[run] = replace(status, state=state, error=error)
        if found:
            environment = Environment(
                jax="", jaxlib="", python="", platform="tpu", device_kind="", device_count=1
            )
            self.results[run] = Result(
                run=run,
                experiment=status.experiment,
                environment=environment,
                strategies={"auto": found},
            )

    def status(self, run):
        if run in self.over:
            return self.over[run]
        return next(status for status in self.queue if status.run == run)

    def active(self):
        return tuple(self.queue)

    def facts(self, run):
        self.reads += 1
        return self.results.get(run)

    def latest(self, experiment):
        return next(
            (
                run
                for run, result in reversed(self.results.items())
                if result.experiment == experiment
            ),
            None,
        )


def found(step_s: float = 1.0, chips: int = 8, flops: float = 1e15) -> StrategyResult:
    """A predicted step that does `flops` in all on chips of 200 TFLOP/s, and waits a tenth of it
    for all-gathers.
    """
    gather = Collective(
        kind="all-gather",
        axes=("fsdp",),
        bytes=1,
        count=1,
        seconds=step_s,
        exposed_s=0.1 * step_s,
        route="",
        name="a",
    )
    return StrategyResult(
        status="ok",
        prediction=Prediction(
            fits=True,
            memory_bytes=PredictedMemory(peak=8 * GIB, capacity=16 * GIB),
            binds="compute",
            collectives=(gather,),
            predicted_s=Estimate(low=0.9 * step_s, estimate=step_s, high=1.2 * step_s),
            mfu=flops / chips / step_s / 2e14,
            tflops_per_chip=flops / chips / step_s / 1e12,
            tokens_per_s_per_chip=4096 / step_s,
        ),
    )

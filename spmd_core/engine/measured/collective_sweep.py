"""A sweep of collectives: each point compiled, checked and timed, and reported at once."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from spmd_core.engine.lower import execute
from spmd_core.engine.measured import timing
from spmd_core.engine.measured.trial import failure_of
from spmd_core.experiment import Experiment
from spmd_core.program import file_name
from spmd_core.results import (
    Event,
    Phase,
    Point,
    Points,
    StoredFact,
    StrategyResult,
    Texts,
    summarize,
)
from spmd_core.script import program_text
from spmd_core.time import Case, cases, fits

STRATEGY = "as_written"
MOST_SAMPLES, LEAST_SAMPLES = 40, 5
POINT_S = 0.1  # of measuring each point, once it is warm
WARM_CALLS = 3
Emit = Callable[[Event], None]
Cancelled = Callable[[], bool]


def run_collectives(experiment: Experiment, emit: Emit, cancelled: Cancelled) -> StrategyResult:
    """Every point of the sweep, sizes ascending within a case; those that were measured before it
    was cancelled are kept.
    """
    text = program_text(experiment, STRATEGY)
    emit(Texts(strategy=STRATEGY, texts={"program": text}))
    emit(Phase(phase="sample", strategy=STRATEGY))
    names = execute(text, file_name(experiment.workload, STRATEGY))
    every = cases(experiment)
    points: list[Point] = []
    total = sum(len(case.sizes) for case in every)
    for case in every:
        for nbytes in case.sizes:
            if cancelled():
                return _result(points, total)
            points.append(measure(case, nbytes, names))
            emit(Points(points=(points[-1],), done=len(points), of=total))
    return _result(points, total)


def _result(points: list[Point], total: int) -> StrategyResult:
    stopped = len(points) < total
    counts: dict[str, int | float | str] = {"count": len(points), "of": total}
    facts = (StoredFact(kind="points measured", values=counts),) if stopped else ()
    return StrategyResult(
        status="ok" if points else "cancelled", points=tuple(points), fits=fits(points), facts=facts
    )


def measure(case: Case, nbytes: int, names: Mapping[str, Any], lasting_s: float = POINT_S) -> Point:
    """One point, measured for `lasting_s` seconds once it is warm. Whatever the collective raises is the point's error; the others go on."""
    try:
        mesh = names["mesh"]
        call = names["transfer"](case.kind, mesh, case.axes)
        count = names["element_count"](case.kind, mesh, case.axes, nbytes, case.dtype)
        argument = names["operand"](case.kind, mesh, count, case.dtype)
        compiled = call.lower(argument).compile()
        right = names["is_right"](case.kind, mesh, case.axes, compiled(argument), count, case.dtype)
        summary = summarize(_samples(compiled, argument, lasting_s))
    except Exception as error:  # the compiler's, or memory's
        return case.point(nbytes, error=failure_of(error).message)
    return case.point(nbytes, summary.median_s, summary.ci95_s, correct=right)


def _samples(call: Callable[..., Any], argument: jax.Array, lasting_s: float) -> list[float]:
    """Seconds per call of each sample; one lasts a turn at least, and all of them `lasting_s`."""
    with timing.quiet():
        fastest = min(timing.time_calls(call, (argument,), 1) for _ in range(WARM_CALLS))
        calls = max(1, int(np.ceil(timing.TURN_S / fastest)))
        count = int(np.clip(lasting_s / (calls * fastest), LEAST_SAMPLES, MOST_SAMPLES))
        return [timing.time_calls(call, (argument,), calls) for _ in range(count)]

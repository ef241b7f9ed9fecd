"""A sweep of collectives: each point compiled, checked and timed, and reported at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from spmd_core.engine import timing
from spmd_core.engine.ceilings.operations import Repeated, slope
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import execute
from spmd_core.engine.members import agreed, alike, gathered
from spmd_core.engine.trial import failure_of
from spmd_core.experiment import Experiment
from spmd_core.facts import StoredFact
from spmd_core.program import file_name
from spmd_core.results import Operation, Point, StrategyResult, summarize
from spmd_core.roofline import Case, cases, fits, operations_of_turn
from spmd_core.runs import Event, Phase, Points, Texts
from spmd_core.script import program_text
from spmd_core.workloads import TRANSFERS

STRATEGY = "as_written"
MOST_SAMPLES, LEAST_SAMPLES = 40, 5
POINT_S = 0.1  # of measuring each point, once it is warm
WARM_CALLS = 3
IN_A_TURN = 2
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
    facts = tuple(_pairs(names, every))
    for case in every:
        for nbytes in case.sizes:
            if cancelled():
                return _result(points, total, facts)
            points.append(measure(case, nbytes, names))
            emit(Points(points=(points[-1],), done=len(points), of=total))
    return _result(points, total, facts)


def _pairs(names: Mapping[str, Any], every: Sequence[Case]) -> Iterator[StoredFact]:
    """How many pairs of devices of two meshes pass data, and how much of what one has."""
    for axes in dict.fromkeys(each.axes for each in every if TRANSFERS[each.kind].between_meshes):
        mesh = names["mesh"]
        shape = (mesh.devices.size // 2, mesh.devices.size)
        passed = names["passed"](mesh, axes, shape)
        (low, high), (first, last) = next(iter(passed.values()))
        share = (high - low) * (last - first) / shape[1]
        values = {"axes": "+".join(axes), "count": len(passed), "share": share}
        yield StoredFact(kind="pairs passed", values=values)


def _result(points: list[Point], total: int, facts: tuple[StoredFact, ...]) -> StrategyResult:
    stopped = len(points) < total
    counts: dict[str, int | float | str] = {"count": len(points), "of": total}
    facts += (StoredFact(kind="points measured", values=counts),) * stopped
    return StrategyResult(
        status="ok" if points else "cancelled", points=tuple(points), fits=fits(points), facts=facts
    )


def measure(case: Case, nbytes: int, names: Mapping[str, Any], lasting_s: float = POINT_S) -> Point:
    """One point. Whatever the collective raises is the point's error; the others go on."""
    return measured(case, nbytes, names, lasting_s)[0]


def measured(
    case: Case, nbytes: int, names: Mapping[str, Any], lasting_s: float
) -> tuple[Point, tuple[Operation, ...]]:
    """A point, measured for `lasting_s` seconds once it is warm, and what each device does in a
    turn beside IN_A_TURN collectives.
    """
    try:
        with alike():
            mesh, beside, of = names["mesh"], tuple[Operation, ...](), TRANSFERS[case.kind]
            call = names["transfer"](case.kind, mesh, case.axes)
            count = names["element_count"](case.kind, mesh, case.axes, nbytes, case.dtype)
            argument = names["operand"](case.kind, mesh, count, case.dtype)
            compiled = call if of.between_meshes else call.lower(argument).compile()
            right = names["is_right"](
                case.kind, mesh, case.axes, compiled(argument), count, case.dtype
            )
            if of.between_devices:
                program = _repeated(case, count, names)
                samples = [each / IN_A_TURN for each in slope(program, lasting_s)]
                beside = operations_of_turn(read_module(program.compiled))
            else:
                samples = _samples(compiled, argument, lasting_s)
        summary = summarize(samples)
    except Exception as error:  # the compiler's, or memory's
        return case.point(nbytes, error=failure_of(error).message), ()
    return case.point(
        nbytes, summary.median_s, summary.ci95_s, correct=all(gathered(right))
    ), beside


def _repeated(case: Case, count: int, names: Mapping[str, Any]) -> Repeated:
    """The collective of a case, IN_A_TURN times in a turn: two need no copy in between."""
    mesh = names["mesh"]
    elements = names["whole_count"](case.kind, mesh, case.axes, count)
    once = names["chained"](case.kind, mesh, case.axes)
    return Repeated(names, mesh, once, [names["operand"](case.kind, mesh, elements, case.dtype)])


def _samples(call: Callable[..., Any], argument: jax.Array, lasting_s: float) -> list[float]:
    """Seconds per call of each sample; one takes a turn at least, and all of them `lasting_s`. No
    program copies from or to its host repeatedly.
    """
    with timing.quiet():
        fastest = agreed(min(timing.time_calls(call, (argument,), 1) for _ in range(WARM_CALLS)))
        calls = max(1, int(np.ceil(timing.TURN_S / fastest)))
        count = int(np.clip(lasting_s / (calls * fastest), LEAST_SAMPLES, MOST_SAMPLES))
        return [timing.time_calls(call, (argument,), calls) for _ in range(count)]

"""The ceilings of a machine, measured: copies, matmuls, dispatch, collectives, host transfers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from spmd_core.engine import devices, timing
from spmd_core.engine.ceilings.collective_sweep import (
    IN_A_TURN,
    STRATEGY,
    measured,
    run_collectives,
)
from spmd_core.engine.ceilings.operations import (
    OperationCosts,
    Repeated,
    operation_name,
    slope,
    took,
)
from spmd_core.engine.lower import execute
from spmd_core.engine.members import alike
from spmd_core.engine.trial import failure_of
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import StoredFact
from spmd_core.machine import BY_DEVICE_KIND, CHIPS
from spmd_core.program import file_name
from spmd_core.results import (
    Ceiling,
    Environment,
    MoveCost,
    Operation,
    Point,
    Result,
    StrategyResult,
)
from spmd_core.roofline import ALONE, busy_facts, cases, ceiling, data_sheet, fits
from spmd_core.runs import Event, Finished, Phase, Progress, Texts
from spmd_core.script import program_text
from spmd_core.workloads import COLLECTIVES, FLOATS, TRANSFERS

# Of a device's array, beyond what caches hold; a chip's memory or link is given what it needs
# SHEET_S for at the rate of its data sheet, so that what is on the chip holds none of it
COPY_BYTES = 32 * 2**20
SHEET_S = 1e-3
FIRST_SIDE, MOST_SIDE = 256, 8192  # of a square matmul, doubled until it takes LONG_S
LONG_S = 5e-3
ITEM_S = 0.2
POINTS = 4  # of each collective, from SMALLEST to LARGEST bytes
SMALLEST, LARGEST = 1024, 4 * 2**20
POINT_S = 0.03  # of each point
Emit = Callable[[Event], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Item:
    """One ceiling to measure: `work` is bytes, FLOPs or calls of one execution, per device."""

    name: str
    title: str
    unit: str
    measure: Callable[[], tuple[float, Sequence[float]]]  # (work, seconds of each repeat)
    data_sheet: float | None = None

    def ceiling(self) -> Ceiling:
        """It, measured."""
        work, seconds = self.measure()
        return ceiling(self.name, self.title, self.unit, work, seconds, self.data_sheet)


def run_calibration(experiment: Experiment, emit: Emit, cancelled: Cancelled) -> StrategyResult:
    """Every ceiling, then the collectives over each group of axes; what was measured before it was
    cancelled is kept.
    """
    text = program_text(experiment, STRATEGY)
    emit(Texts(strategy=STRATEGY, texts={"program": text}))
    emit(Phase(phase="sample", strategy=STRATEGY))
    names = execute(text, file_name(experiment.workload, STRATEGY))
    chip = CHIPS.get(BY_DEVICE_KIND.get(names["mesh"].devices.flat[0].device_kind, ""))
    sheet = data_sheet(chip) if chip else {}
    items, sweep = list(_items(names, sheet)), _sweep(experiment, sheet)
    every = [(case, nbytes) for case in (cases(sweep) if sweep else ()) for nbytes in case.sizes]
    points, missed, total = list[Point](), list[StoredFact](), len(items) + len(every)
    ceilings = _ceilings(items, cancelled, missed, lambda done: emit(Progress(done=done, of=total)))
    costs, moves = _costs(names, sheet, cancelled, missed), list[MoveCost]()
    of_collectives = execute(program_text(sweep, STRATEGY), "collectives.py") if sweep else {}
    for case, nbytes in every:
        if cancelled():
            break
        point, beside = measured(case, nbytes, of_collectives, POINT_S)
        points.append(point)
        moves += _move(point, costs.without, beside)
        emit(Progress(done=len(ceilings) + len(points), of=total))
    done, facts = len(ceilings) + len(points), (*missed, *busy_facts(ceilings))
    if done + len(missed) < total and cancelled():
        facts += (StoredFact(kind="measurements", values={"count": done, "of": total}),)
    return StrategyResult(
        status="ok" if ceilings else "cancelled",
        ceilings=tuple(ceilings),
        costs=costs.known.costs,
        move_costs=tuple(moves),
        points=tuple(points),
        fits=fits(points),
        facts=facts,
    )


def _ceilings(
    items: Sequence[Item],
    cancelled: Cancelled,
    missed: list[StoredFact],
    tell: Callable[[int], None],
) -> list[Ceiling]:
    results = list[Ceiling]()
    for item in items:
        if cancelled():
            break
        try:
            with alike():
                results.append(item.ceiling())
        except Exception as error:  # the compiler's, or memory's: the others go on
            missed.append(_missed(item.title, error))
        tell(len(results))
    return results


def _costs(
    names: Mapping[str, Any],
    sheet: Mapping[str, float],
    cancelled: Cancelled,
    missed: list[StoredFact],
) -> OperationCosts:
    costs = OperationCosts(names, _side(sheet))
    for measure in costs.measurements():
        if cancelled():
            break
        try:
            with alike():
                measure()
        except Exception as error:  # as above
            missed.append(_missed(operation_name(measure), error))
    return costs


def _missed(what: str, error: Exception) -> StoredFact:
    return StoredFact(kind="not measured", values={"what": what, "why": failure_of(error).message})


def _move(
    point: Point,
    without: Callable[[float, Sequence[Operation]], float],
    beside: Sequence[Operation],
) -> list[MoveCost]:
    """What a collective takes within a program, without what is done beside it."""
    if not point.in_program or not point.time_s:
        return []
    seconds = without(IN_A_TURN * point.time_s, beside) / IN_A_TURN
    fields = {name: getattr(point, name) for name in ("kind", "axes", "devices", "bytes")}
    return [MoveCost(**fields, seconds=seconds)]


def _bytes(least: int, rate: float | None) -> int:
    """A power of two of bytes that take SHEET_S at a rate, but not less than `least`."""
    return max(least, 1 << int(SHEET_S * rate).bit_length()) if rate else least


def _side(sheet: Mapping[str, float]) -> int:
    """The side of a square matmul, a power of two, that takes SHEET_S by the data sheet; else 0."""
    flops = SHEET_S * sheet.get("flops of a device", 0.0)
    return min(MOST_SIDE, 1 << int((flops / 2) ** (1 / 3)).bit_length()) if flops else 0


def _sweep(experiment: Experiment, sheet: Mapping[str, float]) -> Experiment | None:
    if experiment.device_count < 2:
        return None
    kinds = [name for name in TRANSFERS if name in COLLECTIVES] + [
        "host-to-device",
        "device-to-host",
    ]
    options = {
        "kinds": ",".join(kinds),
        "points": POINTS,
        "smallest": SMALLEST,
        "largest": _bytes(LARGEST, sheet.get("link")),
        "device_order": experiment.option("device_order"),
    }
    return parse_experiment(
        {
            "workload": "collectives",
            "target": experiment.target,
            "mesh": experiment.axis_sizes,
            "options": options,
        }
    )


def _items(names: Mapping[str, Any], sheet: Mapping[str, float]) -> Iterator[Item]:
    """All devices at once, then one alone, then what a call costs at least."""
    mesh = names["mesh"]
    yield from _rates(names, mesh, "", "", sheet)
    if jax.process_count() == 1:  # where there are other processes, they have no part in it
        one = jax.sharding.Mesh(mesh.devices.reshape(-1)[:1], ("one",))
        yield from _rates(names, one, ", one device alone", ALONE, sheet)
    yield Item("dispatch_single", "Dispatch floor, one device", "s", lambda: _floor(None, mesh))
    yield Item("dispatch_mesh", "Dispatch floor, all devices", "s", lambda: _floor(mesh, mesh))


def _rates(
    names: Mapping[str, Any], mesh: Any, title: str, suffix: str, sheet: Mapping[str, float]
) -> Iterator[Item]:
    memory = sheet.get("hbm of a device")
    nbytes = _bytes(COPY_BYTES, memory / 2 if memory else None)  # read, and written
    yield Item(
        f"copy{suffix}",
        f"Copy bandwidth, to another array{title}",
        "B/s",
        partial(_copy, names, mesh, nbytes),
        memory,
    )
    yield Item(
        f"copy_in_place{suffix}",
        f"Copy bandwidth, result in place{title}",
        "B/s",
        partial(_copy_in_place, names, mesh, nbytes),
        memory,
    )
    for dtype in FLOATS:
        peak = sheet.get("flops of a device") if dtype == "bfloat16" else None
        yield Item(
            f"matmul_{dtype}{suffix}",
            f"Matmul rate, {dtype}{title}",
            "FLOP/s",
            partial(_matmul, names, mesh, dtype, max(FIRST_SIDE, _side(sheet))),
            peak,
        )


def _copy(names: Mapping[str, Any], mesh: Any, nbytes: int) -> tuple[float, Sequence[float]]:
    """Bytes that a device reads and writes from one array to another and back, and seconds."""
    pair = tuple(names["filled"](mesh, (nbytes // 4,), "float32") for _ in range(2))
    return 4 * nbytes, slope(Repeated(names, mesh, names["copied"], [pair]), ITEM_S)


def _copy_in_place(
    names: Mapping[str, Any], mesh: Any, nbytes: int
) -> tuple[float, Sequence[float]]:
    """Bytes read and written by a device, and seconds."""
    array = names["filled"](mesh, (nbytes // 4,), "float32")
    return 2 * nbytes, slope(Repeated(names, mesh, names["added"], [array]), ITEM_S)


def _matmul(
    names: Mapping[str, Any], mesh: Any, dtype: str, side: int
) -> tuple[float, Sequence[float]]:
    """FLOPs of a device's two matmuls, the smallest that last long enough, and seconds."""
    while True:
        factors = [names["filled"](mesh, (side, side), dtype) for _ in range(3)]
        program = Repeated(names, mesh, names["products"], factors)
        if side >= MOST_SIDE or min(took(program, 1) for _ in "ab") >= LONG_S:
            return 4.0 * side**3, slope(program, ITEM_S)
        side *= 2


def _floor(on: Any, mesh: Any) -> tuple[float, Sequence[float]]:
    return 1.0, [timing.dispatch_floor_s(on, mesh.devices.flat[0]) for _ in range(5)]


_RUNS = {"collectives": run_collectives, "calibrate": run_calibration}


def run(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    emit: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> Finished:
    """Measure what the workload names; `partial` where `cancelled` came first."""
    outcome = _RUNS[experiment.workload](experiment, emit, cancelled)
    measured = environment.model_copy(update={"load": devices.load()})
    return Finished(
        result=Result(
            run=run_id,
            experiment=experiment,
            environment=measured,
            partial=cancelled(),
            strategies={STRATEGY: outcome},
        )
    )

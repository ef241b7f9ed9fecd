"""The ceilings of a machine, measured: copies, matmuls, dispatch, collectives, host transfers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from spmd_core.engine.lower import execute
from spmd_core.engine.measured import timing
from spmd_core.engine.measured.collective_sweep import STRATEGY, measure
from spmd_core.engine.measured.operations import OperationCosts
from spmd_core.engine.measured.trial import failure_of
from spmd_core.experiment import COLLECTIVES, FLOATS, TRANSFERS, Experiment, parse_experiment
from spmd_core.machine import BY_DEVICE_KIND, CHIPS, Chip
from spmd_core.program import file_name
from spmd_core.results import Ceiling, Event, Phase, Point, Progress, StrategyResult, Texts
from spmd_core.script import program_text
from spmd_core.time import ALONE, cases, ceiling, data_sheet, fits, noted

COPY_BYTES = 32 * 2**20  # of a device's array: beyond what caches hold
FIRST_SIDE, MOST_SIDE = 256, 8192  # of a square matmul, doubled until it takes LONG_S
LONG_S = 5e-3
ITEM_S, LEAST_REPEATS, MOST_REPEATS = 0.2, 7, 60
POINTS = 3  # of each collective, from SMALLEST to LARGEST bytes
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
    items, sweep = list(_items(names)), _sweep(experiment)
    every = [(case, nbytes) for case in (cases(sweep) if sweep else ()) for nbytes in case.sizes]
    ceilings, points, notes = list[Ceiling](), list[Point](), list[str]()
    total = len(items) + len(every)
    for item in items:
        if cancelled():
            break
        try:
            ceilings.append(item.ceiling())
        except Exception as error:  # the compiler's, or memory's: the others go on
            notes.append(f"{item.title} could not be measured: {failure_of(error).message}")
        emit(Progress(done=len(ceilings), of=total))
    costs = _costs(names, cancelled, notes)
    of_collectives = execute(program_text(sweep, STRATEGY), "collectives.py") if sweep else {}
    for case, nbytes in every:
        if cancelled():
            break
        points.append(measure(case, nbytes, of_collectives, POINT_S))
        emit(Progress(done=len(ceilings) + len(points), of=total))
    notes += noted(ceilings)
    done = len(ceilings) + len(points)
    if done + len(notes) < total and cancelled():
        notes.append(f"stopped after {done} of {total} measurements")
    return StrategyResult(
        status="ok" if ceilings else "cancelled",
        ceilings=tuple(ceilings),
        costs=costs.costs,
        move_costs=costs.move_costs,
        points=tuple(points),
        fits=fits(points),
        notes=tuple(notes),
    )


def _costs(names: Mapping[str, Any], cancelled: Cancelled, notes: list[str]) -> StrategyResult:
    """What single operations cost, until it is cancelled."""
    costs = OperationCosts(names)
    for measured in costs.measurements():
        if cancelled():
            break
        try:
            measured()
        except Exception as error:  # as above
            notes.append(f"an operation could not be measured: {failure_of(error).message}")
    return costs.known


def _sweep(experiment: Experiment) -> Experiment | None:
    """The sweep of collectives that belongs to a calibration; None on a single device."""
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
        "largest": LARGEST,
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


def _items(names: Mapping[str, Any]) -> Iterator[Item]:
    """All devices at once, then one alone, then what a call costs at least."""
    mesh = names["mesh"]
    chip = _chip(mesh.devices.flat[0].device_kind)
    one = jax.sharding.Mesh(mesh.devices.reshape(-1)[:1], ("one",))
    for where, title, suffix in ((mesh, "", ""), (one, ", one device alone", ALONE)):
        yield from _rates(names, where, title, suffix, chip)
    yield Item("dispatch_single", "Dispatch floor, one device", "s", lambda: _floor(None, mesh))
    yield Item("dispatch_mesh", "Dispatch floor, all devices", "s", lambda: _floor(mesh, mesh))


def _rates(
    names: Mapping[str, Any], mesh: Any, title: str, suffix: str, chip: Chip | None
) -> Iterator[Item]:
    """Copies and matmuls on the devices of a mesh at once, per device."""
    sheet = data_sheet(chip) if chip else {}
    memory = sheet.get("hbm of a device")
    yield Item(
        f"copy{suffix}",
        f"Copy bandwidth, fresh result{title}",
        "B/s",
        partial(_copy, names, mesh, "copied"),
        memory,
    )
    yield Item(
        f"copy_in_place{suffix}",
        f"Copy bandwidth, result in place{title}",
        "B/s",
        partial(_copy, names, mesh, "copied_in_place"),
        memory,
    )
    for dtype in FLOATS:
        peak = sheet.get("flops of a device") if dtype == "bfloat16" else None
        yield Item(
            f"matmul_{dtype}{suffix}",
            f"Matmul rate, {dtype}{title}",
            "FLOP/s",
            partial(_matmul, names, mesh, dtype),
            peak,
        )


def _chip(device_kind: str) -> Chip | None:
    return CHIPS.get(BY_DEVICE_KIND.get(device_kind, ""))


def _copy(names: Mapping[str, Any], mesh: Any, function: str) -> tuple[float, Sequence[float]]:
    """Bytes read and written by a device, and the seconds of each repeat."""
    array = names["filled"](mesh, (COPY_BYTES // 4,), "float32")
    call = names[function](mesh).lower(array).compile()
    held = [array]

    def once() -> jax.Array:
        held[0] = call(held[0])
        return held[0]

    return 2 * COPY_BYTES, _repeats(once)


def _matmul(names: Mapping[str, Any], mesh: Any, dtype: str) -> tuple[float, Sequence[float]]:
    """FLOPs of a device's matmul, the smallest that lasts long enough, and the seconds of each."""
    side = FIRST_SIDE
    while True:
        factor = names["filled"](mesh, (side, side), dtype)
        call = names["multiplied"](mesh).lower(factor, factor).compile()
        timing.time_calls(call, (factor, factor), 1)
        if side >= MOST_SIDE or timing.time_calls(call, (factor, factor), 1) >= LONG_S:
            return 2.0 * side**3, _repeats(partial(call, factor, factor))
        side *= 2


def _floor(on: Any, mesh: Any) -> tuple[float, Sequence[float]]:
    """One call, and its seconds, measured a few times."""
    return 1.0, [timing.dispatch_floor_s(on, mesh.devices.flat[0]) for _ in range(5)]


def _repeats(call: Callable[[], Any]) -> list[float]:
    """Seconds of each call, after two that warm it up, for about ITEM_S."""
    with timing.quiet():
        fastest = min(timing.time_calls(call, (), 1) for _ in range(2))
        count = int(np.clip(ITEM_S / fastest, LEAST_REPEATS, MOST_REPEATS))
        return [timing.time_calls(call, (), 1) for _ in range(count)]

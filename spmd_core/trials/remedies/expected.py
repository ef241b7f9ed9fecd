"""What a compiled program is expected to take, before and after a change: by the cost model where
there is a schedule to price, else by a machine's calibration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spmd_core.experiment import TRANSFERS, Experiment
from spmd_core.results import Ceiling, Collective, Environment, Fit, Result, StrategyResult
from spmd_core.search import CPU_COLLECTIVE_S, HostRates
from spmd_core.time import ALONE, Machine, beyond_floor_s, measured, with_roofs

FLOOR_S = 1e-4  # of a call of all devices, where it was not measured


@dataclass(frozen=True, slots=True)
class Rates:
    """A machine by its calibration; `calibrated` False: by guesses."""

    machine: Machine
    calibrated: bool


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a program, and of each of its collectives what the devices wait for it."""

    total_s: float
    each_s: tuple[float, ...]
    by: Literal["cost model", "calibration", "guess"] = "cost model"


def rates_of(
    experiment: Experiment, environment: Environment, known: Result | None
) -> Rates | None:
    """The rates of an experiment's machine: of its calibration, else guesses for simulated devices;
    None for an accelerator that was not calibrated.
    """
    if known is not None:
        return Rates(Machine(measured(known)), True)
    return Rates(_guessed(experiment, environment), False) if environment.simulated else None


def _guessed(experiment: Experiment, environment: Environment) -> Machine:
    """What simulated devices that share this machine's cores may do, as a search takes it too."""
    devices = experiment.device_count
    host = HostRates(devices, environment.cores or 1)
    floor = environment.dispatch_floor_s or FLOOR_S
    flops, rate = 1 / host.matmul_s(1.0, None), 1 / host.memory_s(1.0)
    values = {"copy": rate, "copy_in_place": rate, "matmul_float32": flops, "dispatch_mesh": floor}
    values |= {
        f"copy{ALONE}": rate * devices,
        f"copy_in_place{ALONE}": rate * devices,
        f"matmul_float32{ALONE}": flops * devices,
        "dispatch_single": floor,
    }
    ceilings = tuple(
        Ceiling(name=name, title=name, value=value, unit="", interval=(value, value))
        for name, value in values.items()
    )
    start = floor + CPU_COLLECTIVE_S
    lines = tuple(
        Fit(
            kind=kind,
            axes=(),
            devices=devices,
            latency_s=start,
            bandwidth=rate,
            latency_ci95_s=(start, start),
            bandwidth_ci95=(rate, rate),
            knee_bytes=start * rate,
            worst_error=1.0,
        )
        for kind, transfer in TRANSFERS.items()
        if transfer.between_devices
    )
    return Machine(StrategyResult(status="ok", ceilings=ceilings, fits=lines))


def costs(
    experiment: Experiment, strategy: str, found: StrategyResult, rates: Rates | None
) -> Costs | None:
    """What a strategy's compiled program is expected to take; None where nothing predicts it, or
    its collectives are not known.
    """
    collectives = found.collectives
    if collectives is None:
        return None
    if found.prediction is not None:
        time = found.prediction.predicted_s
        return None if time is None else Costs(time.estimate, tuple(map(_waited_s, collectives)))
    if rates is None:
        return None
    time = with_roofs(
        experiment, strategy, found.model_copy(update={"predicted_s": None}), rates.machine
    ).predicted_s
    if time is None:
        return None
    each = tuple(_moved_s(collectives, rates.machine))
    return Costs(time.estimate, each, "calibration" if rates.calibrated else "guess")


def _moved_s(collectives: Sequence[Collective], machine: Machine) -> list[float]:
    """Seconds of each, in the way in which the calibration adds them up."""
    if machine.is_whole:
        return [machine.moved_s([each]) for each in collectives]
    floor = machine.ceilings["dispatch_mesh"].value
    return [beyond_floor_s(each, machine.found.fits, floor) for each in collectives]


def _waited_s(each: Collective) -> float:
    return each.exposed_in_all_s if each.exposed_s is not None else each.total_s


def held_bytes(found: StrategyResult) -> int | None:
    """Bytes that a program holds on a device: the compiler's peak for absent devices, else
    operands, results and temporaries together.
    """
    if found.prediction is not None and found.prediction.memory_bytes.peak:
        return found.prediction.memory_bytes.peak
    held = found.memory_bytes
    if held is None or held.argument is None:
        return None
    return held.argument + (held.output or 0) + (held.temp or 0)

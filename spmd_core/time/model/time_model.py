"""How long operations and collectives take on a target: the one question, and what stands in for
what is not known.
"""

import math
from dataclasses import dataclass, replace

from spmd_core.base import RequestError
from spmd_core.experiment import TRANSFERS, Axes, Experiment, Mesh
from spmd_core.machine import Topology, get_topology
from spmd_core.results import Collective, Estimate, Operation
from spmd_core.time.cost.constants import HBM_EFFICIENCY, MATMUL_OFF, MATMUL_SHARE, MEMORY_HIGH
from spmd_core.time.cost.links import NOMINAL
from spmd_core.time.model.calibration import Calibration, Case, Rates
from spmd_core.time.model.duration import (
    NOT_CALIBRATED,
    NOT_FILLED,
    Duration,
    Source,
    Unknown,
    not_measured,
)
from spmd_core.time.model.host import SimulatedHost
from spmd_core.time.model.nominal import Pairs, nominal_s

Sizes = tuple[int, int, int]  # of a matmul: rows, inner, columns
# How far an answer may be off, either way; all but the first are guesses
OFF = 0.15  # what adding up single operations is off by, usually
OFF_AS_MANY = 0.5  # of a collective among as many devices over other axes
OFF_OTHERS = 1.0  # of one among another number of devices
OFF_GUESS = 3.0
# kinds that move what another moves
LIKE = {"collective-broadcast": "all-gather", "ragged-all-to-all": "all-to-all"}


def interval(seconds: float, spread: float = 0.0) -> Estimate:
    """An estimate with how far adding up is off, and what the calibration's own noise adds."""
    off = OFF + min(spread, 1.0)
    return Estimate(low=seconds / (1 + off), estimate=seconds, high=seconds * (1 + off))


@dataclass(frozen=True)
class TimeModel:
    """What is known of a target: its `topology` where it is compile-only, the `calibration` of what
    is here, and the `host` that simulated devices share. `order` is how a mesh takes its devices,
    as an experiment's `device_order`.
    """

    dtype: str = "float32"
    order: str = "topology"
    topology: Topology | None = None
    calibration: Calibration | None = None
    host: SimulatedHost | None = None

    def collective(
        self,
        kind: str,
        mesh: Mesh,
        axes: Axes,
        nbytes: float,
        pairs: Pairs = (),
        devices: int | None = None,
    ) -> Duration | Unknown:
        """Of a collective of `nbytes`, the larger of operand and result per device, over mesh axes;
        `pairs` of a permute, `devices` of a group whose axes are not known.

        This is the rule of what stands in for what is not known; docs/prediction.md has its table.
        """
        sizes = dict(mesh)
        kind = LIKE.get(kind, kind)
        if devices is None and axes:
            devices = math.prod(sizes[axis] for axis in axes)
        if devices == 1 and (kind not in TRANSFERS or TRANSFERS[kind].between_devices):
            return Duration(0.0, 0.0, 0.0, self.source, self.floor_s)
        if self.topology is not None:
            return self._on_links(self.topology, kind, mesh, axes, nbytes, pairs)
        cases = self.calibration.cases(kind) if self.calibration else {}
        for case, off, stand_in in (
            *((case, OFF, "") for case in cases if _is(case, axes, devices)),
            *((case, OFF_AS_MANY, _over(*case)) for case in cases if case[1] == devices),
            *((case, OFF_OTHERS, _over(*case)) for case in cases),
        ):
            assert self.calibration is not None
            curve = cases[case]
            source: Source = "measured" if not stand_in and nbytes in curve[0] else "calibrated"
            seconds = self.calibration.collective_s(curve, nbytes)
            return self._duration(seconds, off + self.calibration.spread, source, stand_in)
        if self.host is not None:
            return self._duration(self.host.collective_s(kind, nbytes), OFF_GUESS, "guessed")
        return not_measured(kind) if self.calibration else NOT_CALIBRATED

    def compiled(self, each: Collective, mesh: Mesh) -> Duration | Unknown:
        """Of a compiled program's collective, one execution."""
        return self.collective(each.kind, mesh, each.axes, each.bytes, devices=each.group_size)

    def matmul(self, flops: float, sizes: Sizes | None = None) -> Duration | Unknown:
        """Of FLOPs on one device, in a matmul of these sizes where it is one."""
        if self.topology is not None:
            seconds = flops / (self.topology.chip.device_flops * MATMUL_SHARE)
            return Duration(seconds, seconds / MATMUL_OFF, seconds * MATMUL_OFF, "nominal")
        if self.calibration is not None and self.calibration.is_complete:
            side = max(1, round((flops / 2) ** (1 / 3)))
            shape = sizes or (side, side, side)
            one = self.calibration.operation_s(Operation(kind="matmul", sizes=shape), self.dtype)
            seconds = one * flops / (2 * math.prod(shape))
            return self._duration(seconds, OFF + self.calibration.spread, "calibrated")
        if self.host is not None:
            return self._duration(flops / self.host.flops_per_s(), OFF_GUESS, "guessed")
        return NOT_CALIBRATED

    def memory(self, nbytes: float) -> Duration | Unknown:
        """Of bytes that one device reads and writes, as an elementwise loop."""
        if self.topology is not None:
            seconds = nbytes / (self.topology.chip.device_hbm_bandwidth * HBM_EFFICIENCY)
            return Duration(seconds, seconds * HBM_EFFICIENCY, seconds * MEMORY_HIGH, "nominal")
        if self.calibration is not None and self.calibration.is_complete:
            loop = Operation(kind="copy", sizes=(max(1, int(nbytes)),))
            seconds = self.calibration.operation_s(loop)
            return self._duration(seconds, OFF + self.calibration.spread, "calibrated")
        if self.host is not None:
            return self._duration(nbytes / self.host.bytes_per_s(), OFF_GUESS, "guessed")
        return NOT_CALIBRATED

    @property
    def floor_s(self) -> float:
        """Seconds that every call takes once: the dispatch floor. 0 on a topology."""
        if self.calibration is not None:
            return self.calibration.floor_s
        return self.host.floor_s if self.host is not None else 0.0

    @property
    def source(self) -> Source:
        """Where most of its answers come from."""
        if self.topology is not None:
            return "nominal"
        return "calibrated" if self.calibration is not None else "guessed"

    def rates(self, *, alone: bool) -> Rates | None:
        """What a device reaches, `alone` or while all do the same; None where that is not known."""
        if self.topology is not None:
            chip = self.topology.chip
            flops, nbytes = chip.device_flops, chip.device_hbm_bandwidth
            return Rates(flops * MATMUL_SHARE, nbytes * HBM_EFFICIENCY, 0.0)
        if self.calibration is not None:
            return self.calibration.rates(self.dtype, alone=alone)
        if self.host is None:
            return None
        flops, nbytes = self.host.flops_per_s(alone=alone), self.host.bytes_per_s(alone=alone)
        return Rates(flops, nbytes, self.floor_s)

    def for_order(self, experiment: Experiment, cores: int) -> "TimeModel":
        """A model that knows something of every target, as a search needs to put candidates in an
        order: of an accelerator that was not calibrated what simulated devices would take.
        """
        if self.topology is not None or self.host is not None:
            return self
        return replace(self, host=SimulatedHost(experiment.device_count, cores))

    def _duration(self, seconds: float, off: float, source: Source, stand_in: str = "") -> Duration:
        low, high = seconds / (1 + off), seconds * (1 + off)
        return Duration(seconds, low, high, source, self.floor_s, stand_in)

    def _on_links(
        self, topology: Topology, kind: str, mesh: Mesh, axes: Axes, nbytes: float, pairs: Pairs
    ) -> Duration | Unknown:
        try:
            seconds = nominal_s(topology, self.order, kind, mesh, axes, nbytes, pairs)
            low = nominal_s(topology, self.order, kind, mesh, axes, nbytes, pairs, NOMINAL)
        except RequestError:  # no place for the mesh
            return NOT_FILLED
        except ValueError:
            return not_measured(kind)
        return Duration(seconds, low, seconds * MEMORY_HIGH, "nominal")


def time_model(
    experiment: Experiment,
    calibration: Calibration | None = None,
    cores: int | None = None,
    floor_s: float = 0.0,
) -> TimeModel:
    """The model of an experiment's target. `calibration` of it and `cores`, which simulated devices
    share, matter where it is here; `floor_s` of a call to those, where no calibration has it.
    """
    place, order = experiment.place, str(experiment.option("device_order"))
    if place.is_absent:
        return TimeModel(experiment.dtype, order, get_topology(place))
    host = None
    if cores and place.is_simulated:
        host = SimulatedHost(experiment.device_count, cores, floor_s)
    return TimeModel(experiment.dtype, order, None, calibration, host)


def _is(case: Case, axes: Axes, devices: int | None) -> bool:
    """Whether a case is of these axes, which another mesh may have of another size."""
    return set(case[0]) == set(axes) and devices in (None, case[1])


def _over(axes: Axes, devices: int) -> str:
    """What stands in: `as measured over x, among 2 devices`."""
    return f"as measured over {', '.join(axes)}, among {devices} devices"

"""How long operations and collectives take on a target: the one question, and what stands in for
what is not known.
"""

import math
from dataclasses import dataclass, replace

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, Estimate
from spmd_core.fields import Axes, Mesh
from spmd_core.machine import Chip, Gpu, Topology, get_topology
from spmd_core.plan import Plan
from spmd_core.results import Operation
from spmd_core.roofline.calibration import Calibration, Case, Rates
from spmd_core.roofline.duration import (
    NOT_CALIBRATED,
    NOT_FILLED,
    Duration,
    Source,
    Unknown,
    not_measured,
)
from spmd_core.time import MATMUL_SHARE, MEMORY_HIGH, Pairs, hbm_share, mesh_collective_s
from spmd_core.workloads import TRANSFERS

# Near a 2-core server
CORE_FLOPS = 4e10  # FLOP/s of one core in float32, as XLA's CPU backend reaches on large products
HOST_BANDWIDTH = 1.3e10  # bytes per second, all cores together, beyond what caches hold
# Threads of a group are woken one after the other: 2, 4 and 8 devices took 60, 115 and 180 µs to
# meet, each time, on 2 cores
MEET_S = 2.5e-5  # of each device of a group


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """`devices` simulated devices that share `cores`; `floor_s` of a call, where it is known."""

    devices: int
    cores: int
    floor_s: float = 0.0

    def flops_per_s(self, *, alone: bool = False) -> float:
        """FLOP/s of one device by its share of the cores; `alone`, while the others rest."""
        return CORE_FLOPS * self.cores / (1 if alone else self.devices)

    def bytes_per_s(self, *, alone: bool = False) -> float:
        """Bytes per second of one device by its share of the memory."""
        return HOST_BANDWIDTH / (1 if alone else self.devices)

    def collective_s(self, kind: str, nbytes: float, group: int | None = None) -> float:
        """Copies through the host's memory, after all devices of a group have met: all there are
        where its size is not known.
        """
        meeting_s = MEET_S * (group or self.devices)
        return meeting_s + (2 if kind == "all-reduce" else 1) * nbytes / self.bytes_per_s()


Sizes = tuple[int, int, int]  # of a matmul: rows, inner, columns
# How far an answer may be off, either way; all but the first are guesses
OFF = 0.15  # what adding up single operations is off by, usually
OFF_AS_MANY = 0.5  # of a collective among as many devices over other axes
OFF_OTHERS = 1.0  # of one among another number of devices
OFF_GUESS = 3.0
OFF_NOMINAL = 0.1  # of what one device does by its data sheet
# kinds that move what another moves
LIKE = {"collective-broadcast": "all-gather", "ragged-all-to-all": "all-to-all"}


def interval(seconds: float, spread: float = 0.0) -> Estimate:
    """An estimate with how far adding up is off, and what the calibration's own noise adds."""
    off = OFF + spread
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
        if devices is None and axes and set(axes) <= sizes.keys():
            devices = math.prod(sizes[axis] for axis in axes)
        if devices == 1 and (kind not in TRANSFERS or TRANSFERS[kind].between_devices):
            return Duration(0.0, 0.0, 0.0, self.source, self.floor_s)
        if self.topology is not None:
            return self._on_links(self.topology, kind, mesh, axes, nbytes, pairs)
        known = self.calibration
        cases = known.cases(kind) if known else {}
        alike = (
            [(case, OFF, "") for case in cases if _is(case, axes, devices)]
            or [(case, OFF_AS_MANY, _over(case)) for case in cases if case[1] == devices]
            or [(case, OFF_OTHERS, _over(case)) for case in cases]
        )
        if known and alike:
            case, off, stand_in = alike[0]
            measured = not stand_in and nbytes in cases[case][0]
            seconds = known.collective_s(cases[case], nbytes)
            source: Source = "measured" if measured else "calibrated"
            return self._duration(seconds, off + known.spread, source, stand_in)
        if self.host is not None:
            seconds = self.host.collective_s(kind, nbytes, devices)
            return self._duration(seconds, OFF_GUESS, "guessed")
        return not_measured(kind) if known else NOT_CALIBRATED

    def compiled(self, each: Collective, mesh: Mesh) -> Duration | Unknown:
        """Of a compiled program's collective, one execution."""
        return self.collective(each.kind, mesh, each.axes, each.bytes, devices=each.group_size)

    def matmul(self, flops: float, sizes: Sizes | None = None) -> Duration | Unknown:
        """Of FLOPs on one device, in a matmul of these sizes where it is one."""
        if self.calibration is None or not self.calibration.is_complete:
            return self._by_rate(flops, self._rates().flops_per_s)
        side = max(1, round((flops / 2) ** (1 / 3)))
        shape = sizes or (side, side, side)
        one = self.calibration.operation_s(Operation(kind="matmul", sizes=shape), self.dtype)
        return self._calibrated(one * flops / (2 * math.prod(shape)))

    def memory(self, nbytes: float) -> Duration | Unknown:
        """Of bytes that one device reads and writes, as an elementwise loop."""
        if self.calibration is None or not self.calibration.is_complete:
            return self._by_rate(nbytes, self._rates().bytes_per_s)
        loop = Operation(kind="copy", sizes=(max(1, int(nbytes)),))
        return self._calibrated(self.calibration.operation_s(loop))

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
        if self.calibration is not None:
            return self.calibration.rates(self.dtype, alone=alone)
        return self._rates(alone=alone) if self.topology or self.host else None

    def _rates(self, *, alone: bool = False) -> Rates:
        """By the data sheet, else as guessed; nothing (0) is known of accelerators."""
        if self.topology is not None:
            chip = self.topology.chip
            flops, nbytes = chip.device_flops, chip.device_hbm_bandwidth
            share = chip.matmul_share if isinstance(chip, Gpu) else MATMUL_SHARE
            return Rates(flops * share, nbytes * hbm_share(chip), 0.0)
        if self.host is None:
            return Rates(0.0, 0.0, 0.0)
        flops, nbytes = self.host.flops_per_s(alone=alone), self.host.bytes_per_s(alone=alone)
        return Rates(flops, nbytes, self.floor_s)

    def _by_rate(self, amount: float, rate: float) -> Duration | Unknown:
        if not rate:
            return NOT_CALIBRATED
        if self.topology is not None:
            return self._duration(amount / rate, OFF_NOMINAL, "nominal")
        return self._duration(amount / rate, OFF_GUESS, "guessed")

    def _calibrated(self, seconds: float) -> Duration:
        assert self.calibration is not None
        return self._duration(seconds, OFF + self.calibration.spread, "calibrated")

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
            seconds = mesh_collective_s(topology, self.order, kind, mesh, axes, nbytes, pairs)
            low = mesh_collective_s(
                topology, self.order, kind, mesh, axes, nbytes, pairs, nominal=True
            )
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


def _over(case: Case) -> str:
    """What stands in: `as measured over x, among 2 devices`."""
    axes, devices = case
    return f"as measured over {', '.join(axes)}, among {devices} devices"


def data_sheet(chip: Chip) -> dict[str, float]:
    """Nominal rates: FLOP/s in bfloat16 (`flops`) and bytes per second of HBM (`hbm`) of a chip,
    the same `of a device`, and bytes per second of an ICI link each way (`link`).
    """
    return {
        "flops": chip.peak_flops,
        "flops of a device": chip.device_flops,
        "hbm": chip.hbm_bandwidth,
        "hbm of a device": chip.device_hbm_bandwidth,
        "link": chip.link_bandwidth,
    }


def tokens_needed(plan: Plan) -> float:
    """Returns tokens per chip with which matmuls take as long as a gather of their weights over all
    chips: peak FLOP/s over the bytes per second of a chip's links, both ways of each torus axis, or
    of a slice's share of the network; of experts times those that a token does not visit.

    Source: "How to Scale Your Model", chapter 5, fully sharded data parallelism.
    """
    topology, size = plan.topology, plan.size
    chip = topology.chip
    ways = 1 if chip.is_gpu else 2 * chip.torus_dims
    rates = [ways * chip.link_bandwidth]
    if topology.slices > 1:
        rates.append(chip.dcn_bandwidth * math.prod(topology.shape))
    return chip.peak_flops / min(rates) * size.parameters / size.active_parameters


def link_s(topology: Topology, way: str, nbytes: float) -> float:
    """Seconds of bytes on a link at its nominal rate: between slices where `way` is `dcn`."""
    chip = topology.chip
    return nbytes / (chip.dcn_bandwidth if way == "dcn" else chip.link_bandwidth)

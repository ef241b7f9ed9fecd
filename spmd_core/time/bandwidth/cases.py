"""Which points a sweep of collectives has: kinds, groups of mesh axes, sizes."""

import math
from dataclasses import dataclass

from spmd_core.experiment import (
    DTYPE_BYTES,
    TRANSFERS,
    Experiment,
    chosen_axes,
    chosen_kinds,
    ladder,
)
from spmd_core.results import Point


@dataclass(frozen=True, slots=True)
class Case:
    """One collective over some axes of the mesh, and the bytes of each of its points, ascending."""

    kind: str
    axes: tuple[str, ...]
    devices: int  # of a group
    dtype: str
    sizes: tuple[int, ...]

    def point(
        self,
        nbytes: int,
        time_s: float | None = None,
        ci95_s: tuple[float, float] | None = None,
        *,
        correct: bool | None = None,
        predicted_s: float | None = None,
        error: str | None = None,
    ) -> Point:
        """A point of this case; its bandwidths, in bytes per second, follow from its seconds."""
        bandwidth = nbytes / time_s if time_s else None
        factor = TRANSFERS[self.kind].bus_factor(self.devices)
        return Point(
            kind=self.kind,
            axes=self.axes,
            devices=self.devices,
            dtype=self.dtype,
            bytes=nbytes,
            time_s=time_s,
            ci95_s=ci95_s,
            algbw=bandwidth,
            busbw=bandwidth * factor if bandwidth else None,
            predicted_s=predicted_s,
            correct=correct,
            error=error,
            in_program=time_s is not None and TRANSFERS[self.kind].between_devices,
        )


def cases(experiment: Experiment) -> tuple[Case, ...]:
    """The cases of a sweep: collectives over each group of axes, then copies from and to hosts."""
    options, sizes = dict(experiment.options), experiment.axis_sizes
    each = DTYPE_BYTES[experiment.dtype]
    listed = []
    for kind in chosen_kinds(options):
        between = TRANSFERS[kind].between_devices
        for axes in chosen_axes(options, experiment.mesh) if between else ((),):
            devices = math.prod(sizes[axis] for axis in axes)
            listed.append(
                Case(kind, axes, devices, experiment.dtype, ladder(options, each * devices))
            )
    return tuple(listed)

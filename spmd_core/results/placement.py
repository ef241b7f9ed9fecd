"""Compares the placement of an array on devices with its computed layout."""

from spmd_core.experiment import Layout, shape_text
from spmd_core.fields import axes_json
from spmd_core.results.result import ArrayReport


def difference(layout: Layout, report: ArrayReport) -> str | None:
    """How the placement that JAX reports for an array differs from the layout, in a sentence; None
    if they agree.

    Compared shard by shard where the report lists them (up to 64 devices), else by shape and spec,
    which decide the shards.
    """
    if report.shape != layout.shape:
        return (
            f"the array has shape {shape_text(report.shape)}, the layout {shape_text(layout.shape)}"
        )
    if report.shards is None:
        actual, expected = list(report.spec or ()), [axes_json(axes) for axes in layout.spec]
        return (
            None
            if [list(axes) if isinstance(axes, tuple) else axes for axes in actual] == expected
            else (f"the array is sharded by {actual}, the layout by {expected}")
        )
    reported = {shard.at: [list(bounds) for bounds in shard.index] for shard in report.shards}
    numbers = layout.numbers
    for position, ranges in enumerate(layout.ranges()):
        if reported.get(position) != ranges:
            return (
                f"device {numbers[position]} holds {reported.get(position, 'nothing')}, the "
                f"layout says {ranges}"
            )
    return (
        None
        if len(reported) == layout.device_count
        else f"{len(reported)} devices hold shards, the layout has {layout.device_count}"
    )

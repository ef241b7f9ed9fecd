"""Where devices put an array, against where its layout says."""

from spmd_core.experiment import Layout, axes_json, shape_text
from spmd_core.results.result import ArrayReport


def difference(found: Layout, report: ArrayReport) -> str | None:
    """Where a real array, as JAX reports it, lies otherwise than the layout says, in a sentence;
    None where they agree.

    Compared shard by shard where the report lists them (up to 64 devices), else by shape and spec,
    which decide the shards.
    """
    if report.shape != found.shape:
        return (
            f"the array has shape {shape_text(report.shape)}, the layout {shape_text(found.shape)}"
        )
    if report.shards is None:
        held, said = list(report.spec or ()), [axes_json(axes) for axes in found.spec]
        return (
            None
            if [list(axes) if isinstance(axes, tuple) else axes for axes in held] == said
            else (f"the array is sharded by {held}, the layout by {said}")
        )
    reported = {shard.at: [list(bounds) for bounds in shard.index] for shard in report.shards}
    numbers = found.numbers
    for position, ranges in enumerate(found.ranges()):
        if reported.get(position) != ranges:
            return f"device {numbers[position]} holds {reported.get(position, 'nothing')}, the layout says {ranges}"
    return (
        None
        if len(reported) == found.device_count
        else f"{len(reported)} devices hold shards, the layout has {found.device_count}"
    )

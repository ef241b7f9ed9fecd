"""The description of a compiled step: facts of its compile with their sentences and source lines."""

from collections.abc import Iterator

from spmd_core.base import package_version
from spmd_core.experiment import Held
from spmd_core.own.sources import line_of
from spmd_core.results import CompiledStep, StepCollective, StepDescription, StepFinding
from spmd_core.words import lost_batch_words, step_arrays, step_findings

_PACKAGES = ("jax", "jaxlib", "libtpu", "spmd-lab")


def describe(step: CompiledStep) -> StepDescription:
    """A step as every reader has it."""
    program = step.program
    arguments = program.arguments()
    held = step.memory_bytes
    return StepDescription(
        function=step.described.function,
        versions={name: version for name in _PACKAGES if (version := package_version(name))},
        mesh=step.mesh,
        axis_types=step.axis_types,
        target=step.target,
        fits=step.fits,
        collectives=None if step.collectives is None else tuple(map(_quoted, step.collectives)),
        arguments=step_arrays(arguments),
        outputs=step_arrays(program.outputs()),
        findings=(*_lost(step), *_unnamed(step, arguments), *step_findings(program)),
        peak_bytes=held and held.peak,
        capacity_bytes=step.capacity_bytes,
        memory_bytes=held,
        predicted_s=step.predicted_s,
        warnings=step.warnings,
        callbacks=tuple(_callback_words(step)),
    )


def _quoted(each: StepCollective) -> StepCollective:
    source, line = line_of(each.source)
    return each.model_copy(update={"source": source, "line": line})


def _lost(step: CompiledStep) -> Iterator[StepFinding]:
    if (lost := step.lost_batch) is not None:
        sentence = lost_batch_words(lost)
        yield StepFinding(
            kind="lost_batch", path=lost.source, bytes_per_device=0, sentence=sentence
        )


def _unnamed(step: CompiledStep, arguments: tuple[Held, ...]) -> Iterator[StepFinding]:
    """Mesh axes that shard nothing: the devices along them compute the same."""
    specs = [each.spec or () for each in (*arguments, *step.program.outputs())]
    used = {axis for spec in specs for axes in spec for axis in axes}
    used |= {axis for each in step.collectives or () for axis in each.axes}
    held = sum(each.bytes_per_device or 0 for each in arguments)
    for axis, size in step.mesh:
        if size > 1 and axis not in used:
            sentence = (
                f"no spec names mesh axis {axis}={size}: its devices hold and compute the same; "
                "shard a dim over it, or give it size 1"
            )
            yield StepFinding(
                kind="unused_axis", path=axis, bytes_per_device=held, sentence=sentence
            )


def _callback_words(step: CompiledStep) -> Iterator[str]:
    for name, count in step.callbacks:
        way = "left out" if ".debug." in name else "replaced by arrays of its results' shapes"
        is_here = ":" not in step.target
        yield f"{name} ({count}): {'compiled as it is' if is_here else way}"

"""The description of a compiled step: facts of its compile with their sentences and source lines."""

from collections.abc import Iterator, Set

from spmd_core.base import package_version
from spmd_core.experiment import Held
from spmd_core.own.sources import line_of
from spmd_core.results import CompiledStep, StepCollective, StepDescription, StepFinding
from spmd_core.words import compiled_findings, step_arrays, step_findings

_PACKAGES = ("jax", "jaxlib", "libtpu", "spmd-lab")


def describe(step: CompiledStep) -> StepDescription:
    """A step as every reader has it."""
    program = step.program
    arguments = program.arguments()
    held, unnamed = step.memory_bytes, tuple(_unnamed(step, arguments))
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
        findings=(
            *_compiled(step, {each.path for each in unnamed}),
            *unnamed,
            *step_findings(program),
        ),
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


def _compiled(step: CompiledStep, unnamed: Set[str]) -> tuple[StepFinding, ...]:
    """What the compiled program does by accident; that an axis which no spec names repeats work is
    no second finding.
    """
    others = tuple(each for each in step.accidents if not unnamed & {*each.axes})
    return compiled_findings(step.model_copy(update={"accidents": others}))


def _unnamed(step: CompiledStep, arguments: tuple[Held, ...]) -> Iterator[StepFinding]:
    """Mesh axes that shard nothing: the devices along them compute the same."""
    specs = [each.spec or () for each in (*arguments, *step.program.outputs())]
    used = {axis for spec in specs for axes in spec for axis in axes}
    used |= {axis for each in step.collectives or () for axis in each.axes} | {*step.constrained}
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

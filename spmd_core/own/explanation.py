"""An explained step: its description with sentences and source lines, as text, as a picture, as JSON, as
a program of the lab.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from spmd_core.advice import all_findings, step_arrays
from spmd_core.base import package_version
from spmd_core.own.cell import svg_of
from spmd_core.own.first_screen import lines
from spmd_core.own.sources import line_of
from spmd_core.results import (
    CompiledStep,
    NamedValue,
    Place,
    StepDescription,
)

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
        collectives=None
        if step.collectives is None
        else tuple(
            each.model_copy(update=dict(zip(("source", "line"), line_of(each.source), strict=True)))
            for each in step.collectives
        ),
        arguments=step_arrays(arguments),
        outputs=step_arrays(program.outputs()),
        findings=tuple(all_findings(program, step)),
        peak_bytes=held and held.peak,  # pyrefly: ignore[bad-argument-type]
        capacity_bytes=step.capacity_bytes,
        memory_bytes=held,
        predicted_s=step.predicted_s,
        warnings=step.warnings,
        callbacks=tuple(_callback_words(step)),
    )


def _callback_words(step: CompiledStep) -> Iterator[str]:
    for name, count in step.callbacks:
        way = "left out" if ".debug." in name else "replaced by arrays of its results' shapes"
        is_here = ":" not in step.target
        yield f"{name} ({count}): {'compiled as it is' if is_here else way}"


if TYPE_CHECKING:
    from spmd_core.own.running import LabAnswer


@dataclass(frozen=True)
class More:
    """Facts of a traced step that are read on request: the file of its program, the places of its
    operations, and the values that `checkpoint_name` names.
    """

    export: Callable[[], bytes]
    places: Callable[[], Collection[Place]]
    named_values: Callable[[], tuple[NamedValue, ...]]


class Explanation(StepDescription):
    """What `spmd_lab.explain` returns: the description of a compiled step. It is printed as text, and
    drawn in a notebook.
    """

    _more: More = PrivateAttr()

    @classmethod
    def of(cls, step: CompiledStep, more: More) -> "Explanation":
        """The explanation of a compiled step."""
        made = cls(**dict(describe(step)))
        made._more = more
        return made

    def json(self, **options: Any) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the description as plain values, by the schema of docs/python.md."""
        return self.model_dump(mode="json", **options)

    def places(self) -> Collection[Place]:
        """Returns scope, function and source of every operation of the step."""
        return self._more.places()

    def named_values(self) -> tuple[NamedValue, ...]:
        """Returns the values that `checkpoint_name` names, sharded as the program requests."""
        return self._more.named_values()

    def __str__(self) -> str:
        return "\n".join(lines(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from spmd_core.own.cell import cell_of  # pictures: a script that prints a step has none

        return cell_of(self)

    def save(self, path: str | Path) -> Path:
        """Write the pictures (`.html`), the text as a picture (`.svg`), the values (`.json`), the
        program for Programs (`.jaxexport`), else the text to a file.

        Returns:
            The path.
        """
        from spmd_core.own.cell import page_of

        path = Path(path)
        if path.suffix == ".jaxexport":
            path.write_bytes(self._more.export())
            return path
        ways = {
            ".html": page_of,
            ".svg": lambda step: svg_of(lines(step)),
            ".json": lambda step: json.dumps(step.json(), indent=1),
        }
        text = ways.get(path.suffix, lambda step: f"{step}\n")(self)
        path.write_text(text, encoding="utf-8")
        return path

    def diff(self, other: StepDescription) -> tuple[str, ...]:
        """Returns what `other` has otherwise, a line for each change: `new`, `gone`, `changed`, or
        `renamed` and `moved`, which change nothing that is computed.
        """
        from spmd_core.own.changed.changes import between

        compared = between(self, other)
        return (*compared.changed, *compared.renamed)

    def open(self) -> str:
        """Store the step as a program of the lab, and print its link.

        Returns:
            The link, of a dashboard that `spmd-lab dashboard` serves.
        """
        from spmd_core.own.running import stored_link

        link = stored_link(self._more.export(), self)
        print(link)
        return link

    def remedies(self) -> "LabAnswer":
        """Returns what would remove the collectives of the step: changes of specs and constraints that
        are compiled for its target and judged.

        Raises:
            RequestError: the step was not explained for a target such as `tpu:v5e:4x4`.
        """
        from spmd_core.own.running import remedies

        return remedies(self._more.export(), self)

    def best_mesh(self, seconds: float | None = 60.0) -> "LabAnswer":
        """Returns a ranking of the meshes of the step's axes on its target.

        Args:
            seconds: a budget for compiles.

        Raises:
            RequestError: the step was not explained for a target such as `tpu:v5e:4x4`.
        """
        from spmd_core.own.running import best_mesh

        return best_mesh(self._more.export(), self, seconds)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of an explanation's `json()`."""
    return StepDescription.model_json_schema(mode="serialization")

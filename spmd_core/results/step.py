"""A step of somebody's own code as it is compiled: what it communicates, holds and costs. Programs,
explanations and goldens are made of this value.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field

from spmd_core.base import Frozen
from spmd_core.facts import Accident, AxisOrigin, CollectiveKind, Estimate, LostBatch, NoOrigin
from spmd_core.fields import Mesh, Spec
from spmd_core.results.result import MemoryBytes
from spmd_core.workloads import Described, Program

SCHEMA = 1


class Place(NamedTuple):
    """Where an operation is written: its scope, its qualified function, `path:line`."""

    scope: str
    function: str
    source: str


ArraySpec = tuple[str | tuple[str, ...] | None, ...]  # for each dim an axis, several, or None


class NamedValue(NamedTuple):
    """A value that `checkpoint_name` names; `spec` is None where it is not one of mesh axes."""

    path: str
    shape: tuple[int, ...]
    spec: ArraySpec | None


class StepCollective(CollectiveKind):
    """A collective of a step.

    `bytes` is per device and execution, `bytes_total` over the `count` executions of a step; both
    are None where a loop's length, or which branch runs, is unknown. `dtype` is that of the largest
    array that it moves. `source` is `path:line`, the path relative to the repository; `line` is the
    text of that line. `function` is the qualified function around it, `scope` the path of `jax.named_scope` and of
    modules. `origin` names for each of its axes what sharded the value over it, `against` what
    sharded that which it is moved to. `exposed_s` is what a step waits for it, in seconds, and None
    where no target is priced.
    """

    count: int | None
    bytes: int
    bytes_total: int | None = None
    dtype: str
    source: str | None = None
    line: str = ""
    function: str = ""
    scope: str = ""
    reason: str | None = None
    origin: tuple[AxisOrigin, ...] = ()
    against: tuple[AxisOrigin, ...] = ()
    no_origin: NoOrigin | None = None
    exposed_s: float | None = None
    warning: str | None = None

    @property
    def place(self) -> Place:
        """Where it is from."""
        return Place(self.scope, self.function, self.source or "")


class StepArray(Frozen):
    """An argument or output: `spec` has for each dim a mesh axis, several, or None; `bytes` are of
    all of it. `copies` counts the devices that hold the same shard. `memory` is a memory kind that
    is not the device's.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    spec: ArraySpec | None
    bytes: int
    bytes_per_device: int | None
    copies: int | None
    memory: str | None = None
    propagated: bool = False
    donated: bool = False

    @property
    def code(self) -> str:
        """Its spec as code, such as `P('fsdp', None)`."""
        return spec_code(self.spec)


def spec_code(spec: ArraySpec | None) -> str:
    """A spec as code.

    >>> spec_code(("fsdp", None, ("x", "y")))
    "P('fsdp', None, ('x', 'y'))"
    """
    return "unknown" if spec is None else f"P({', '.join(map(repr, spec))})"


class StepFinding(Frozen):
    """Something that a step's author hardly meant.

    `specs`: what to give the step instead, as `what-if` tries it: by pattern of arguments, or by
    `@file:line` of a value that is constrained. `is_note`: it may be meant, or costs little.
    """

    kind: str
    path: str
    bytes_per_device: int
    sentence: str
    is_note: bool = False
    specs: tuple[tuple[str, Spec], ...] = ()


class CompiledStep(Frozen):
    """The facts of a compiled step, as the process that compiles it reports them.

    `described` has its arguments and outputs, `specs` those that were changed. `target` is the
    topology, or the platform of the devices that are here. `callbacks` are names and counts.
    """

    described: Described
    mesh: Mesh = ()
    axis_types: tuple[str, ...] = ()
    specs: tuple[tuple[str, Spec], ...] = ()
    target: str
    collectives: tuple[StepCollective, ...] | None = None
    memory_bytes: MemoryBytes | None = None
    capacity_bytes: int | None = None
    predicted_s: Estimate | None = None
    fits: bool | None = None
    lost_batch: LostBatch | None = None
    accidents: tuple[Accident, ...] = ()
    warnings: tuple[str, ...] = ()
    callbacks: tuple[tuple[str, int], ...] = ()

    @property
    def program(self) -> Program:
        """Its arguments and outputs on its mesh."""
        return Program(self.described, self.mesh, self.specs)


class StepDescription(Frozen):
    """A step as every reader has it: as JSON, on a screen, in a golden."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    schema_number: Literal[1] = Field(default=SCHEMA, alias="schema")
    function: str
    versions: Mapping[str, str]
    mesh: Mesh
    axis_types: tuple[str, ...] = ()
    target: str
    fits: bool | None = None
    collectives: tuple[StepCollective, ...] | None
    arguments: tuple[StepArray, ...]
    outputs: tuple[StepArray, ...]
    findings: tuple[StepFinding, ...]
    peak_bytes: int | None
    capacity_bytes: int | None = None
    memory_bytes: MemoryBytes | None = None
    predicted_s: Estimate | None
    warnings: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()

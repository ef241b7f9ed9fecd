"""The points of a model's space: topology, mesh and batch, each with all its policies."""

from collections.abc import Iterator
from dataclasses import dataclass

from spmd_core.base import mesh_text, refuse
from spmd_core.facts import StoredFact
from spmd_core.machine import Topology
from spmd_core.plan import CONTEXT, STAGE, VARIABLE, Plan, arrays
from spmd_core.search.candidate import Candidate, Reason, Rule
from spmd_core.search.chips import STAGES, named_meshes, staged_meshes
from spmd_core.search.neighborhood import (
    Policy,
    pipeline_policies,
    policies,
    step_options,
    under_options,
)
from spmd_core.search.question import BATCHES, ModelQuestion
from spmd_core.time import may_pass_in_rings
from spmd_core.workloads import parse_plan

Mesh = tuple[tuple[str, int], ...]
Key = tuple[object, ...]
_INSIDE = ("data", "fsdp", "expert", CONTEXT, "tensor")  # axes of a mesh inside a stage


@dataclass(frozen=True, slots=True)
class MeshPoint:
    """Policies on one mesh of one topology with one batch; `number` is that of the first. `is_extra`:
    of a mesh that another point has without options.
    """

    question: ModelQuestion
    topology: Topology
    mesh: Mesh
    per_device: float
    policies: tuple[Policy, ...]
    number: int
    is_extra: bool = False

    def plan(self, policy: Policy) -> Plan:
        """The plan of a policy; RequestError where the sizes do not divide."""
        given = dict(self.question.plan)
        sizes = {name: given.pop(name) for name in VARIABLE if name in given}
        return parse_plan(
            {
                **given,
                "sizes": sizes,
                "target": self.topology.target,
                "model": self.question.model,
                "mesh": self.mesh,
                "sequence": self.question.sequence,
                "batch_per_device": self.per_device,
                **policy.fields,
            }
        )

    def name(self, policy: Policy) -> str:
        """Mesh, policy, batch and topology, which distinguish candidates."""
        mesh = mesh_text(self.mesh, ",") or "1 device"
        return f"{mesh} · {policy.words} · {self.per_device:g} per device · {self.topology.name}"

    def pruned(self, reason: Reason, detail: Rule, equal: int | None = None) -> Iterator[Candidate]:
        """All of them, for one reason."""
        target = self.topology.target
        for place, policy in enumerate(self.policies):
            yield Candidate(
                self.number + place,
                self.name(policy),
                target,
                self.topology.chips,
                "pruned",
                reason,
                detail,
                equal=None if equal is None else equal + place,
            )


def points_of(question: ModelQuestion) -> Iterator[MeshPoint]:
    """Every point, in the order of the enumeration: pipelines after other meshes, and these again
    under options last. Stored searches name candidates by number: what is new is added at the end.
    """
    number, size = 0, question.size
    fields = {name: value for name, value in question.plan if value is not None}
    tried = policies(question.remat, question.offload, size.gated, size.post_norms)
    staged = pipeline_policies(question.remat, bool({"schedule", "repeats"} & {*fields}))
    flags = fields.get("compiler_flags") or ()
    for meshes, is_extra in ((_meshes, False), (_pipelines, False), (_meshes, True)):
        for topology in question.topologies:
            some = staged if meshes == _pipelines else tried
            if is_extra:
                options = step_options(fields, may_pass_in_rings(topology, flags))
                some = under_options(tried, options)
            for mesh in meshes(question, topology) if some else ():
                for share in _shares(question, topology):
                    yield MeshPoint(question, topology, mesh, share, some, number, is_extra)
                    number += len(some)


def _meshes(question: ModelQuestion, topology: Topology) -> Iterator[Mesh]:
    for mesh in named_meshes(topology.devices, question.axes):
        yield mesh or (("fsdp", 1),)


def _pipelines(question: ModelQuestion, topology: Topology) -> Iterator[Mesh]:
    """Meshes whose stages come first, and so divide slices or nodes: beside up to two axes. On one
    slice, where a pipeline hardly pays, beside `fsdp` alone unless the stages are fixed.
    """
    fixed = dict(question.fixed).get(STAGE)
    names = tuple(name for name in question.axes if name in _INSIDE)
    names = names if fixed or topology.slices > 1 else ("fsdp",)
    if fixed != 1:
        yield from staged_meshes(topology.devices, names, (fixed,) if fixed else STAGES)


def _shares(question: ModelQuestion, topology: Topology) -> tuple[float, ...]:
    if question.global_batch is not None:
        return (question.global_batch / topology.devices,)
    return BATCHES if question.batch_per_device is None else (question.batch_per_device,)


def not_as_fixed(point: MeshPoint) -> StoredFact | None:
    """The rule that a mesh breaks of what is fixed; None where it keeps all."""
    sizes = dict(point.mesh)
    for name, size in point.question.fixed:
        if sizes.get(name, 1) != size:
            return StoredFact(
                kind="not as fixed",
                values={"axis": name, "size": sizes.get(name, 1), "fixed": size},
            )
    return None


def check_slices(point: MeshPoint) -> None:
    """RequestError where slices are not on the axis that passes least between them."""
    slices = point.topology.slices
    (name, size), *others = point.mesh
    if others and name in ("data", "fsdp", STAGE) and slices % size == 0:  # each over several
        slices //= size
        name, size = others[0]
    if slices > 1 and (name not in ("data", "fsdp", STAGE) or size % slices):
        raise refuse(
            f"{name}={size}", f"does not divide over {slices} slices", f"put data={slices} first"
        )


def key_of(plan: Plan) -> Key:
    """What a plan's program depends on but for the names of its mesh axes: two of equal keys shard
    every array alike, over devices in the same order.
    """
    place = {name: number for number, (name, _) in enumerate(plan.mesh)}
    specs = tuple(
        (array.group, array.name, tuple(tuple(place[axis] for axis in axes) for axes in array.axes))
        for array in arrays(plan)
    )
    sizes = tuple(size for _, size in plan.mesh)
    return plan.target, sizes, plan.stages, plan.batch_per_device, specs

"""The axes that a decoder is sharded over, and the rules for a mesh of them."""

import math

from spmd_core.base import check_known, refuse
from spmd_core.machine import Topology

CONTEXT = "context"  # of a sequence, also inside attention
AXES = ("data", "fsdp", "fsdp_transpose", "expert", "sequence", CONTEXT, "tensor")
STAGE = "stage"  # of a pipeline: layers are divided along it
MESH_AXES = (*AXES, STAGE)
DATA_AXES = ("data", "fsdp", "fsdp_transpose")  # those that shard the batch
LONG_SEQUENCE = 32768  # tokens from which on a search tries `context`
LENGTH_HELP = (
    "sequence divides tokens between the blocks, and heads in attention; context divides tokens "
    "in attention too"
)
LENGTH_AXES = ("sequence", CONTEXT)  # a sequence
# of weights that are gathered again
GATHERED_AXES = ("fsdp", "fsdp_transpose", *LENGTH_AXES, "expert")
# fields of a plan that mean nothing on a mesh without an axis
OF_AXES = {
    STAGE: ("schedule", "repeats"),
    CONTEXT: ("context_attention", "context_order"),
    "data": ("shard_optimizer_over_data",),
}


def check_mesh(mesh: tuple[tuple[str, int], ...], topology: Topology) -> None:
    """RequestError if a mesh has other axes, or does not fill the topology."""
    names, devices = [name for name, _ in mesh], math.prod(size for _, size in mesh)
    for name in names:
        check_known("mesh axis", name, MESH_AXES, "is not one that a decoder is sharded over")
        if names.count(name) > 1:
            raise refuse(f"mesh axis {name!r}", "appears twice in the mesh", "give it once")
    if devices != topology.devices:
        raise refuse(
            f"mesh of {devices} devices",
            f"does not fill {topology.name} with its {topology.devices}",
            f"make the axes multiply to {topology.devices}, for example fsdp={topology.devices}",
        )
    if topology.slices > 1 and devices % topology.slices:
        raise refuse(
            f"{topology.slices} slices",
            "do not divide over the mesh",
            f"put data={topology.slices} first",
        )

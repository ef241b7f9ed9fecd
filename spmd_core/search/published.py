"""What MaxText's published recipes use: mesh, batch and policy by model and generation.

Sources: AI-Hypercomputer/maxtext and tpu-recipes, the tables and scripts of each generation.
"""

from dataclasses import dataclass
from typing import Any

from spmd_core.experiment import resized
from spmd_core.machine import Topology, get_topology


@dataclass(frozen=True, slots=True)
class PublishedRecipe:
    """Published settings of a model on one topology. `batch` counts sequences per device."""

    model: str
    target: str
    mesh: tuple[tuple[str, int], ...]
    batch: float
    sequence: int
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def policy(self) -> dict[str, Any]:
        """What it saves and offloads, as a plan has it."""
        given = dict(self.more)
        return {
            "remat": given.get("remat", "full"),
            "save": given.get("save", ()),
            "offload": given.get("offload", ()),
        }

    def mesh_on(self, topology: Topology) -> tuple[tuple[str, int], ...]:
        """Its mesh on another number of chips: the axis that takes the change is the usual one."""
        own = get_topology(self.target)
        return resized(self.mesh, topology, workload="decoder", slices=own.slices).mesh


_INPUTS = ("input", "query", "key", "value", "out")
_BLOCK = ("query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down")
RECIPES: tuple[PublishedRecipe, ...] = (
    PublishedRecipe(
        "scaled:32",
        "tpu:v5p:4x4x4",
        (("fsdp", 16), ("tensor", 4)),
        6,
        2048,
        (("remat", "minimal"),),
    ),
    PublishedRecipe(
        "llama-3.1-8b", "tpu:v6e:16x16", (("fsdp", 256),), 4, 8192, (("offload", _INPUTS),)
    ),
    PublishedRecipe(
        "llama-3.1-70b",
        "tpu:v6e:16x16*2",
        (("data", 2), ("fsdp", 256)),
        1,
        8192,
        (("offload", _INPUTS),),
    ),
    PublishedRecipe(
        "scaled:128",
        "tpu:v5e:16x16",
        (("fsdp", 16), ("tensor", 16)),
        1,
        2048,
        (("offload", _BLOCK), ("fused_qkv", True), ("fused_mlp", True)),
    ),
    PublishedRecipe(
        "llama-3.1-70b",
        "tpu:tpu7x:4x4x4",
        (("fsdp", 128),),
        2,
        8192,
        (("save", ("query", "key", "value", "attention")),),
    ),
)


def recipe_for(model: str, topology: Topology) -> PublishedRecipe | None:
    """The published recipe of a model: of this topology, else of its generation, else any; None
    where there is none.
    """
    own = [recipe for recipe in RECIPES if recipe.model == model]
    return min(
        own,
        default=None,
        key=lambda recipe: (
            recipe.target != topology.target,
            get_topology(recipe.target).chip.generation != topology.chip.generation,
        ),
    )

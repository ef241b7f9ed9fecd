"""The shardings that everyone knows, to set a winner against: data, fsdp, tensor, mixed, and mesh,
batch and policy of MaxText's published recipes by model and generation.

Sources: AI-Hypercomputer/maxtext and tpu-recipes, the tables and scripts of each generation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spmd_core.experiment import resized
from spmd_core.facts import StoredFact
from spmd_core.machine import Topology, get_topology
from spmd_core.plan import STAGE, Plan
from spmd_core.search.candidate import Candidate, Reason, Rule
from spmd_core.search.ranking import Ranked


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


Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StandardSharding:
    """A standard sharding and its best candidate: None where all of them were ruled out, `why`
    being what ruled out the smallest. `is_slow`: it can run, and cannot win.
    """

    title: str
    candidate: Candidate | None
    why: Rule = ""
    is_slow: bool = False

    @property
    def is_tried(self) -> bool:
        """Returns False for one that no candidate of this search is."""
        return self.why != NOT_TRIED


_OF_MODELS = {
    ("data",): "data",
    ("fsdp",): "fsdp",
    ("tensor",): "tensor",
    ("fsdp", "tensor"): "fsdp x tensor",
}
_SLOW: tuple[Reason, ...] = ("lower bound above the best", "estimate far above the best")
NOT_TRIED = StoredFact(kind="not tried here")
PIPELINE = "pipeline"
AS_EXPORTED = "as exported"  # the shardings that a program's file has
_OF_ARRAYS = (AS_EXPORTED, "data", "fsdp", "tensor", "mixed")


def kind_of(candidate: Candidate) -> str:
    """Which standard sharding a candidate is; "" for none of them."""
    if candidate.point is not None:
        return candidate.point.kind
    return kind_of_mesh(_mesh_of(candidate))


def kind_of_mesh(mesh: Mesh) -> str:
    """Which standard sharding a plan on this mesh is; "" for none of them.

    >>> kind_of_mesh((("fsdp", 8), ("tensor", 2))), kind_of_mesh((("sequence", 2),))
    ('fsdp x tensor', '')
    """
    names = tuple(name for name, size in mesh if size > 1)
    return PIPELINE if STAGE in names else _OF_MODELS.get(names, "")


def standards(
    entries: Iterable[Ranked], pruned: Iterable[Candidate], model: str, winner: Candidate
) -> list[StandardSharding]:
    """The best of each on the winner's topology, and the published recipe where there is one."""
    target = winner.target
    ranked = [each.candidate for each in entries if each.candidate.target == target]
    ruled = [each for each in pruned if each.target == target]
    if winner.step is None:
        best = [_best(title, ranked, ruled) for title in _OF_ARRAYS]
        return [each for each in best if each.candidate or each.why]
    best = [_best(title, ranked, ruled) for title in _OF_MODELS.values()]
    pipeline = _best(PIPELINE, ranked, ruled)
    best += [pipeline] if pipeline.candidate or pipeline.why else []
    published = _published(model, winner, ranked, ruled)
    return [*best, *([published] if published else [])]


def _best(title: str, ranked: list[Candidate], pruned: list[Candidate]) -> StandardSharding:
    best = next((each for each in ranked if kind_of(each) == title), None)
    if best is not None:
        return StandardSharding(title, best)
    ruled = [each for each in pruned if each.equal is None and kind_of(each) == title]
    # a batch that does not divide over the shards makes no plan, and has no bytes
    first = min(
        ruled,
        key=lambda each: (each.memory_bytes is None, each.memory_bytes or 0),
        default=None,
    )
    slow = next((each for each in ruled if each.reason in _SLOW), None)  # of those some may run
    if slow is not None:
        return StandardSharding(title, None, slow.detail, is_slow=True)
    return StandardSharding(title, None, first.detail if first else "")


def _mesh_of(candidate: Candidate) -> Mesh:
    """A plan's mesh; of one that divides nothing, and so is no plan, what its name begins with."""
    if candidate.step is not None:
        return candidate.step.of_mesh.mesh
    pairs = [part.partition("=") for part in candidate.name.partition(" · ")[0].split(",")]
    return tuple((name, int(size)) for name, _, size in pairs if size.isdigit())


def _published(
    model: str, winner: Candidate, ranked: list[Candidate], pruned: list[Candidate]
) -> StandardSharding | None:
    topology = get_topology(winner.target)
    recipe = recipe_for(model, topology)
    if recipe is None:
        return None
    title = "MaxText's recipe"
    if recipe.target != topology.target:
        title += f" of {recipe.target.removeprefix('tpu:')}, on these chips"
    wanted = recipe.policy
    alike = [
        each
        for each in (*ranked, *pruned)
        if (step := each.step) is not None
        and is_published(model, step.of_mesh)
        and step.policy.remat == wanted["remat"]
        and set(step.policy.save) == set(wanted["save"])
        and set(step.policy.offload) == set(wanted["offload"])
    ]
    if not alike:
        return StandardSharding(title, None, NOT_TRIED)
    first = alike[0]
    return StandardSharding(
        title, first if first.is_ranked else None, first.detail, first.reason in _SLOW
    )


@lru_cache(maxsize=64)
def _published_mesh(model: str, target: str) -> Mapping[str, int]:
    topology = get_topology(target)
    recipe = recipe_for(model, topology)
    return dict(recipe.mesh_on(topology)) if recipe else {}


def is_published(model: str, plan: Plan) -> bool:
    """Returns True for a plan on the mesh of a model's published recipe, of these chips or others."""
    mesh = {name: size for name, size in plan.mesh if size > 1}
    return mesh == _published_mesh(model, plan.target)


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

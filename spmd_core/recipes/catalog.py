"""The examples and problems by name, each with its description and its expected numbers."""

from collections.abc import Mapping
from functools import cache

from spmd_core.base import check_known
from spmd_core.experiment import Experiment
from spmd_core.recipes import (
    convolution,
    devices,
    dot_products,
    gradients,
    pmap_rules,
    problems,
    processes,
    randomness,
    tracing,
    tutorial,
    vmapping,
)
from spmd_core.recipes.recipe import Recipe
from spmd_core.results import Result

# In the order of the screen; a new group is a new module here.
_MODULES = (
    problems,  # researchers come for these; the others are the course
    devices,
    tutorial,
    dot_products,
    pmap_rules,
    convolution,
    tracing,
    vmapping,
    randomness,
    gradients,
    processes,
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for module in _MODULES for recipe in module.RECIPES
}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name; RequestError where there is none."""
    check_known("recipe", name, RECIPES, "does not exist")
    return RECIPES[name]


@cache
def _by_id() -> Mapping[str, Recipe]:
    return {recipe.experiment.id: recipe for recipe in RECIPES.values()}


def recipe_of(experiment: Experiment) -> Recipe | None:
    """The example whose experiment is equal to this one; None if there is none."""
    return _by_id().get(experiment.id)


def differences_of(result: Result) -> tuple[str, ...] | None:
    """The differences of a result from its example's expected numbers; None if it has no example,
    the example expects no numbers, or the result is partial.
    """
    recipe = None if result.partial else recipe_of(result.experiment)
    if recipe is None or recipe.claims is not None:
        return None
    return recipe.expected.differences(result)


# what is learned -> its groups; the last has those of none
LEVELS: dict[str, tuple[str, ...]] = {
    "Shard arrays": (
        "Data sharding",
        "Automatic parallelism with jit",
        "Between memory kinds",
        "Semi-automated sharding",
        "Manual parallelism with shard_map",
        "Comparing the approaches",
    ),
    "Plan large models": (problems.GROUP, "Many processes"),
    "pmap, vmap and tracing": (),
}
FEATURED = (  # the questions of a gallery, in order
    *("layout_2x4", "why_all_gather", "fits_70b", "network_gradient"),
    *("fsdp_or_tensor", "layer", "mixture_of_experts", "six_timings"),
)
START = 4  # of them, to begin with


def of_level(level: str) -> tuple[str, ...]:
    """Returns the groups of a level, in the order of the course."""
    taken = {group for each in LEVELS.values() for group in each}
    return LEVELS[level] or tuple(group for group in groups() if group not in taken)


def groups() -> dict[str, tuple[Recipe, ...]]:
    """Group -> its recipes, both in the order of the screen."""
    names = dict.fromkeys(recipe.group for recipe in RECIPES.values())
    return {
        name: tuple(recipe for recipe in RECIPES.values() if recipe.group == name) for name in names
    }

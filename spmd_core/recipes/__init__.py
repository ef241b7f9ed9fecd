"""The classic examples by name, each with its words and its expected numbers."""

from spmd_core.errors import refuse, shorten
from spmd_core.recipes import convolution, devices, dot_products, gradients, pmap_rules, processes, randomness, tracing, tutorial, vmapping
from spmd_core.recipes.recipe import Expected, Recipe

__all__ = ["RECIPES", "Expected", "Recipe", "get_recipe", "groups"]

# In the order of the course; a new group is a new module here.
_MODULES = (devices, tutorial, dot_products, pmap_rules, convolution, tracing, vmapping, randomness, gradients, processes)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for module in _MODULES for recipe in module.RECIPES}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name; RequestError where there is none."""
    if name not in RECIPES:
        raise refuse(f"recipe {shorten(name)}", "does not exist", f"use one of {', '.join(RECIPES)}")
    return RECIPES[name]


def groups() -> dict[str, tuple[Recipe, ...]]:
    """Group -> its recipes, both in the order of the screen."""
    names = dict.fromkeys(recipe.group for recipe in RECIPES.values())
    return {name: tuple(recipe for recipe in RECIPES.values() if recipe.group == name) for name in names}

"""The examples and problems by name, each with its description and its expected numbers."""

from spmd_core.recipes import problems, variations
from spmd_core.recipes.catalog import RECIPES, differences_of, get_recipe, groups, recipe_of
from spmd_core.recipes.recipe import Recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "differences_of",
    "get_recipe",
    "groups",
    "problems",
    "recipe_of",
    "variations",
]

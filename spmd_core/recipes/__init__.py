"""The examples and problems by name, each with its description and its expected numbers."""

from spmd_core.recipes import problems, variations
from spmd_core.recipes.catalog import (
    FEATURED,
    LEVELS,
    RECIPES,
    START,
    differences_of,
    get_recipe,
    groups,
    of_level,
    recipe_of,
)
from spmd_core.recipes.checked import checked
from spmd_core.recipes.recipe import Recipe

__all__ = [
    "FEATURED",
    "LEVELS",
    "RECIPES",
    "START",
    "Recipe",
    "checked",
    "differences_of",
    "get_recipe",
    "groups",
    "of_level",
    "problems",
    "recipe_of",
    "variations",
]

"""Small programs of the recipes: each file defines `program(mesh)`, which returns names with arrays or texts."""

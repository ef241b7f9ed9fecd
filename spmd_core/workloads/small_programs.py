"""Registered small programs: which there are, and their text with the mesh that they run on. Reads files, imports none."""

import ast
from functools import cache
from importlib import resources

_PROGRAMS = resources.files("spmd_core") / "programs" / "recipes"


@cache
def program_names() -> tuple[str, ...]:
    """Names of the registered small programs, in alphabetical order."""
    names = (entry.name for entry in _PROGRAMS.iterdir())
    return tuple(sorted(name.removesuffix(".py") for name in names if name.endswith(".py") and not name.startswith("_")))


@cache
def program_file(name: str) -> str:
    """The text of a registered program's file."""
    return (_PROGRAMS / f"{name}.py").read_text("utf-8")


def with_mesh(source: str, imports: str, mesh_lines: list[str]) -> str:
    """A program's text with the lines that make its mesh, after its imports; what both import is imported once."""
    tree = ast.parse(source)
    lines = source.splitlines()
    head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    docstring = lines[: tree.body[0].end_lineno] if ast.get_docstring(tree) else []
    after = max((node.end_lineno or 0 for node in head), default=len(docstring))
    return "\n".join([*docstring, "", *_merged([*ast.parse(imports).body, *head]), "", *mesh_lines, *lines[after:]]) + "\n"


def _merged(statements: list[ast.stmt]) -> list[str]:
    """Import lines, each name once, plain imports first."""
    plain, named = set(), {}
    for statement in statements:
        if isinstance(statement, ast.Import):
            plain |= {ast.unparse(ast.Import([alias])) for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            named.setdefault(statement.module, set()).update(ast.unparse(alias) for alias in statement.names)
    return [*sorted(plain), *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items()))]

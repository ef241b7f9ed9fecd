"""The import rules between the rooms of the house, and a checker that reads them from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Who may import what heavy library: path prefixes.
HEAVY = {
    "jax": ("spmd_core/engine/", "spmd_core/programs/"),
    "jaxlib": ("spmd_core/engine/", "spmd_core/programs/"),
    "libtpu": ("spmd_core/engine/",),
    "streamlit": ("app.py", "pages/", "ui/"),
    "sqlite3": ("spmd_core/store", "spmd_core/migrations"),
}
# Floors of the house, from the top; a file imports from its own floor or below.
FLOORS = (
    ("app.py", "pages/"),
    ("ui/",),
    ("spmd_core/__main__.py", "spmd_core/commands/"),
    ("spmd_core/lab.py",),
    ("spmd_core/worker/",),
    ("spmd_core/engine/", "spmd_core/store", "spmd_core/migrations"),
    ("spmd_core/",),
)
# Rooms that run jax: only the worker's own process, and they themselves, may import them.
JAX_ROOMS = ("spmd_core.engine", "spmd_core.programs")
MAY_IMPORT_JAX_ROOMS = ("spmd_core/engine/", "spmd_core/programs/", "spmd_core/worker/__main__.py")


def source_files(root: Path = ROOT) -> list[Path]:
    """Every Python file that the rules are about."""
    rooms = [root / "app.py", *(path for room in ("pages", "ui", "spmd_core") for path in (root / room).rglob("*.py"))]
    return sorted(path for path in rooms if path.exists() and "__pycache__" not in path.parts)


def imports(source: str, package: str = "") -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a source imports, inside functions and conditions too; `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _called(node.func) in ("__import__", "import_module") and node.args:
            name = node.args[0]
            yield node.lineno, str(name.value) if isinstance(name, ast.Constant) else "a computed name"


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def broken_rules(path: str, source: str) -> list[str]:
    """A sentence for each import of a file (path relative to the root) that the rules forbid."""
    package = ".".join(Path(path).parent.parts)
    found = []
    for line, name in imports(source, package):
        for library, rooms in HEAVY.items():
            if (name == library or name.startswith(f"{library}.")) and not path.startswith(rooms):
                found.append(f"{path}:{line} imports {name}; only {', '.join(rooms)} may")
        if name == "a computed name":
            found.append(f"{path}:{line} imports a computed name, which cannot be checked")
        if name.startswith(JAX_ROOMS) and not path.startswith(MAY_IMPORT_JAX_ROOMS):
            found.append(f"{path}:{line} imports {name}, which loads jax; only {', '.join(MAY_IMPORT_JAX_ROOMS)} may")
        if (floor := _floor(name.replace(".", "/"))) is not None and floor < (_floor(path) or 0):
            found.append(f"{path}:{line} imports {name}, a floor above it")
        if name == "*" or name.endswith(".*"):
            found.append(f"{path}:{line} imports everything of {name[:-2]}")
        if name.startswith("spmd_core.lab") and path.startswith(("app.py", "pages/", "ui/")) and path != "ui/lab.py":
            found.append(f"{path}:{line} imports {name}; only ui/lab.py may")
    return found


def _floor(path: str) -> int | None:
    """The number of a file's or module's floor, from the top; None where it is none of ours."""
    for number, rooms in enumerate(FLOORS):
        for room in rooms:
            stem = room.removesuffix(".py")
            if path == room or path == stem.rstrip("/") or path.startswith((room, f"{stem.rstrip('/')}/")) or (
                not room.endswith(("/", ".py")) and path.startswith(room)
            ):
                return number
    return None

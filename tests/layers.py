"""The import rules between the rooms of the house, and a checker that reads them from the source."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Who may import what heavy library: path prefixes.
HEAVY = {
    "jax": ("spmd_core/engine/", "spmd_core/script/programs/"),
    "jaxlib": ("spmd_core/engine/", "spmd_core/script/programs/"),
    "libtpu": ("spmd_core/engine/",),
    "streamlit": ("app.py", "home.py", "pages/", "spmd_lab/ui/"),
    "sqlite3": ("spmd_core/lab/store/",),
    # what it receives it unpickles: never in the lab's process
    "distributed": tuple(
        f"spmd_core/lab/cluster/{name}.py" for name in ("client", "connection", "remote")
    ),
}
# The wings of the house, from the bottom: a wing imports only from wings below it, and of those
# only what their `__init__` names in `__all__`.
FLOORS = (
    ("base",),
    ("machine",),
    ("fields",),
    ("plan",),
    ("workloads",),
    ("experiment",),
    ("facts",),
    ("results",),
    ("reference",),
    ("runs",),
    ("program",),
    ("script",),
    ("time",),
    ("roofline",),
    ("pictures",),
    ("engine",),
    ("worker",),
    ("search",),
    ("sweeps",),
    ("terms",),
    ("words",),
    ("advice",),
    ("surveys",),
    ("history",),
    ("sheets",),
    ("answers",),
    ("recipes",),
    ("reports",),
    ("lab",),
    ("trials",),
    ("own",),
    ("commands",),
    ("ui",),
    ("pages",),
    ("app",),
)
# Modules that must be where they are, and the wing that each is the door of: `python -m spmd_core`,
# what a user's file imports, and the screen that Streamlit starts with.
DOORS = {"__main__": "commands", "declare": "workloads", "home": "pages"}
# The rooms of `ui`, from the bottom, by the same rule.
UI_FLOORS = (
    ("entrance", "lab", "markdown", "state", "style", "choices"),
    (
        "charts",
        "tables",
        "run_tables",
        "inputs",
        "forms",
        "mesh_fields",
        "links",
        "cards",
        "exports",
        "price",
    ),
    ("arrows", "course", "hardware", "ir", "next_step", "timeline"),
    ("shell",),
    ("live", "remedies", "notebook"),
    ("layout",),
    ("predict",),
    ("serving",),
    ("compare", "collectives"),
    ("search",),
    ("programs",),
    ("history",),
)
# What stores and works runs keeps facts: sentences are made where these are read
WORDLESS = ("spmd_core/lab/store/", "spmd_core/lab/supervisor/", "spmd_core/lab/cluster/")
# What runs jax: only the worker's own process may import it, and that of who explains a step.
JAX_ROOMS = ("spmd_core.engine", "spmd_core.script.programs")
MAY_IMPORT_JAX_ROOMS = (
    "spmd_core/engine/",
    "spmd_core/script/programs/",
    "spmd_core/worker/__main__.py",
    "spmd_core/worker/partitioning.py",
    # A step is traced where it is: the caller's process has JAX, and his devices. Nothing of ours
    # is imported there that another process does not need: JAX's rooms load in the call.
    "spmd_core/own/explaining.py",
)


def source_files(root: Path = ROOT) -> list[Path]:
    """Every Python file that the rules are about."""
    rooms = [
        root / "app.py",
        root / "home.py",
        *(
            path
            for room in ("pages", "spmd_lab", "spmd_core")
            for path in (root / room).rglob("*.py")
        ),
    ]
    return sorted(path for path in rooms if path.exists() and "__pycache__" not in path.parts)


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a source, which several tests read: none may change it."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """The nodes of its syntax tree: a walk takes longer than what is looked for."""
    return tuple(ast.walk(parsed(source)))


@cache
def imports(source: str, package: str = "") -> tuple[tuple[int, str], ...]:
    """Line and full name of every module that a source imports, inside functions and conditions
    too; `from a import b` gives a.b.
    """
    return tuple(_imports(source, package))


def _imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif (
            isinstance(node, ast.Call)
            and _called(node.func) in ("__import__", "import_module")
            and node.args
        ):
            name = node.args[0]
            yield (
                node.lineno,
                str(name.value) if isinstance(name, ast.Constant) else "a computed name",
            )


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def broken_rules(path: str, source: str) -> list[str]:
    """A sentence for each import of a file (path relative to the root) that the rules forbid."""
    package = ".".join(Path(path).parent.parts)
    own = ".".join(Path(path).with_suffix("").parts)
    found = []
    for line, name in imports(source, package):
        for library, rooms in HEAVY.items():
            if (name == library or name.startswith(f"{library}.")) and not path.startswith(rooms):
                found.append(f"{path}:{line} imports {name}; only {', '.join(rooms)} may")
        if name == "a computed name":
            found.append(f"{path}:{line} imports a computed name, which cannot be checked")
        if name.startswith(JAX_ROOMS) and not path.startswith(MAY_IMPORT_JAX_ROOMS):
            found.append(
                f"{path}:{line} imports {name}, which loads jax; only "
                f"{', '.join(MAY_IMPORT_JAX_ROOMS)} may"
            )
        if path.startswith(WORDLESS) and room_of(name) == "words":
            found.append(f"{path}:{line} imports {name}; facts are stored, and no sentences")
        for floor in (_floor, _ui_floor):
            mine, other = floor(own), floor(name)
            if mine is not None and other is not None and other > mine:
                found.append(f"{path}:{line} imports {name}, a floor above it")
        if room_of(own) != room_of(name) and past_face(name):
            found.append(f"{path}:{line} imports {name}, past the face of {room_of(name)}")
        if name == "*" or name.endswith(".*"):
            found.append(f"{path}:{line} imports everything of {name[:-2]}")
        if (
            name.startswith("spmd_core.lab")
            and path.startswith(("app.py", "home.py", "pages/", "spmd_lab/ui/"))
            and path != "spmd_lab/ui/lab.py"
        ):
            found.append(f"{path}:{line} imports {name}; only spmd_lab/ui/lab.py may")
    return found


@cache
def face(package: str) -> frozenset[str]:
    """What the `__init__` of a package names in `__all__`; nothing where it is a module, or has none."""
    init = ROOT.joinpath(*package.split("."), "__init__.py")
    if not init.exists():
        return frozenset()
    for node in ast.parse(init.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def past_face(name: str) -> bool:
    """Whether a full name of `spmd_core` is something that its wing does not offer.

    >>> past_face("spmd_core.experiment.Experiment"), past_face("spmd_core.experiment.link.decode")
    (False, True)
    """
    first, *inside = name.split(".")
    if first != "spmd_core" or len(inside) < 2:
        return False
    packages = (".".join((first, *inside[:depth])) for depth in range(1, len(inside)))
    return any(
        part not in face(package) for package, part in zip(packages, inside[1:], strict=False)
    )


def room_of(module: str) -> str | None:
    """The room of a module or name, such as `experiment`, `ui` or `app`; None where it is none of
    ours.

    >>> room_of("spmd_core.program.hlo.text.parse_module"), room_of("pages.compare"), room_of("numpy")
    ('hlo', 'pages', None)
    """
    first, _, rest = module.partition(".")
    if first == "spmd_core":
        inside = rest.partition(".")[0]
        return DOORS.get(inside, inside) or None
    if first == "spmd_lab":
        return rest.partition(".")[0] or None
    return DOORS.get(first, first) if first in ("pages", "home", "app") else None


def _floor(module: str) -> int | None:
    """The number of a module's floor, from the bottom; None where it is none of ours."""
    room = room_of(module)
    return next((number for number, rooms in enumerate(FLOORS) if room in rooms), None)


def _ui_floor(module: str) -> int | None:
    """The number of the floor of a module of `ui`, from the bottom; None where it is none of these."""
    _, inside, rest = module.partition("spmd_lab.ui.")
    room = rest.partition(".")[0]
    return next(
        (number for number, rooms in enumerate(UI_FLOORS) if inside and room in rooms), None
    )


def ui_rooms(root: Path = ROOT) -> set[str]:
    """The rooms of `ui`: its folders and files."""
    return _inside(root / "spmd_lab/ui")


def rooms(root: Path = ROOT) -> set[str]:
    """The rooms that there are: folders and files of `spmd_core` but for doors, and `ui`, `pages`, `app`."""
    return (_inside(root / "spmd_core") - set(DOORS)) | {"ui", "pages", "app"}


def _inside(folder: Path) -> set[str]:
    inside = {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    return inside - {"__init__"}


def circles(root: Path = ROOT) -> list[list[str]]:
    """Groups of modules that import one another in a circle, imports inside functions included."""
    return _in_circles(_graph(root))


def circles_of_siblings(root: Path = ROOT) -> list[list[str]]:
    """Groups of modules and folders of one folder that import one another in a circle: through any
    module inside of them.
    """
    graphs: dict[str, dict[str, set[str]]] = {}
    for module, named in _graph(root).items():
        for other in named:
            parts, others = module.split("."), other.split(".")
            same = (one == another for one, another in zip(parts, others, strict=False))
            depth = len(list(takewhile(bool, same)))
            if depth < min(len(parts), len(others)):  # a folder's own `__init__` is no sibling
                graph = graphs.setdefault(".".join(parts[:depth]), {})
                one, another = (".".join(each[: depth + 1]) for each in (parts, others))
                graph.setdefault(one, set()).add(another)
                graph.setdefault(another, set())
    return sorted(group for graph in graphs.values() for group in _in_circles(graph))


def _graph(root: Path) -> dict[str, set[str]]:
    """Each module of the program with those that it imports."""
    modules = {_module(path.relative_to(root)): path for path in source_files(root)}
    graph = {}
    for module, path in modules.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        named = {_known(name, modules) for _, name in imports(path.read_text("utf-8"), package)}
        graph[module] = {name for name in named if name and name != module}
    return graph


def _in_circles(graph: dict[str, set[str]]) -> list[list[str]]:
    reached = {name: _reachable(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(list(group) for group in groups)


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _known(name: str, modules: dict[str, Path]) -> str | None:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def _reachable(module: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[module])
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += graph[at]
    return found

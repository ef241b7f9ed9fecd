"""The functions of a workload as text: those of its program file that a strategy needs, with the
experiment's constants filled in.
"""

import ast
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

from spmd_core.base import parsed
from spmd_core.experiment import Experiment
from spmd_core.fields import Axes, Spec
from spmd_core.script.parts import named
from spmd_core.workloads import SEQUENCE_STRATEGIES, Array, Workload, files

# Suffix of a strategy's function after the workload's name, "" if not listed. A file without such a
# function uses the plain one.
_FUNCTION = {
    "shard_map": "_shards",
    "explicit": "_explicit",
    "one": "_one",
    **{name: f"_{name}" for name in SEQUENCE_STRATEGIES},
}


# imported at the head of every program
_HEADER = ("import jax", "import jax.numpy as jnp", "import numpy as np")


@cache
def program_source(workload: str) -> str:
    """The file of a workload under `programs/`, as text, after the files beside it that it imports."""
    text = (
        resources.files("spmd_core.script.programs").joinpath(f"{workload}.py").read_text("utf-8")
    )
    modules = [node.module or "" for node in parsed(text).body if isinstance(node, ast.ImportFrom)]
    return "\n".join(
        [
            *(
                program_source(name.rpartition(".")[2])
                for name in modules
                if name.startswith("spmd_core.script.programs.")
            ),
            text,
        ]
    )


def source_of(what: Workload) -> str:
    """The program file of a workload of the lab, as text."""
    return program_source(what.program.file or what.name)


def computation_lines(
    experiment: Experiment, strategy: str, axes_of: Mapping[str, Axes] | None = None
) -> tuple[list[str], str]:
    """The function of a workload for a strategy, with the functions and constants that it uses; and
    the function's name.

    `axes_of` returns the mesh axes that shard a dim; by default those of the sharding table.
    """
    what = experiment.what
    wanted = what.program.function or what.name
    table = dict(experiment.sharding) if axes_of is None else axes_of
    values = constants(experiment, table)
    own = wanted + _FUNCTION.get(strategy, "")
    if what.source is not None:
        text = files.source_text(what.source)
        return own_lines(text, values), _function(text, own, wanted)
    source = source_of(what)
    return select_source(source, _function(source, own, wanted), values)


def constants(experiment: Experiment, table: Mapping[str, Axes]) -> dict[str, str]:
    """Values of a program file's constants in capitals, as Python text.

    `SUM_DTYPE` is the dtype of partial sums, which are added before they are rounded to a narrower
    one; None: the operands'. `CONTRACTED_AXES` and `CONTRACTED_DIMS` are the mesh axes of the dims
    that are summed over, and their positions in the first operand; `BATCH_AXES` the axes of dim
    `batch`; `Y_SHARDING` the sharding of the array `y`.
    """
    what = experiment.what
    values = {name: repr(value) for name, value in what.program.constants.items()}
    values["SUM_DTYPE"] = "jnp.float32" if experiment.dtype in ("bfloat16", "float16") else "None"
    if what.uses_precision:
        chosen = experiment.option("precision")
        values["PRECISION"] = "None" if chosen == "default" else repr(chosen)
    values["CONTRACTED_AXES"] = repr(
        tuple(dict.fromkeys(axis for dim in what.contracted for axis in table.get(dim, ())))
    )
    present = what.operands[0].present(experiment.sizes)
    values["CONTRACTED_DIMS"] = repr(
        tuple(position for position, dim in enumerate(present) if dim in what.contracted)
    )
    values |= {f"{dim.upper()}_AXES": repr(table.get(dim, ())) for dim in what.dims}
    shardings = {
        array.name.upper(): named(table_spec(array, experiment, table))
        for array in (*what.arrays, *what.program.between)
    }
    return values | {
        f"{name}_SHARDING": text
        for name, text in ({"RESULT": shardings[what.results[0].name.upper()]} | shardings).items()
    }


def table_spec(array: Array, experiment: Experiment, table: Mapping[str, Axes]) -> Spec:
    """The spec of an array by a table of dims."""
    return tuple(array.axes(dim, table) for dim in array.present(experiment.sizes))


def _function(source: str, wanted: str, otherwise: str) -> str:
    return wanted if wanted in definitions(source) else otherwise


@cache
def definitions(source: str) -> Mapping[str, ast.stmt]:
    """The functions, classes and constants of a program file, by name."""
    nodes: dict[str, ast.stmt] = {}
    for node in parsed(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            nodes[node.targets[0].id] = node
    return nodes


def select_source(source: str, wanted: str, constants: Mapping[str, str]) -> tuple[list[str], str]:
    """Lines of the function `wanted` of a program file (an alias is followed) and of what it uses;
    and its real name.
    """
    nodes = definitions(source)
    alias = nodes[wanted]
    if isinstance(alias, ast.Assign) and isinstance(alias.value, ast.Name):
        wanted = alias.value.id
    needed, text = _needed(source, wanted), source.splitlines()
    lines: list[str] = []
    for name, node in nodes.items():
        if name not in needed:
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines += ["", *text[first - 1 : node.end_lineno], ""]
        elif name in constants:
            lines.append(f"{name} = {constants[name]}")
        else:
            lines += text[node.lineno - 1 : node.end_lineno]
    return lines, wanted


@lru_cache(maxsize=256)
def _needed(source: str, wanted: str) -> frozenset[str]:
    """Returns the name of a definition and all names below it."""
    nodes = definitions(source)
    needed, queue = {wanted}, [wanted]
    while queue:
        used = {
            node.id for node in ast.walk(nodes[queue.pop()]) if isinstance(node, ast.Name)
        } & nodes.keys() - needed
        needed |= used
        queue += used
    return frozenset(needed)


def own_lines(source: str, constants: Mapping[str, str]) -> list[str]:
    """A user's file without its workload declarations and with the constants filled in: plain JAX."""
    lines: list[str | None] = list(source.splitlines())

    def drop(node: ast.stmt | ast.expr, first: int) -> None:
        lines[first - 1 : node.end_lineno] = [None] * ((node.end_lineno or first) - first + 1)

    for node in parsed(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom) and (
            ast.unparse(node) in _HEADER or _package(node) in ("spmd_core", "__future__")
        ):
            drop(node, node.lineno)
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if (
                    isinstance(decorator, ast.Call)
                    and ast.unparse(decorator.func).rpartition(".")[2] == "workload"
                ):
                    drop(decorator, decorator.lineno)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in constants
        ):
            drop(node, node.lineno)
            lines[node.lineno - 1] = f"{node.targets[0].id} = {constants[node.targets[0].id]}"
    return ["", *(line for line in lines if line is not None)]


def _package(node: ast.Import | ast.ImportFrom) -> str:
    return (
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
    ).partition(".")[0]

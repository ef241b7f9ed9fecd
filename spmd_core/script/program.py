"""Plain-JAX program texts of an experiment. The worker runs the same text that is shown and
exported.
"""

import ast

from spmd_core.base import Inexpressible, parsed
from spmd_core.experiment import Experiment
from spmd_core.script.bodies import body_text, sharded_operands
from spmd_core.script.decoder import decoder_text, serving_text
from spmd_core.script.parts import merged_imports, mesh_lines, spaced, values_text
from spmd_core.script.source import select_source, source_of
from spmd_core.workloads import STRATEGIES, chosen_axes, chosen_kinds, ladder, with_sizes


def program_text(experiment: Experiment, strategy: str) -> str:
    """A module that defines `make_operands()`, `placed` (operand -> sharding, None: unsharded) and
    `program`.

    Of a registered small program: a module that defines `mesh` and `program`; of a model's step:
    `mesh` and `lower`.
    Raises Inexpressible where the strategy cannot express the experiment's sharding.
    """
    if experiment.plan:
        return decoder_text(experiment.plan)
    if experiment.served:
        return serving_text(experiment.served)
    if strategy == "as_written":
        return written_text(experiment)
    if experiment.exported:
        lines = [
            header(experiment, strategy),
            *mesh_lines(experiment),
            *sharded_operands(experiment),
        ]
        return "\n".join(spaced("\n".join(lines).splitlines())) + "\n"
    parts = [
        header(experiment, strategy),
        operands_text(experiment),
        body_text(experiment, strategy),
    ]
    return "\n".join(spaced("\n".join(parts).splitlines())) + "\n"


def header(experiment: Experiment, *strategies: str) -> str:
    """The imports that the bodies of these strategies need."""
    uses_mesh = any(not STRATEGIES[name].is_single_device for name in strategies)
    sharding_names = {"NamedSharding", "PartitionSpec as P", "AxisType"} if uses_mesh else set()
    if any(STRATEGIES[name].is_single_device for name in strategies):
        sharding_names.add("SingleDeviceSharding")
    by_hand = uses_mesh and (
        experiment.place.is_absent or experiment.option("device_order") == "plain"
    )
    if by_hand:
        sharding_names.add("Mesh")
    placing = (
        ["from jax.experimental import mesh_utils"]
        if by_hand and experiment.option("device_order") != "plain"
        else []
    )
    partial = (
        ["from functools import partial", ""]
        if any(_uses_partial(experiment, strategy) for strategy in strategies)
        else []
    )
    return "\n".join(
        [
            *partial,
            "import jax",
            "import jax.numpy as jnp",
            "import numpy as np",
            *placing,
            f"from jax.sharding import {', '.join(sorted(sharding_names))}",
            "",
        ]
    )


def _uses_partial(experiment: Experiment, strategy: str) -> bool:
    if experiment.exported:
        return False
    try:
        return "@partial(" in body_text(experiment, strategy)
    except Inexpressible:
        return False


def operands_text(experiment: Experiment) -> str:
    """`make_operands()`: drawn in order in float64, then cast."""
    kinds = dict(experiment.data)
    derived = [
        (name, function, of)
        for name, function, of in experiment.what.program.derived
        if kinds.get(name, "normal") == "normal"
    ]
    lines = [
        line
        for _, function, _ in derived
        for line in select_source(source_of(experiment.what), function, {})[0]
    ]
    lines += [
        "",
        "def make_operands():",
        f'    """Operand name -> array; every device sees the same draw of seed {experiment.seed}."""',
        f"    dtype = jnp.dtype({experiment.dtype!r})",
    ]
    if any(kinds.get(array.name, "normal") == "normal" for array in experiment.what.operands):
        lines.append(f"    rng = np.random.default_rng({experiment.seed})")
    lines.append("    operands = {" if derived else "    return {")
    for array in experiment.what.operands:
        kind = kinds.get(array.name, "normal")
        value = values_text(kind, experiment.shape(array.name))
        lines.append(f"        {array.name!r}: {value}{'' if derived else '.astype(dtype)'},")
    lines.append("    }")
    for name, function, of in derived:
        lines.append(
            f"    operands[{name!r}] = {function}({', '.join(f'operands[{each!r}]' for each in of)})"
        )
    if derived:
        lines.append("    return {name: value.astype(dtype) for name, value in operands.items()}")
    return "\n".join([*lines, ""])


def written_text(experiment: Experiment) -> str:
    """The file with the lines that make the experiment's mesh after its imports: it defines `mesh`
    and `program(mesh)`.
    """
    of_machine = experiment.what.is_of_machine
    source = (
        source_of(experiment.what)
        if of_machine
        else with_sizes(experiment.option("program"), dict(experiment.options))
    )
    text = with_mesh(source, _mesh_imports(experiment), mesh_lines(experiment))
    if not of_machine:
        return text
    return f"{text.rstrip()}\n\n\n" + "\n".join(_machine_call(experiment)) + "\n"


def _mesh_imports(experiment: Experiment) -> str:
    if experiment.option("device_order") != "plain":
        return "import jax\nfrom jax.sharding import AxisType"
    return "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh"


def _machine_call(experiment: Experiment) -> list[str]:
    if not experiment.what.has_formula:
        return [
            "def program(mesh):",
            '    """Every ceiling, by its name."""',
            "    return ceilings(mesh)",
        ]
    options = dict(experiment.options)
    groups = chosen_axes(options, experiment.mesh)
    return [
        "def program(mesh):",
        '    """Every point, by its name."""',
        f"    return sweep(mesh, {chosen_kinds(options)}, {groups}, {ladder(options)}, "
        f"{experiment.dtype!r})",
    ]


def with_mesh(source: str, imports: str, mesh_lines: list[str]) -> str:
    """A program's text with the lines that make its mesh, after its imports; what both import is
    imported once.
    """
    tree = parsed(source)
    lines = source.splitlines()
    head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    docstring = lines[: tree.body[0].end_lineno] if ast.get_docstring(tree) else []
    after = max((node.end_lineno or 0 for node in head), default=len(docstring))
    return (
        "\n".join(
            [
                *docstring,
                "",
                *merged_imports([*parsed(imports).body, *head]),
                "",
                *mesh_lines,
                *lines[after:],
            ]
        )
        + "\n"
    )

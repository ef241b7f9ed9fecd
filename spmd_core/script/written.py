"""Program texts that are unmodified files: registered small programs, and those that measure a
machine.
"""

from spmd_core.experiment import (
    Experiment,
    chosen_axes,
    chosen_kinds,
    ladder,
    program_file,
    with_mesh,
    with_sizes,
)
from spmd_core.script.parts import mesh_lines
from spmd_core.script.source import source_of


def written_text(experiment: Experiment) -> str:
    """The file with the lines that make the experiment's mesh after its imports: it defines `mesh`
    and `program(mesh)`.
    """
    of_machine = experiment.what.is_of_machine
    source = (
        source_of(experiment.what)
        if of_machine
        else with_sizes(program_file(experiment.option("program")), dict(experiment.options))
    )
    text = with_mesh(source, _mesh_imports(experiment), mesh_lines(experiment))
    if not of_machine:
        return text
    return f"{text.rstrip()}\n\n\n" + "\n".join(_machine_call(experiment)) + "\n"


def _mesh_imports(experiment: Experiment) -> str:
    """The imports of the lines that make the mesh."""
    if experiment.option("device_order") != "plain":
        return "import jax\nfrom jax.sharding import AxisType"
    return "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh"


def _machine_call(experiment: Experiment) -> list[str]:
    """`program(mesh)` of a text that measures a machine."""
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

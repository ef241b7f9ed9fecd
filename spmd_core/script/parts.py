"""The pieces that generated programs share: imports, meshes, specs and shardings as JAX writes them."""

import ast
import math
from collections.abc import Iterable

from spmd_core.base import refuse
from spmd_core.experiment import Experiment, spec_code
from spmd_core.fields import Axes, Spec
from spmd_core.machine import Topology, get_topology, split_over_slices

_STARTS = ("def ", "class ", "@")


def spaced(lines: Iterable[str]) -> list[str]:
    """Puts two blank lines around top-level definitions, at most one elsewhere and none at the
    start; leaves the inside of definitions unchanged.
    """
    spaced_lines: list[str] = []
    blanks, inside, decorated = 0, False, False
    for line in lines:
        if not line.strip():
            blanks += 1
            continue
        at_top = not line.startswith((" ", ")", "]", "}", "#"))
        starts = at_top and line.startswith(_STARTS)
        if not spaced_lines:
            blanks = 0
        elif at_top and not decorated and (starts or inside):
            blanks = 2
        elif at_top:
            blanks = min(blanks, 1)
        spaced_lines += [""] * (0 if decorated else blanks) + [line]
        inside = starts or (inside and not at_top)
        decorated = starts and line.startswith("@")
        blanks = 0
    return spaced_lines


def mesh_lines(experiment: Experiment, axis_type: str = "Auto") -> list[str]:
    """The lines that make `mesh` over the first devices, in the experiment's device order."""
    shape = tuple(size for _, size in experiment.mesh)
    names = tuple(name for name, _ in experiment.mesh)
    types = f"(AxisType.{axis_type},) * {len(names)}"
    devices = f"jax.devices()[:{experiment.device_count}]"
    if experiment.option("device_order") == "plain":
        return [f"mesh = Mesh(np.array({devices}).reshape({shape}), {names}, axis_types={types})"]
    if experiment.place.is_absent and not experiment.place.is_gpu:
        return [
            f"mesh = Mesh({placed_devices(shape, get_topology(experiment.target), devices)}, "
            f"{names}, axis_types={types})"
        ]
    return [f"mesh = jax.make_mesh({shape}, {names}, axis_types={types}, devices={devices})"]


def placed_devices(
    sizes: tuple[int, ...], topology: Topology, devices: str = "jax.devices()"
) -> str:
    """The array of a mesh's devices, placed by mesh_utils; slices outermost. `jax.make_mesh` splits
    no physical axis over two mesh axes and does not support slices. RequestError where the slices
    do not divide over the axes.
    """
    if topology.chip.is_gpu:
        return f"np.array({devices}).reshape({sizes})"
    count = math.prod(sizes)
    if topology.slices == 1 or count * topology.slices <= topology.devices:
        return f"mesh_utils.create_device_mesh({sizes}, {devices}, allow_split_physical_axes=True)"
    split = split_over_slices(sizes, topology.slices) if count == topology.devices else None
    if split is None:
        raise refuse(
            f"{topology.slices} slices",
            f"do not divide over mesh axes {list(sizes)}",
            f"fill all {topology.devices} devices, with an axis of {topology.slices} first",
        )
    return (
        f"mesh_utils.create_hybrid_device_mesh({split[0]}, {split[1]}, {devices}, "
        f"allow_split_physical_axes=True)"
    )


def entry_text(axes: Axes) -> str:
    """The entry of one dim in a spec."""
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else repr(axes)


def named(spec: Spec, memory: str = "device") -> str:
    """A NamedSharding over `mesh`."""
    kind = "" if memory == "device" else f", memory_kind={memory!r}"
    return f"NamedSharding(mesh, {spec_code(spec)}{kind})"


def array_text(experiment: Experiment) -> str:
    """The lines that shard one array, to be pasted: imports, mesh, sharding, placement. RequestError
    where the target's topology does not exist.
    """
    sharding = named(experiment.spec("array"), experiment.memory_kind("array"))
    kind = dict(experiment.data).get("array", "normal")
    rng = f"np.random.default_rng({experiment.seed})"
    values = values_text(kind, experiment.shape("array"), rng)
    lines = [
        *mesh_lines(experiment),
        f"sharding = {sharding}",
        f"array = jnp.asarray({values}, {experiment.dtype!r})",
        "array = jax.device_put(array, sharding)",
    ]
    code, head = "\n".join(lines), ["import jax", "import jax.numpy as jnp"]
    head += dict.fromkeys(line for name, line in _IMPORTED.items() if name in code)
    mesh = "Mesh, " * ("= Mesh(" in code)
    head += [f"from jax.sharding import AxisType, {mesh}NamedSharding, PartitionSpec as P", ""]
    if experiment.place.is_simulated:
        head += [f"jax.config.update('jax_num_cpu_devices', {experiment.device_count})"]
    return "\n".join([*head, code])


def values_text(kind: str, shape: tuple[int, ...], rng: str = "rng") -> str:
    """The NumPy expression of an operand's values, drawn of the generator `rng` where they are.

    >>> values_text("ones", (4, 8))
    'np.ones((4, 8))'
    """
    return {
        "normal": f"{rng}.normal(size={shape})",
        "arange": f"np.arange({math.prod(shape)}).reshape({shape})",
        "ones": f"np.ones({shape})",
    }[kind]


_IMPORTED = {
    "(np.": "import numpy as np",
    "np.array(": "import numpy as np",
    "mesh_utils.": "from jax.experimental import mesh_utils",
}


def placed_lines(entries: dict[str, str]) -> list[str]:
    """The lines of `placed`: operand name -> sharding."""
    return [
        "placed = {",
        *(f"    {name!r}: {sharding}," for name, sharding in entries.items()),
        "}",
    ]


def names(experiment: Experiment) -> str:
    """The operands as the parameters of a function."""
    return ", ".join(array.name for array in experiment.what.operands)


def move_lines(
    name: str, held: Spec, wanted: Spec, shape: tuple[int, ...], sizes: dict[str, int]
) -> list[str]:
    """Lines inside shard_map that reshard a shard from spec `held` to spec `wanted`: gathers first,
    then slices.
    """
    gathers, slices = [], []
    for dim, (have, want) in enumerate(zip(held, wanted, strict=True)):
        if have[: len(want)] == want:
            kept = want
        elif want[: len(have)] == have:
            kept = have
        else:
            kept = ()
        if gathered := have[len(kept) :]:
            gathers.append(
                f"    {name} = jax.lax.all_gather({name}, {entry_text(gathered)}, axis={dim}, tiled=True)"
            )
        if sliced := want[len(kept) :]:
            size = shape[dim] // math.prod(sizes[axis] for axis in want)
            slices.append(
                f"    {name} = jax.lax.dynamic_slice_in_dim({name}, {size} * jax.lax.axis_index({entry_text(sliced)}), {size}, axis={dim})"
            )
    return gathers + slices


def merged_imports(statements: Iterable[ast.stmt]) -> list[str]:
    """The import lines among these statements, each name once, plain imports first."""
    plain, named = set[str](), dict[str, set[str]]()
    for statement in statements:
        if isinstance(statement, ast.Import):
            plain |= {ast.unparse(ast.Import([alias])) for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            named.setdefault(statement.module or "", set()).update(
                ast.unparse(alias) for alias in statement.names
            )
    return [
        *sorted(plain),
        *(
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(named.items())
        ),
    ]

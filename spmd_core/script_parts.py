"""The pieces that generated programs share: meshes, specs and shardings as JAX writes them."""

from spmd_core.experiment import Axes, Experiment, Spec


def mesh_lines(experiment: Experiment, axis_type: str = "Auto") -> list[str]:
    """The lines that make `mesh` over the first devices, in the experiment's device order."""
    shape = tuple(size for _, size in experiment.mesh)
    names = tuple(name for name, _ in experiment.mesh)
    types = f"(AxisType.{axis_type},) * {len(names)}"
    devices = f"jax.devices()[:{experiment.device_count}]"
    if experiment.option("device_order") == "plain":
        return [f"mesh = Mesh(np.array({devices}).reshape({shape}), {names}, axis_types={types})"]
    return [f"mesh = jax.make_mesh({shape}, {names}, axis_types={types}, devices={devices})"]


def spec_text(spec: Spec) -> str:
    """A spec as JAX writes it, e.g. `P('x', None, ('y', 'z'))`."""
    return f"P({', '.join(entry_text(axes) for axes in spec)})"


def entry_text(axes: Axes) -> str:
    """The entry of one dim in a spec."""
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else repr(axes)


def named(spec: Spec, memory: str = "device") -> str:
    """A NamedSharding over `mesh`."""
    kind = "" if memory == "device" else f", memory_kind={memory!r}"
    return f"NamedSharding(mesh, {spec_text(spec)}{kind})"


def placed_lines(entries: dict[str, str]) -> list[str]:
    """The lines of `placed`: operand name -> sharding."""
    return ["placed = {", *(f"    {name!r}: {sharding}," for name, sharding in entries.items()), "}"]


def names(experiment: Experiment) -> str:
    """The operands as the parameters of a function."""
    return ", ".join(array.name for array in experiment.what.operands)

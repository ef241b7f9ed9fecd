"""Programs that map a function over one dim: vmap, pmap and their combinations with jit."""

from spmd_core.base import Inexpressible
from spmd_core.experiment import AXIS_NAME, Experiment, MapPlan, read_plan
from spmd_core.script.parts import mesh_lines, named, placed_lines
from spmd_core.script.source import computation_lines
from spmd_core.workloads import STRATEGIES


def map_lines(experiment: Experiment, strategy: str) -> list[str]:
    """The body of a program for a strategy that maps. Inexpressible where it cannot express the
    experiment.
    """
    plan = read_plan(experiment, strategy)
    _check(experiment, plan)
    axes_of = {plan.dim: (AXIS_NAME,)} if plan.blocks else {}
    lines, function = computation_lines(experiment, "shard_map" if plan.blocks else "one", axes_of)
    one_device = STRATEGIES[strategy].is_single_device
    place = (
        ["", "device = jax.devices()[0]"]
        if one_device
        else ["", *mesh_lines(experiment), "devices = list(mesh.devices.flat)"]
    )
    placed = {
        array.name: "SingleDeviceSharding(device)"
        if one_device
        else named(() if axis is None else (((),) * axis) + (_all_axes(experiment),))
        for array, axis in zip(experiment.what.operands, plan.in_axes, strict=True)
    }
    return [
        *place,
        *placed_lines(placed),
        *lines,
        *_arrange_lines(experiment, plan),
        "",
        *_program_lines(plan, function),
    ]


def _check(experiment: Experiment, plan: MapPlan) -> None:
    what, strategy, dim = experiment.what, plan.strategy, plan.dim
    if any(experiment.memory_kind(array.name) != "device" for array in what.arrays):
        raise Inexpressible(
            f"{strategy} cannot express memory kinds; leave all operands and results in "
            f"device memory"
        )
    if what.program.halo and dim == what.program.halo[0]:
        raise Inexpressible(
            f"{strategy} cannot map {dim} of {what.name}: each of its elements needs its "
            f"neighbors; map another dim with in_axes"
        )
    if plan.blocks and strategy == "pmap(vmap)":
        raise Inexpressible(
            f"pmap(vmap) cannot map {dim} of {what.name}: it is added up, within a device and "
            f"over devices; use pmap"
        )
    if plan.splits and plan.size % plan.devices:
        raise Inexpressible(
            f"{strategy} cannot split {dim}={plan.size} over {plan.devices} devices; use a "
            f"multiple of {plan.devices}"
        )
    if STRATEGIES[strategy].is_single_device:
        return
    if not plan.splits and plan.size != plan.devices:
        raise Inexpressible(_wrong_count(plan))
    _check_sharding(experiment, plan)


def _wrong_count(plan: MapPlan) -> str:
    strategy, dim, size, devices = plan.strategy, plan.dim, plan.size, plan.devices
    if size > devices:
        other = ", or pmap(vmap), which gives each device several" if size % devices == 0 else ""
        return (
            f"{strategy} cannot map {dim}={size} over {devices} devices: it gives one to each; "
            f"use {dim}={devices}{other}"
        )
    return (
        f"{strategy} maps {dim}={size} over {size} devices and the mesh has {devices}; use "
        f"{dim}={devices}, or a mesh of {size}"
    )


def _check_sharding(experiment: Experiment, plan: MapPlan) -> None:
    """pmap shards one dim over all devices, even if the table leaves it unsharded; it cannot
    express any other sharding.
    """
    axes = _all_axes(experiment)
    table = {
        dim: tuple(axis for axis in sharded if experiment.axis_sizes[axis] > 1)
        for dim, sharded in experiment.sharding
    }
    for dim, sharded in table.items():
        if sharded and dim != plan.dim:
            raise Inexpressible(
                f"{plan.strategy} cannot express this sharding: it shards only {plan.dim}, which "
                f"it maps, and {dim} is sharded over "
                f"{' and '.join(sharded)}; leave {dim} unsharded, or choose the mapped dim "
                f"with in_axes"
            )
    if (sharded := table.get(plan.dim)) and sharded != axes:
        raise Inexpressible(
            f"{plan.strategy} cannot express this sharding: it shards {plan.dim} over all "
            f"{plan.devices} devices; "
            f"shard {plan.dim} over {' and '.join(axes)}, in this order"
        )
    arrays = zip(experiment.what.arrays, plan.in_axes + plan.out_axes, strict=True)
    for array, axis in arrays:
        spec = tuple(
            axes if place == axis else () for place in range(len(array.present(experiment.sizes)))
        )
        if array.name in dict(experiment.overrides) and experiment.spec(array.name) != spec:
            raise Inexpressible(
                f"{plan.strategy} cannot express the override of {array.name}; leave it out"
            )


def _all_axes(experiment: Experiment) -> tuple[str, ...]:
    return tuple(name for name, size in experiment.mesh if size > 1)


def _arrange_lines(experiment: Experiment, plan: MapPlan) -> list[str]:
    if not plan.splits:
        return []
    entries = [
        f"        {array.name!r}: "
        f"operands[{array.name!r}].reshape({plan.arranged(experiment.shape(array.name), axis)}),"
        for array, axis in zip(experiment.what.operands, plan.in_axes, strict=True)
        if axis is not None
    ]
    return [
        "",
        "",
        "def arrange(operands):",
        f'    """{plan.dim} as {plan.devices} blocks of {plan.size // plan.devices}, one for each '
        f'device."""',
        "    return operands | {",
        *entries,
        "    }",
        "",
    ]


def _program_lines(plan: MapPlan, function: str) -> list[str]:
    many = len(plan.out_axes) > 1
    out = plan.out_axes if many else plan.out_axes[0]
    axes = f", in_axes={plan.in_axes}" + ("" if out == 0 else f", out_axes={out}")
    name = f", axis_name={AXIS_NAME!r}" if plan.blocks else ""
    vmap, pmap = f"jax.vmap({{}}{axes}{name})", f"jax.pmap({{}}{axes}{name}, devices=devices)"
    program = {
        "vmap": vmap.format(function),
        "jit(vmap)": f"jax.jit({vmap.format(function)})",
        "pmap": pmap.format(function),
        "jit(pmap)": f"jax.jit({pmap.format(function)})",
        "pmap(jit)": pmap.format(f"jax.jit({function})"),
        "pmap(vmap)": pmap.format(vmap.format(function)),
    }[plan.strategy]
    return [f"program = {program}"]

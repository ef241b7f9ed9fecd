"""Plain-JAX program texts of an experiment. The worker runs the same text that is shown and
exported.
"""

import math

from spmd_core.base import Inexpressible
from spmd_core.experiment import STRATEGIES, Array, Experiment, Spec
from spmd_core.script.decoder import decoder_text
from spmd_core.script.imports import spaced
from spmd_core.script.maps import map_lines
from spmd_core.script.parts import entry_text, mesh_lines, named, names, placed_lines, spec_text
from spmd_core.script.source import computation_lines, program_source, select_source, table_spec
from spmd_core.script.written import written_text

__all__ = [
    "body_text",
    "header",
    "mesh_lines",
    "move_lines",
    "operands_text",
    "program_source",
    "program_text",
    "select_source",
    "spec_text",
]


def program_text(experiment: Experiment, strategy: str) -> str:
    """A module that defines `make_operands()`, `placed` (operand -> sharding, None: unsharded) and
    `program`.

    Of a registered small program: a module that defines `mesh` and `program`; of a plan: `mesh` and
    `lower`.
    Raises Inexpressible where the strategy cannot express the experiment's sharding.
    """
    if experiment.plan:
        return decoder_text(experiment.plan)
    if strategy == "as_written":
        return written_text(experiment)
    if experiment.exported:
        lines = [
            header(experiment, strategy),
            *mesh_lines(experiment),
            *_sharded_operands(experiment),
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
        for line in select_source(program_source(experiment.workload), function, {})[0]
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
        shape = experiment.shape(array.name)
        value = {
            "normal": f"rng.normal(size={shape})",
            "arange": f"np.arange({math.prod(shape)}).reshape({shape})",
            "ones": f"np.ones({shape})",
        }[kinds.get(array.name, "normal")]
        lines.append(f"        {array.name!r}: {value}{'' if derived else '.astype(dtype)'},")
    lines.append("    }")
    for name, function, of in derived:
        lines.append(
            f"    operands[{name!r}] = {function}({', '.join(f'operands[{each!r}]' for each in of)})"
        )
    if derived:
        lines.append("    return {name: value.astype(dtype) for name, value in operands.items()}")
    return "\n".join([*lines, ""])


def body_text(experiment: Experiment, strategy: str) -> str:
    """Mesh, shardings, the computation and how the strategy imposes the sharding on it.

    Programs that map may define `arrange(operands)` as well: operands in the shapes that the mapped
    function takes.
    """
    if STRATEGIES[strategy].is_map:
        return "\n".join(spaced(map_lines(experiment, strategy))) + "\n"
    return "\n".join(spaced(_BODIES[strategy](experiment))) + "\n"


def _results(experiment: Experiment) -> str:
    return ", ".join(array.name for array in experiment.what.results)


def _jit_line(experiment: Experiment, *, only_memory: bool = False, single: bool = False) -> str:
    """The decorator of `program`, with out_shardings for results whose sharding or memory kind is
    requested.
    """
    overrides, fed_back = dict(experiment.overrides), dict(experiment.what.training.carried)
    entries = []
    for array in experiment.what.results:
        memory = experiment.memory_kind(array.name)
        requested = array.name in overrides or array.name in fed_back
        if memory == "device" and (only_memory or single or not requested):
            entries.append("None")
        elif single:
            entries.append(f"SingleDeviceSharding(device, memory_kind={memory!r})")
        else:
            entries.append(named(experiment.spec(array.name), memory))
    if all(entry == "None" for entry in entries):
        return "@jax.jit"
    shardings = entries[0] if len(entries) == 1 else f"({', '.join(entries)})"
    return f"@partial(jax.jit, out_shardings={shardings})"


def _to_device_lines(experiment: Experiment) -> list[str]:
    """JAX computes on device memory only: operands in host memory are transferred inside the
    program.
    """
    return [
        f"    {array.name} = jax.device_put({array.name}, placed[{array.name!r}].with_memory_kind('device'))"
        for array in experiment.what.operands
        if experiment.memory_kind(array.name) != "device"
    ]


def _single(experiment: Experiment) -> list[str]:
    placed = {
        array.name: "SingleDeviceSharding(device)"
        if (kind := experiment.memory_kind(array.name)) == "device"
        else f"SingleDeviceSharding(device, memory_kind={kind!r})"
        for array in experiment.what.operands
    }
    lines, function = computation_lines(experiment, "single")
    return [
        "",
        "device = jax.devices()[0]",
        *placed_lines(placed),
        *lines,
        "",
        _jit_line(experiment, single=True),
        f"def program({names(experiment)}):",
        *_to_device_lines(experiment),
        f"    return {function}({names(experiment)})",
    ]


def _sharded_operands(experiment: Experiment) -> list[str]:
    return placed_lines(
        {
            array.name: named(experiment.spec(array.name), experiment.memory_kind(array.name))
            for array in experiment.what.operands
        }
    )


def _auto(experiment: Experiment) -> list[str]:
    lines, function = computation_lines(experiment, "auto")
    return [
        "",
        *mesh_lines(experiment),
        *_sharded_operands(experiment),
        *lines,
        "",
        _jit_line(experiment),
        f"def program({names(experiment)}):",
        *_to_device_lines(experiment),
        f"    return {function}({names(experiment)})",
    ]


def _constrained(experiment: Experiment) -> list[str]:
    unsharded = {
        array.name: "None"
        if (kind := experiment.memory_kind(array.name)) == "device"
        else named(((),) * len(experiment.shape(array.name)), kind)
        for array in experiment.what.operands
    }
    lines, function = computation_lines(experiment, "constrained")
    constrain = []
    for array in experiment.what.operands:
        put = (
            "jax.lax.with_sharding_constraint"
            if experiment.memory_kind(array.name) == "device"
            else "jax.device_put"
        )
        constrain.append(
            f"    {array.name} = {put}({array.name}, {named(experiment.spec(array.name))})"
        )
    returned = [
        f"jax.lax.with_sharding_constraint({array.name}, {named(experiment.spec(array.name))})"
        for array in experiment.what.results
    ]
    return [
        "",
        *mesh_lines(experiment),
        *placed_lines(unsharded),
        *lines,
        "",
        _jit_line(experiment, only_memory=True),
        f"def program({names(experiment)}):",
        *constrain,
        f"    {_results(experiment)} = {function}({names(experiment)})",
        f"    return {', '.join(returned)}",
    ]


def _table_specs(experiment: Experiment, strategy: str) -> dict[str, Spec]:
    """Specs by the table alone; Inexpressible if the table shards one array twice over the same
    axis.
    """
    arrays = (*experiment.what.arrays, *experiment.what.program.between)
    specs = {
        array.name: table_spec(array, experiment, dict(experiment.sharding)) for array in arrays
    }
    for array in arrays:
        used: dict[str, str] = {}
        for dim, axes in zip(array.present(experiment.sizes), specs[array.name], strict=True):
            for axis in axes:
                if axis in used:
                    where = f"mesh axis {axis!r} shards both {used[axis]} and {dim} of {array.name}"
                    raise Inexpressible(
                        f"{strategy} cannot express this sharding: {where}; shard one of them over another axis"
                    )
                used[axis] = dim
    return specs


def _explicit(experiment: Experiment) -> list[str]:
    table = _table_specs(experiment, "explicit")
    lines, function = computation_lines(experiment, "explicit")
    reshard = [
        f"    {array.name} = jax.sharding.reshard({array.name}, {named(_wanted(experiment, array))})"
        for array in experiment.what.operands
        if experiment.spec(array.name) != _wanted(experiment, array)
    ]
    returned = [
        f"jax.sharding.reshard({array.name}, {named(experiment.spec(array.name))})"
        if experiment.spec(array.name) != table[array.name]
        else array.name
        for array in experiment.what.results
    ]
    return [
        "",
        *mesh_lines(experiment, "Explicit"),
        *_sharded_operands(experiment),
        *lines,
        "",
        _jit_line(experiment, only_memory=True),
        f"def program({names(experiment)}):",
        *_to_device_lines(experiment),
        *reshard,
        f"    {_results(experiment)} = {function}({names(experiment)})",
        f"    return {', '.join(returned)}",
    ]


def _shard_map(experiment: Experiment) -> list[str]:
    what, table = experiment.what, _table_specs(experiment, "shard_map")
    _check_halo(experiment)
    lines, function = computation_lines(experiment, "shard_map")

    def moves(name: str, given: Spec, wanted: Spec) -> list[str]:
        return move_lines(name, given, wanted, experiment.shape(name), experiment.axis_sizes)

    before, after = list[str](), list[str]()
    for array in what.operands:
        before += moves(array.name, experiment.spec(array.name), _wanted(experiment, array))
    for array in what.results:
        after += moves(array.name, table[array.name], experiment.spec(array.name))
    in_specs = ", ".join(spec_text(experiment.spec(array.name)) for array in what.operands)
    out_specs = ", ".join(spec_text(experiment.spec(array.name)) for array in what.results)
    out_specs = f"({out_specs})" if len(what.results) > 1 else out_specs
    # all_gather's result is typed as varying over the gathered axis, though all devices hold the same
    gathers = any("all_gather" in line for line in before + after + lines)
    check = ", check_vma=False" if gathers else ""
    last = [f"    return {function}({names(experiment)})"]
    if after:
        results = _results(experiment)
        last = [last[0].replace("return", f"{results} =", 1), *after, f"    return {results}"]
    return [
        "",
        *mesh_lines(experiment),
        *_sharded_operands(experiment),
        *lines,
        "",
        f"@partial(jax.shard_map, mesh=mesh, in_specs=({in_specs},), out_specs={out_specs}{check})",
        f"def on_each_device({names(experiment)}):",
        *before,
        *last,
        "",
        "",
        _jit_line(experiment, only_memory=True),
        f"def program({names(experiment)}):",
        *_to_device_lines(experiment),
        f"    return on_each_device({names(experiment)})",
    ]


def _wanted(experiment: Experiment, array: Array) -> Spec:
    """The sharding of an operand when the computation begins: by the table, but unsharded along the
    dims that the program gathers.
    """
    what = experiment.what
    return tuple(
        () if dim in what.program.gathered else axes
        for dim, axes in zip(
            array.present(experiment.sizes), experiment.table_spec(array.name), strict=True
        )
    )


def _check_halo(experiment: Experiment) -> None:
    if experiment.what.program.halo is None:
        return
    dim, width = experiment.what.program.halo
    parts = math.prod(
        experiment.axis_sizes[axis] for axis in dict(experiment.sharding).get(dim, ())
    )
    sizes = experiment.sizes
    if parts > 1 and sizes[width] // 2 > sizes[dim] // parts:
        raise Inexpressible(
            f"shard_map cannot express this sharding: a shard has {sizes[dim] // parts} elements of {dim}, and its neighbor "
            f"needs {sizes[width] // 2} of them for {width}={sizes[width]}; use a smaller {width}, or shard {dim} over fewer devices"
        )


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
            size = shape[dim]
            for axis in want:
                size //= sizes[axis]
            slices.append(
                f"    {name} = jax.lax.dynamic_slice_in_dim({name}, {size} * jax.lax.axis_index({entry_text(sliced)}), {size}, axis={dim})"
            )
    return gathers + slices


def _place(experiment: Experiment) -> list[str]:
    return [
        "",
        *mesh_lines(experiment),
        *_sharded_operands(experiment),
        "",
        "",
        "def program():",
        "    array = jax.device_put(make_operands()['array'], placed['array'])",
        "    return jax.block_until_ready(array)",
    ]


# Add the text of a strategy above this line.

_BODIES = {
    "single": _single,
    "auto": _auto,
    "constrained": _constrained,
    "explicit": _explicit,
    "shard_map": _shard_map,
    "place": _place,
    # Add a strategy's name above this line.
}

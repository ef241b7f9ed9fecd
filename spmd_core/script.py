"""Plain-JAX program texts of an experiment: the text that is shown and exported is the text that the worker runs."""

import ast
import math
from functools import cache
from importlib import resources

from spmd_core.blank_lines import spaced
from spmd_core.errors import Inexpressible
from spmd_core.experiment import Axes, Experiment, Spec
from spmd_core.program_sizes import with_sizes
from spmd_core.written import program_file, with_mesh

_FUNCTION = {"single": "", "auto": "", "constrained": "", "shard_map": "_shards", "explicit": "_explicit"}


@cache
def program_source(workload: str) -> str:
    """The file of a workload under `programs/`, as text."""
    return resources.files("spmd_core.programs").joinpath(f"{workload}.py").read_text("utf-8")


def program_text(experiment: Experiment, strategy: str) -> str:
    """A module that defines `make_operands()`, `placed` (operand -> sharding, None: unsharded) and `program`.

    Of a registered small program: a module that defines `mesh` and `program`.
    Raises Inexpressible where the strategy cannot express the experiment's sharding.
    """
    if strategy == "as_written":
        return written_text(experiment)
    parts = [header(experiment, strategy), operands_text(experiment), body_text(experiment, strategy)]
    return "\n".join(spaced("\n".join(parts).splitlines())) + "\n"


def written_text(experiment: Experiment) -> str:
    """The registered program's file with the chosen sizes, and the lines that make the experiment's mesh after its imports."""
    imports = "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh"
    if experiment.option("device_order") != "plain":
        imports = "import jax\nfrom jax.sharding import AxisType"
    source = with_sizes(program_file(experiment.option("program")), dict(experiment.options))
    return with_mesh(source, imports, mesh_lines(experiment))


def header(experiment: Experiment, *strategies: str) -> str:
    """The imports that the bodies of these strategies need."""
    sharding_names = {"NamedSharding", "PartitionSpec as P", "AxisType"} if set(strategies) - {"single"} else set()
    if "single" in strategies:
        sharding_names.add("SingleDeviceSharding")
    if experiment.option("device_order") == "plain" and set(strategies) - {"single"}:
        sharding_names.add("Mesh")
    partial = ["from functools import partial", ""] if any(_uses_partial(experiment, strategy) for strategy in strategies) else []
    return "\n".join([*partial, "import jax", "import jax.numpy as jnp", "import numpy as np",
                      f"from jax.sharding import {', '.join(sorted(sharding_names))}", ""])


def _uses_partial(experiment: Experiment, strategy: str) -> bool:
    try:
        return "@partial(" in body_text(experiment, strategy)
    except Inexpressible:
        return False


def operands_text(experiment: Experiment) -> str:
    """`make_operands()`: drawn in order in float64, then cast."""
    kinds = dict(experiment.data)
    lines = ["", "def make_operands():", f'    """Operand name -> array; every device sees the same draw of seed {experiment.seed}."""',
             f"    dtype = jnp.dtype({experiment.dtype!r})"]
    if any(kinds.get(array.name, "normal") == "normal" for array in experiment.what.operands):
        lines.append(f"    rng = np.random.default_rng({experiment.seed})")
    lines.append("    return {")
    for array in experiment.what.operands:
        shape = experiment.shape(array.name)
        value = {
            "normal": f"rng.normal(size={shape})",
            "arange": f"np.arange({math.prod(shape)}).reshape({shape})",
            "ones": f"np.ones({shape})",
        }[kinds.get(array.name, "normal")]
        lines.append(f"        {array.name!r}: {value}.astype(dtype),")
    return "\n".join([*lines, "    }", ""])


def body_text(experiment: Experiment, strategy: str) -> str:
    """Mesh, shardings, the computation and how the strategy imposes the sharding on it."""
    build = {"single": _single, "auto": _auto, "constrained": _constrained, "explicit": _explicit, "shard_map": _shard_map, "place": _place}[strategy]
    return "\n".join(spaced(build(experiment))) + "\n"


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
    return f"P({', '.join(_entry(axes) for axes in spec)})"


def _entry(axes: Axes) -> str:
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else repr(axes)


def _named(spec: Spec, memory: str = "device") -> str:
    kind = "" if memory == "device" else f", memory_kind={memory!r}"
    return f"NamedSharding(mesh, {spec_text(spec)}{kind})"


def _placed_lines(entries: dict[str, str]) -> list[str]:
    return ["placed = {", *(f"    {name!r}: {sharding}," for name, sharding in entries.items()), "}"]


def _names(experiment: Experiment) -> str:
    return ", ".join(array.name for array in experiment.what.operands)


def _results(experiment: Experiment) -> str:
    return ", ".join(array.name for array in experiment.what.results)


def _jit_line(experiment: Experiment, *, only_memory: bool = False, single: bool = False) -> str:
    """The decorator of `program`, with out_shardings for results whose placement is asked for."""
    overrides = dict(experiment.overrides)
    entries = []
    for array in experiment.what.results:
        memory = experiment.memory_kind(array.name)
        if memory == "device" and (only_memory or single or array.name not in overrides):
            entries.append("None")
        elif single:
            entries.append(f"SingleDeviceSharding(device, memory_kind={memory!r})")
        else:
            entries.append(_named(experiment.spec(array.name), memory))
    if all(entry == "None" for entry in entries):
        return "@jax.jit"
    shardings = entries[0] if len(entries) == 1 else f"({', '.join(entries)})"
    return f"@partial(jax.jit, out_shardings={shardings})"


def _to_device_lines(experiment: Experiment) -> list[str]:
    """JAX computes on device memory only: operands in host memory are transferred inside the program."""
    return [f"    {array.name} = jax.device_put({array.name}, placed[{array.name!r}].with_memory_kind('device'))"
            for array in experiment.what.operands if experiment.memory_kind(array.name) != "device"]


def _computation_lines(experiment: Experiment, strategy: str, constants: dict[str, str]) -> tuple[list[str], str]:
    """The workload's function for a strategy, with the constants that it uses; and the function's name."""
    wanted = experiment.workload + _FUNCTION[strategy]
    source = program_source(experiment.workload)
    return select_source(source, wanted, constants)


def select_source(source: str, wanted: str, constants: dict[str, str]) -> tuple[list[str], str]:
    """Lines of the function `wanted` of a program file (an alias is followed) and of what it uses; and its real name."""
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            nodes[node.targets[0].id] = node
    alias = nodes[wanted]
    if isinstance(alias, ast.Assign) and isinstance(alias.value, ast.Name):
        wanted = alias.value.id
    needed, queue = {wanted}, [wanted]
    while queue:
        used = {node.id for node in ast.walk(nodes[queue.pop()]) if isinstance(node, ast.Name)} & nodes.keys() - needed
        needed |= used
        queue += used
    text = source.splitlines()
    lines: list[str] = []
    for name, node in nodes.items():
        if name not in needed:
            continue
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines += ["", *text[first - 1 : node.end_lineno], ""]
        elif name in constants:
            lines.append(f"{name} = {constants[name]}")
        else:
            lines += text[node.lineno - 1 : node.end_lineno]
    return lines, wanted


def _precision(experiment: Experiment) -> dict[str, str]:
    if not experiment.what.uses_precision:
        return {}
    chosen = experiment.option("precision")
    return {"PRECISION": "None" if chosen == "default" else repr(chosen)}


def _single(experiment: Experiment) -> list[str]:
    placed = {array.name: "SingleDeviceSharding(device)" if (kind := experiment.memory_kind(array.name)) == "device"
              else f"SingleDeviceSharding(device, memory_kind={kind!r})" for array in experiment.what.operands}
    lines, function = _computation_lines(experiment, "single", _precision(experiment))
    return ["", "device = jax.devices()[0]", *_placed_lines(placed), *lines, "", _jit_line(experiment, single=True),
            f"def program({_names(experiment)}):", *_to_device_lines(experiment), f"    return {function}({_names(experiment)})"]


def _sharded_operands(experiment: Experiment) -> list[str]:
    return _placed_lines({array.name: _named(experiment.spec(array.name), experiment.memory_kind(array.name)) for array in experiment.what.operands})


def _auto(experiment: Experiment) -> list[str]:
    lines, function = _computation_lines(experiment, "auto", _precision(experiment))
    return ["", *mesh_lines(experiment), *_sharded_operands(experiment), *lines, "", _jit_line(experiment),
            f"def program({_names(experiment)}):", *_to_device_lines(experiment), f"    return {function}({_names(experiment)})"]


def _constrained(experiment: Experiment) -> list[str]:
    whole = {array.name: "None" if (kind := experiment.memory_kind(array.name)) == "device"
             else _named(((),) * len(experiment.shape(array.name)), kind) for array in experiment.what.operands}
    lines, function = _computation_lines(experiment, "constrained", _precision(experiment))
    constrain = []
    for array in experiment.what.operands:
        put = "jax.lax.with_sharding_constraint" if experiment.memory_kind(array.name) == "device" else "jax.device_put"
        constrain.append(f"    {array.name} = {put}({array.name}, {_named(experiment.spec(array.name))})")
    returned = [f"jax.lax.with_sharding_constraint({array.name}, {_named(experiment.spec(array.name))})" for array in experiment.what.results]
    return ["", *mesh_lines(experiment), *_placed_lines(whole), *lines, "", _jit_line(experiment, only_memory=True),
            f"def program({_names(experiment)}):", *constrain, f"    {_results(experiment)} = {function}({_names(experiment)})",
            f"    return {', '.join(returned)}"]


def _table_specs(experiment: Experiment, strategy: str) -> dict[str, Spec]:
    """Specs by the table alone; Inexpressible where the table cuts one array twice over the same axis."""
    specs = {array.name: experiment.table_spec(array.name) for array in experiment.what.arrays}
    for array in experiment.what.arrays:
        used: dict[str, str] = {}
        for dim, axes in zip(array.present(experiment.sizes), specs[array.name], strict=True):
            for axis in axes:
                if axis in used:
                    where = f"mesh axis {axis!r} cuts both {used[axis]} and {dim} of {array.name}"
                    raise Inexpressible(f"{strategy} cannot express this sharding: {where}; shard one of them over another axis")
                used[axis] = dim
    return specs


def _explicit(experiment: Experiment) -> list[str]:
    table = _table_specs(experiment, "explicit")
    constants = _precision(experiment) | {"RESULT_SHARDING": _named(table[experiment.what.results[0].name])}
    lines, function = _computation_lines(experiment, "explicit", constants)
    reshard = [f"    {array.name} = jax.sharding.reshard({array.name}, {_named(table[array.name])})"
               for array in experiment.what.operands if experiment.spec(array.name) != table[array.name]]
    returned = [f"jax.sharding.reshard({array.name}, {_named(experiment.spec(array.name))})"
                if experiment.spec(array.name) != table[array.name] else array.name for array in experiment.what.results]
    return ["", *mesh_lines(experiment, "Explicit"), *_sharded_operands(experiment), *lines, "", _jit_line(experiment, only_memory=True),
            f"def program({_names(experiment)}):", *_to_device_lines(experiment), *reshard,
            f"    {_results(experiment)} = {function}({_names(experiment)})", f"    return {', '.join(returned)}"]


def _shard_map(experiment: Experiment) -> list[str]:
    table = _table_specs(experiment, "shard_map")
    what, sizes = experiment.what, experiment.axis_sizes
    contracted = dict(experiment.sharding).get(what.contracted or "", ())
    lines, function = _computation_lines(experiment, "shard_map", _precision(experiment) | {"CONTRACTED_AXES": repr(contracted)})
    before = [line for array in what.operands
              for line in move_lines(array.name, experiment.spec(array.name), table[array.name], experiment.shape(array.name), sizes)]
    after = [line for array in what.results
             for line in move_lines(array.name, table[array.name], experiment.spec(array.name), experiment.shape(array.name), sizes)]
    in_specs = ", ".join(spec_text(experiment.spec(array.name)) for array in what.operands)
    out_specs = ", ".join(spec_text(experiment.spec(array.name)) for array in what.results)
    many = len(what.results) > 1
    # all_gather's result is typed as varying over the gathered axis, though every device holds the same
    check = ", check_vma=False" if any("all_gather" in line for line in before + after) else ""
    call = f"{function}({_names(experiment)})"
    last = [f"    {_results(experiment)} = {call}", *after, f"    return {_results(experiment)}"] if after else [f"    return {call}"]
    return ["", *mesh_lines(experiment), *_sharded_operands(experiment), *lines, "",
            f"@partial(jax.shard_map, mesh=mesh, in_specs=({in_specs},), out_specs={f'({out_specs})' if many else out_specs}{check})",
            f"def on_each_device({_names(experiment)}):", *before, *last, "", "",
            _jit_line(experiment, only_memory=True), f"def program({_names(experiment)}):", *_to_device_lines(experiment),
            f"    return on_each_device({_names(experiment)})"]


def move_lines(name: str, held: Spec, wanted: Spec, shape: tuple[int, ...], sizes: dict[str, int]) -> list[str]:
    """Lines inside shard_map that turn a shard cut as `held` into one cut as `wanted`: gathers first, then slices."""
    gathers, slices = [], []
    for dim, (have, want) in enumerate(zip(held, wanted, strict=True)):
        kept = want if have[: len(want)] == want else have if want[: len(have)] == have else ()
        if gathered := have[len(kept):]:
            gathers.append(f"    {name} = jax.lax.all_gather({name}, {_entry(gathered)}, axis={dim}, tiled=True)")
        if cut := want[len(kept):]:
            size = shape[dim]
            for axis in want:
                size //= sizes[axis]
            slices.append(f"    {name} = jax.lax.dynamic_slice_in_dim({name}, {size} * jax.lax.axis_index({_entry(cut)}), {size}, axis={dim})")
    return gathers + slices


def _place(experiment: Experiment) -> list[str]:
    return ["", *mesh_lines(experiment), *_sharded_operands(experiment), "", "", "def program():",
            "    array = jax.device_put(make_operands()['array'], placed['array'])", "    return jax.block_until_ready(array)"]

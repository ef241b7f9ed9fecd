"""What each strategy's program consists of beside its operands: mesh, shardings, the computation,
and how the strategy imposes the sharding on it.
"""

import math
import re
from functools import partial

from spmd_core.base import Inexpressible
from spmd_core.experiment import Experiment, spec_code
from spmd_core.fields import Spec
from spmd_core.script.maps import map_lines
from spmd_core.script.parts import (
    mesh_lines,
    move_lines,
    named,
    names,
    placed_lines,
    spaced,
)
from spmd_core.script.source import computation_lines, table_spec
from spmd_core.workloads import SEQUENCE_STRATEGIES, STRATEGIES, Array

_PERMUTED = re.compile(r"ppermute\(\s*\w+,\s*(\w+)_AXES")


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


def sharded_operands(experiment: Experiment) -> list[str]:
    """`placed`, of operands as they are sharded."""
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
        *sharded_operands(experiment),
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
        *sharded_operands(experiment),
        *lines,
        "",
        _jit_line(experiment, only_memory=True),
        f"def program({names(experiment)}):",
        *_to_device_lines(experiment),
        *reshard,
        f"    {_results(experiment)} = {function}({names(experiment)})",
        f"    return {', '.join(returned)}",
    ]


def _shard_map(experiment: Experiment, strategy: str = "shard_map") -> list[str]:
    what, table = experiment.what, _table_specs(experiment, strategy)
    lines, function = _of_a_shard(experiment, strategy)

    def moves(name: str, given: Spec, wanted: Spec) -> list[str]:
        return move_lines(name, given, wanted, experiment.shape(name), experiment.axis_sizes)

    before, after = list[str](), list[str]()
    for array in what.operands:
        before += moves(array.name, experiment.spec(array.name), _wanted(experiment, array))
    for array in what.results:
        after += moves(array.name, table[array.name], experiment.spec(array.name))
    in_specs = ", ".join(spec_code(experiment.spec(array.name)) for array in what.operands)
    out_specs = ", ".join(spec_code(experiment.spec(array.name)) for array in what.results)
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
        *sharded_operands(experiment),
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


def _of_a_shard(experiment: Experiment, strategy: str) -> tuple[list[str], str]:
    """The computation of a shard; Inexpressible where it cannot reach its neighbors."""
    _check_halo(experiment)
    lines, function = computation_lines(experiment, strategy)
    sent = {name.lower() for name in _PERMUTED.findall("\n".join(lines))}
    for dim, axes in experiment.sharding:
        ordered = sorted(axes, key=[*experiment.axis_sizes].index)
        if dim in sent and ordered != [*axes]:
            raise Inexpressible(
                f"{strategy} cannot express this sharding: jax.lax.ppermute numbers devices in the "
                f"order of the mesh, and {dim} is sharded over {' and '.join(axes)}; "
                f"use {' and '.join(ordered)}"
            )
    return lines, function


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


def _along_sequence(experiment: Experiment, strategy: str) -> list[str]:
    """Attention under shard_map; Inexpressible where it cannot be computed so along the sequence."""
    sizes, table = experiment.sizes, dict(experiment.sharding)
    parts, over_heads = (
        math.prod(experiment.axis_sizes[axis] for axis in table.get(dim, ()))
        for dim in ("sequence", "heads")
    )
    length, heads = sizes["sequence"], sizes["heads"] // over_heads
    rule = fix = ""
    if parts == 1:
        rule, fix = "sequence is on every device whole", "use a mesh axis to shard sequence"
    elif strategy == "ulysses" and heads % parts:
        rule = f"heads={heads} of a device do not divide over the {parts} shards of sequence"
        fix = (
            f"use heads={-(-heads // parts) * parts * over_heads}, or ring, which has no such rule"
        )
    elif strategy == "zigzag" and experiment.option("mask") != "causal":
        rule, fix = "without a causal mask all devices have equal work", "use ring"
    elif strategy == "zigzag" and length % (2 * parts):
        rule = f"sequence={length} is no multiple of {2 * parts}, two parts for each of its shards"
        fix = f"use sequence={-(-length // (2 * parts)) * 2 * parts}"
    if rule:
        raise Inexpressible(f"{strategy} cannot express this sharding: {rule}; {fix}")
    return _shard_map(experiment, strategy)


def _place(experiment: Experiment) -> list[str]:
    return [
        "",
        *mesh_lines(experiment),
        *sharded_operands(experiment),
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
    **{name: partial(_along_sequence, strategy=name) for name in SEQUENCE_STRATEGIES},
    "place": _place,
    # Add a strategy's name above this line.
}

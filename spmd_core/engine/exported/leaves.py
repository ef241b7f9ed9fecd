"""The arguments and outputs of a program: paths, sizes, dtypes and specs, as its file has them, and
the dim that each integer argument indexes, so that what is drawn for it is within.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax._src import core
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.base import refuse, shorten
from spmd_core.engine.exported.continued import continued
from spmd_core.fields import Mesh, Spec
from spmd_core.workloads import Leaf, with_replaced

_THROUGH = (
    "convert",
    "reshape",
    "broadcast_in_dim",
    "select",
    "add",
    "concatenate",
    "slice",
    "dynamic_slice",
    "transpose",
    "clamp",
    "maximum",
    "minimum",
    "optimization_barrier",
)
# of sdy-propagation-pipeline those that decide what arguments and results have, through calls of
# functions too: the others, which place reshards within, take as long again
_PASSES = (
    *("flatten-call-graph", "import-pipeline", "add-func-data-flow-edges"),
    *("user-priority-propagate", "update-non-divisible-input-output-shardings"),
)
Signature = Any  # trees, types and kept arguments: of jax.export.Exported, or of what JAX lowered


def leaves(
    exported: Signature, module: ir.Module, mesh: Mesh
) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
    """Arguments and outputs; the module is changed: Shardy gives a spec to what has none."""
    arguments, outputs = written_leaves(exported, module, mesh)
    outputs = with_replaced(
        arguments, outputs, continued(module, [each.path for each in arguments if each.is_kept])
    )
    if mesh:
        specs = iter(_propagated(module, sum(leaf.is_kept for leaf in arguments), mesh))
        arguments = tuple(
            _with_propagated(leaf, next(specs, None), mesh) if leaf.is_kept else leaf
            for leaf in arguments
        )
        outputs = tuple(
            leaf.model_copy(update={"propagated": next(specs, None)}) for leaf in outputs
        )
    return arguments, outputs


def written_leaves(
    exported: Signature, module: ir.Module, mesh: Mesh
) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
    """Arguments and outputs, with the specs that the module has for them."""
    main: Any = ir.SymbolTable(module.operation)["main"]
    names = _argument_names(main, exported)
    arguments, outputs = _arguments(exported, main, names, mesh), _outputs(exported, main, mesh)
    if {leaf.path for leaf in outputs} & {leaf.path for leaf in arguments}:
        outputs = tuple(leaf.model_copy(update={"path": f"output/{leaf.path}"}) for leaf in outputs)
    return arguments, outputs


def _arguments(exported: Signature, main: Any, names: list[str], mesh: Mesh) -> tuple[Leaf, ...]:
    first = _first(main, exported)
    given = [ir.DictAttr(each) for each in main.arg_attrs]
    kept = dict(zip(exported.module_kept_var_idx, range(first, len(given)), strict=True))
    below = indexed(main)
    described = []
    for number, (path, aval) in enumerate(
        zip(paths(exported.in_tree, names), exported.in_avals, strict=True)
    ):
        place = kept.get(number)
        leaf = _leaf(path, aval)
        if place is None:
            described.append(leaf.model_copy(update={"is_kept": False, "spec": ()}))
            continue
        attributes = given[place]
        spec = _spec(attributes, mesh)
        if spec is None and "sdy.sharding" in attributes:
            raise refuse(
                f"argument {shorten(path)} of this program",
                "is sharded over another mesh than the first, or over a part of an axis",
                "place all arguments over one mesh",
            )
        donated = any(name in attributes for name in ("jax.buffer_donor", "tf.aliasing_output"))
        more = {"spec": spec, "is_donated": donated, "index_below": below.get(place)}
        described.append(leaf.model_copy(update=more | {"memory": _memory(attributes)}))
    return tuple(described)


def _outputs(exported: Signature, main: Any, mesh: Mesh) -> tuple[Leaf, ...]:
    results = [ir.DictAttr(each) for each in main.result_attrs]
    results = results[len(results) - len(exported.out_avals) :]
    return tuple(
        _leaf(path, aval).model_copy(
            update={"spec": _spec(attributes, mesh), "memory": _memory(attributes)}
        )
        for path, aval, attributes in zip(
            paths(exported.out_tree, None), exported.out_avals, results, strict=True
        )
    )


def _leaf(path: str, aval: Any) -> Leaf:
    """A leaf as it is held: keys of random numbers are arrays of uint32, with a dim of their own."""
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key):
        aval = core.physical_aval(aval)
    return Leaf(path=path, sizes=tuple(map(str, aval.shape)), dtype=str(aval.dtype))


def _with_propagated(leaf: Leaf, spec: Spec | None, mesh: Mesh) -> Leaf:
    """An argument with the spec that Shardy gives it, as far as its dims divide: that of
    `jax.jit` with arguments whose sharding is left to the compiler.
    """
    sizes = dict(mesh)
    parts = (math.prod(sizes[axis] for axis in axes) for axes in spec or ())
    divided = tuple(
        axes if not size.isdigit() or int(size) % count == 0 else ()
        for axes, size, count in zip(spec or (), leaf.sizes, parts, strict=False)
    )
    return leaf.model_copy(update={"propagated": None if spec is None else divided})


def _first(main: Any, exported: Signature) -> int:
    """Place of the first argument that is an array: that of the platform is before it."""
    return len(list(main.arg_attrs)) - len(exported.module_kept_var_idx)


def paths(tree: Any, names: list[str] | None) -> list[str]:
    """The path of each leaf, its parts separated by `/`; `names` are those of the arguments, of
    which a single one is left out: its paths are enough, as are those of arguments by path.
    """
    numbered = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = []
    by_path = names is not None and _are_by_path(numbered[0])
    for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        parts = [jax.tree_util.keystr((key,), simple=True) for key in path]
        if names is not None:  # (arguments, arguments by name)
            is_named, (place, *rest) = parts[0] == "1", parts[1:]
            by_name = is_named or int(place) >= len(names)
            alone = (len(names) == 1 and rest) or (by_path and not is_named)
            parts = rest if alone else [place if by_name else names[int(place)], *rest]
        paths.append("/".join(parts) or "output")
    return paths


def paths_tree(paths: Sequence[str], are_arguments: bool = False) -> Any:
    """The pytree of a dict path -> array: of results, or as the one argument of a function."""
    tree = OrderedDict.fromkeys(paths, 0)
    return jax.tree.structure(((tree,), {}) if are_arguments else tree)


def _are_by_path(arguments: Sequence[Any]) -> bool:
    """Whether each argument is a dict path -> array in the order of its pytree; no path
    twice.
    """
    if not all(isinstance(each, OrderedDict) for each in arguments):
        return False
    every = [path for each in arguments for path in each]
    return len(set(every)) == len(every) > 0


def _argument_names(main: Any, exported: Signature) -> list[str]:
    """The names of the function's arguments, from the locations of their arrays; their numbers
    where these have none.
    """
    numbered = jax.tree_util.tree_unflatten(exported.in_tree, range(exported.in_tree.num_leaves))
    places = {each: place for place, each in enumerate(exported.module_kept_var_idx)}
    locations = [str(argument.location) for argument in main.arguments]
    first = _first(main, exported)
    names = []
    for number, argument in enumerate(numbered[0]):
        kept = [places[leaf] for leaf in jax.tree_util.tree_leaves(argument) if leaf in places]
        match = re.match(r'loc\("([A-Za-z_]\w*)', locations[kept[0] + first]) if kept else None
        names.append(match[1] if match else str(number))
    return names if len(set(names)) == len(names) else [str(number) for number in range(len(names))]


def _spec(attributes: ir.DictAttr, mesh: Mesh) -> Spec | None:
    """The spec of an argument or result, by its attributes; None where it has none, or one over
    other axes than the mesh's.
    """
    if "sdy.sharding" not in attributes:
        return None
    return of_sharding(attributes["sdy.sharding"], mesh)


def _memory(attributes: ir.DictAttr) -> str | None:
    """The memory kind of an argument or result, None where the file names none."""
    name = "mhlo.memory_kind"
    return ir.StringAttr(attributes[name]).value if name in attributes else None


def propagate(module: ir.Module) -> None:
    """Has Shardy shard every value of a module; what another jaxlib's passes raise is raised."""
    passes = ",".join(f"sdy-{name}" for name in _PASSES)
    passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)


def of_sharding(attribute: ir.Attribute, mesh: Mesh | None) -> Spec | None:
    """Returns a sharding's spec; None where it has axes that a mesh does not have, or parts of axes."""
    sharding = sdy.TensorShardingAttr(attribute)
    dims = [sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    axes = [[sdy.AxisRefAttr(axis) for axis in dim.axes] for dim in dims]
    known = None if mesh is None else {name for name, _ in mesh}
    if any(
        axis.sub_axis_info is not None or (known is not None and axis.name not in known)
        for dim in axes
        for axis in dim
    ):
        return None
    return tuple(tuple(str(axis.name) for axis in dim) for dim in axes)


def _propagated(module: ir.Module, arguments: int, mesh: Mesh) -> list[Spec | None]:
    """The specs that Shardy gives the last arguments and all outputs, replicated where it gives
    none; [] where it is not available.
    """
    try:
        propagate(module)
    except Exception:  # the pass is the library's own: without it they are not known
        return []
    main: Any = ir.SymbolTable(module.operation)["main"]
    for each in main.result_attrs:
        _check_over(ir.DictAttr(each), mesh)
    given = list(main.arg_attrs)
    return [*_specs(given[len(given) - arguments :], mesh), *result_specs(module, mesh)]


def result_specs(module: ir.Module, mesh: Mesh) -> list[Spec | None]:
    """Returns the specs of the outputs of a module that was propagated, replicated where it has none."""
    main: Any = ir.SymbolTable(module.operation)["main"]
    return _specs(main.result_attrs, mesh)


def _specs(attributes: Iterable[ir.Attribute], mesh: Mesh) -> list[Spec | None]:
    dicts = map(ir.DictAttr, attributes)
    return [_spec(each, mesh) if "sdy.sharding" in each else () for each in dicts]


def _check_over(result: ir.DictAttr, mesh: Mesh) -> None:
    """RequestError where a result is sharded over axes that the arguments' mesh does not have: JAX
    has no name for such a sharding.
    """
    if "sdy.sharding" not in result:
        return
    dims = sdy.TensorShardingAttr(result["sdy.sharding"]).dimension_shardings
    used = {str(sdy.AxisRefAttr(axis).name) for dim in dims for axis in sdy.DimensionShardingAttr(dim).axes}  # fmt: skip
    if others := sorted(used - {name for name, _ in mesh}):
        raise refuse(
            f"an output of this program, sharded over {', '.join(map(shorten, others))},",
            "is over another mesh than the arguments",
            "constrain it over theirs",
        )


def indexed(main: Any) -> dict[int, int]:
    """Number of an integer argument -> size of the dim that it indexes, where it goes into a gather
    by itself, through conversions and reshapes alone.
    """
    sizes: dict[int, int] = {}
    for number, argument in enumerate(main.arguments):
        if "i32" in str(argument.type) or "i8" in str(argument.type) or "ui" in str(argument.type):
            size = _smallest_gathered(argument)
            if size is not None:
                sizes[number] = size
    return sizes


def _smallest_gathered(value: Any) -> int | None:
    """The smallest dim that a value indexes; None where it indexes none."""
    waiting, seen, sizes = [value], set(), []
    while waiting and len(seen) < 2000:
        for use in waiting.pop().uses:
            op = use.owner
            if hash(op) in seen:
                continue
            seen.add(hash(op))
            name = op.operation.name.removeprefix("stablehlo.")
            if name == "gather" and use.operand_number == 1:
                sizes.append(_indexed_dim(op))
            elif name in _THROUGH:
                waiting += list(op.operation.results)
    return min((size for size in sizes if size is not None), default=None)


def _indexed_dim(op: Any) -> int | None:
    numbers = re.search(
        r"start_index_map = \[(\d+)", str(op.operation.attributes["dimension_numbers"])
    )
    shape = ir.RankedTensorType(op.operation.operands[0].type).shape
    return int(shape[int(numbers[1])]) if numbers else None

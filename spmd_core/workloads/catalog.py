"""The workloads by name: what the engine can run, described as values."""

from dataclasses import replace

from spmd_core.errors import refuse, shorten
from spmd_core.workloads.decoder import DECODER
from spmd_core.workloads.own import files
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES
from spmd_core.workloads.transformer import ATTENTION, TRANSFORMER_BLOCK
from spmd_core.workloads.workload import DTYPE_BYTES, FLOATS, Array, Dims, Option, Whole, Workload, element_count

__all__ = [
    "ARRAY_DIMS", "DTYPE_BYTES", "FLOATS", "WORKLOADS", "Array", "Dims", "Option", "Whole", "Workload", "element_count", "get_workload",
    "has_plan", "workload_names",
]

ARRAY_DIMS = ("d0", "d1", "d2", "d3", "d4", "d5")
ALL_STRATEGIES = SHARDING_STRATEGIES + MAP_STRATEGIES
SHORT_WAIT_S = 5.0  # a screen goes on without a file that takes longer to load
WITH_MAP = ("single", "auto", "shard_map", "pmap(vmap)")


def _layer_flops(sizes: Dims) -> int:
    rows = sizes.get("batch", 1)
    return 2 * rows * sizes["in"] * sizes["out"] + 5 * rows * sizes["out"]  # bias, and negate, exp, add, divide


def _matmul_flops(sizes: Dims) -> int:
    return sizes.get("batch", 1) * sizes["m"] * sizes["n"] * (2 * sizes["k"] + 1)


def _mlp_flops(sizes: Dims) -> int:
    return sizes["batch"] * (sizes["hidden"] * (2 * sizes["in"] + 2) + sizes["out"] * (2 * sizes["hidden"] + 1))


def _linear_flops(sizes: Dims) -> int:
    batch, terms, out = (sizes[dim] for dim in ("batch", "in", "out"))
    return 4 * batch * terms * out + 7 * batch * out + 2 * out * (terms + 1)  # product and its gradient; loss; the step


def _two_layer_flops(sizes: Dims) -> int:
    batch, terms, hidden, out = (sizes[dim] for dim in ("batch", "in", "hidden", "out"))
    return 4 * batch * terms * hidden + 6 * batch * hidden * out + 7 * batch * (hidden + out) + 2 * (hidden * (terms + 1) + out * (hidden + 1))


def _normalize() -> Workload:
    rows = Workload(
        "normalize", "Normalize", "y = x / sum of |x| over rows, columns or both", ("rows", "cols"), {"rows": 4096, "cols": 1024},
        (Array("x", ("rows", "cols")),), (Array("y", ("rows", "cols")),), lambda sizes: 3 * sizes["rows"] * sizes.get("cols", 1),
        optional_dims=("cols",), dtypes=FLOATS, strategies=ALL_STRATEGIES, contracted=("rows",), sampled=("rows",),
        options={"over": ("rows", "cols", "both")})
    both = replace(rows, optional_dims=(), contracted=("rows", "cols"))
    return replace(rows, variants={"cols": replace(both, contracted=("cols",)), "both": both})


def _transfer() -> Workload:
    inward = Workload(
        "transfer", "Transfer", "y = copy of x, between host and device memory or within it", ("bytes",), {"bytes": 2**24},
        (Array("x", ("bytes",)),), (Array("y", ("bytes",)),), lambda sizes: 0, dtypes=("int8",), integer_result=True, sampled=("bytes",),
        memory={"x": "pinned_host"}, moves=True, options={"direction": ("host_to_device", "device_to_host", "resident")})
    return replace(inward, variants={"device_to_host": replace(inward, memory={"y": "pinned_host"}), "resident": replace(inward, memory={})})


def _train_step() -> Workload:
    linear = Workload(
        "train_step", "Training step", "gradient descent on the mean squared error of x @ weights + bias, or of two layers",
        ("batch", "in", "out"), {"batch": 256, "in": 32, "out": 8},
        (Array("x", ("batch", "in")), Array("target", ("batch", "out")), Array("weights", ("in", "out")), Array("bias", ("out",))),
        (Array("loss", ()), Array("new_weights", ("in", "out")), Array("new_bias", ("out",))),
        _linear_flops, dtypes=FLOATS, strategies=ALL_STRATEGIES, contracted=("batch", "in"), terms=lambda sizes: sizes["batch"] + sizes["in"],
        uses_precision=True, function="linear_step", between=(Array("prediction", ("batch", "out")),), mapped="batch",
        derived=(("target", "teacher", ("x", "target")),), constants={"LEARNING_RATE": 0.2},
        carried=(("new_weights", "weights"), ("new_bias", "bias")), curve="loss",
        options={"model": ("linear", "two-layer"), "steps": Whole(0, 0, 100_000)})
    parameters = (("w1", ("in", "hidden")), ("b1", ("hidden",)), ("w2", ("hidden", "out")), ("b2", ("out",)))
    two_layer = replace(
        linear, dims=("batch", "in", "hidden", "out"), defaults={"batch": 256, "in": 32, "hidden": 128, "out": 8},
        operands=(*linear.operands[:2], *(Array(name, dims) for name, dims in parameters)),
        results=(linear.results[0], *(Array(f"new_{name}", dims) for name, dims in parameters)),
        flops=_two_layer_flops, contracted=("batch", "in", "hidden"), terms=lambda sizes: sum(sizes.values()), function="two_layer_step",
        between=(Array("prediction", ("batch", "out")), Array("activation", ("batch", "hidden"))),
        carried=tuple((f"new_{name}", name) for name, _ in parameters))
    return replace(linear, variants={"two-layer": two_layer})


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "array", "Array", "array", ARRAY_DIMS, {"d0": 4, "d1": 8}, (Array("array", ARRAY_DIMS),), (), lambda sizes: 0,
            optional_dims=ARRAY_DIMS[1:], strategies=("place",), default_strategies=("place",), is_bare_array=True),
        Workload(
            "elementwise", "Elementwise", "y = 2 sin(x) + 1", ("rows", "cols"), {"rows": 4096, "cols": 1024},
            (Array("x", ("rows", "cols")),), (Array("y", ("rows", "cols")),),
            lambda sizes: 3 * sizes["rows"] * sizes.get("cols", 1), optional_dims=("cols",), strategies=ALL_STRATEGIES, sampled=("rows",)),
        Workload(
            "contraction", "Contraction", "y = sum of x over rows", ("rows", "cols"), {"rows": 4096, "cols": 1024},
            (Array("x", ("rows", "cols")),), (Array("y", ("cols",)),), lambda sizes: (sizes["rows"] - 1) * sizes.get("cols", 1),
            optional_dims=("cols",), strategies=ALL_STRATEGIES, contracted=("rows",), integer_result=True, sampled=("cols",)),
        Workload(
            "layer", "Dense layer", "y = sigmoid(x @ weights + bias)", ("batch", "in", "out"), {"in": 32, "out": 4},
            (Array("x", ("batch", "in")), Array("weights", ("in", "out")), Array("bias", ("out",))), (Array("y", ("batch", "out")),),
            _layer_flops, optional_dims=("batch",), dtypes=FLOATS, strategies=ALL_STRATEGIES, contracted=("in",), uses_precision=True,
            sampled=("batch", "out"), cut="in"),
        Workload(
            "dot", "Dot products", "y = v · u, row by row", ("n", "k"), {"n": 4096, "k": 128},
            (Array("v", ("n", "k")), Array("u", ("n", "k"))), (Array("y", ("n",)),), lambda sizes: 2 * sizes["n"] * sizes["k"],
            strategies=ALL_STRATEGIES, default_strategies=WITH_MAP, contracted=("k",), integer_result=True, uses_precision=True, sampled=("n",)),
        Workload(
            "matmul", "Matrix products", "y = a @ b + c", ("batch", "m", "k", "n"), {"batch": 16, "m": 128, "k": 128, "n": 128},
            (Array("a", ("batch", "m", "k")), Array("b", ("batch", "k", "n")), Array("c", ("batch", "m", "n"))), (Array("y", ("batch", "m", "n")),),
            _matmul_flops, optional_dims=("batch",), strategies=ALL_STRATEGIES, default_strategies=WITH_MAP, contracted=("k",),
            integer_result=True, uses_precision=True, sampled=("m",)),
        Workload(
            "convolve", "Convolution", "y = x convolved with a kernel, row by row", ("rows", "length", "width"),
            {"rows": 64, "length": 4096, "width": 5}, (Array("x", ("rows", "length")), Array("kernel", ("width",))),
            (Array("y", ("rows", "length")),), lambda sizes: 2 * sizes["rows"] * sizes["length"] * sizes["width"], dtypes=FLOATS,
            strategies=ALL_STRATEGIES, contracted=("width",), uses_precision=True, gathered=("width",), halo=("length", "width"),
            at_most=(("width", "length"),), sampled=("rows",)),
        _normalize(),
        Workload(
            "mlp", "Two dense layers", "y = relu(x @ w1 + b1) @ w2 + b2", ("batch", "in", "hidden", "out"),
            {"batch": 64, "in": 128, "hidden": 512, "out": 128},
            (Array("x", ("batch", "in")), Array("w1", ("in", "hidden")), Array("b1", ("hidden",)), Array("w2", ("hidden", "out")),
             Array("b2", ("out",))), (Array("y", ("batch", "out")),),
            _mlp_flops, dtypes=FLOATS, strategies=ALL_STRATEGIES, contracted=("in", "hidden"), terms=lambda sizes: sizes["in"] + sizes["hidden"],
            uses_precision=True, between=(Array("activation", ("batch", "hidden")),), sampled=("batch",), cut="hidden"),
        ATTENTION,
        TRANSFORMER_BLOCK,
        _train_step(),
        _transfer(),
        Workload(
            "program", "Small program", "a registered program", (), {}, (), (), lambda sizes: 0,
            strategies=("as_written",), default_strategies=("as_written",), is_small_program=True),
        DECODER,
    )
}


def workload_names(wait_s: float | None = SHORT_WAIT_S) -> tuple[str, ...]:
    """Names of all workloads, the user's own last; `wait_s` bounds the wait for files that are still being loaded."""
    return (*WORKLOADS, *files.workloads(wait_s))


def has_plan(name: str) -> bool:
    """Whether a name, which may be of no workload, is of one whose program follows from a plan."""
    return name in WORKLOADS and WORKLOADS[name].has_plan


def get_workload(name: str, source: str | None = None) -> Workload:
    """The workload of that name; RequestError where there is none. `source` is the hash of the user's file that declared it."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    if (found := files.find(name, source)) is not None:
        return found
    raise refuse(f"workload {shorten(name)}", f"does not exist{files.why_missing(name, source)}", f"use one of {', '.join(workload_names())}")

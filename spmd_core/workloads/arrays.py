"""The workloads on plain arrays: sums, products, layers and transfers, each with its FLOPs."""

from dataclasses import replace

from spmd_core.fields import Choice
from spmd_core.workloads.strategies import ALL_STRATEGIES, WITH_MAP
from spmd_core.workloads.workload import FLOATS, Array, AtMost, Dims, Program, Workload

ARRAY_DIMS = ("d0", "d1", "d2", "d3", "d4", "d5")
_X, _Y = Array("x", ("rows", "cols")), Array("y", ("rows", "cols"))


ARRAY = Workload(
    name="array",
    title="Array",
    formula="array",
    kind="array",
    dims=ARRAY_DIMS,
    defaults={"d0": 4, "d1": 8},
    optional_dims=ARRAY_DIMS[1:],
    operands=(Array("array", ARRAY_DIMS),),
    results=(),
    flops=lambda sizes: 0,
    strategies=("place",),
    default_strategies=("place",),
)


def _elementwise_flops(sizes: Dims) -> int:
    return 3 * sizes["rows"] * sizes.get("cols", 1)


ELEMENTWISE = Workload(
    name="elementwise",
    title="Elementwise",
    formula="y = 2 sin(x) + 1",
    dims=("rows", "cols"),
    defaults={"rows": 4096, "cols": 1024},
    optional_dims=("cols",),
    operands=(_X,),
    results=(_Y,),
    flops=_elementwise_flops,
    strategies=ALL_STRATEGIES,
    sampled=("rows",),
)


CONTRACTION = Workload(
    name="contraction",
    title="Contraction",
    formula="y = sum of x over rows",
    dims=("rows", "cols"),
    defaults={"rows": 4096, "cols": 1024},
    optional_dims=("cols",),
    operands=(_X,),
    results=(Array("y", ("cols",)),),
    flops=lambda sizes: (sizes["rows"] - 1) * sizes.get("cols", 1),
    strategies=ALL_STRATEGIES,
    contracted=("rows",),
    integer_result=True,
    sampled=("cols",),
)


def _layer_flops(sizes: Dims) -> int:
    """The product; then bias, and negate, exp, add and divide of the sigmoid."""
    rows = sizes.get("batch", 1)
    return 2 * rows * sizes["in"] * sizes["out"] + 5 * rows * sizes["out"]


LAYER = Workload(
    name="layer",
    title="Dense layer",
    formula="y = sigmoid(x @ weights + bias)",
    dims=("batch", "in", "out"),
    defaults={"in": 32, "out": 4},
    optional_dims=("batch",),
    operands=(
        Array("x", ("batch", "in")),
        Array("weights", ("in", "out")),
        Array("bias", ("out",)),
    ),
    results=(Array("y", ("batch", "out")),),
    flops=_layer_flops,
    dtypes=FLOATS,
    strategies=ALL_STRATEGIES,
    contracted=("in",),
    uses_precision=True,
    sampled=("batch", "out"),
    sharded_dim="in",
)


DOT = Workload(
    name="dot",
    title="Dot products",
    formula="y = v · u, row by row",
    dims=("n", "k"),
    defaults={"n": 4096, "k": 128},
    operands=(Array("v", ("n", "k")), Array("u", ("n", "k"))),
    results=(Array("y", ("n",)),),
    flops=lambda sizes: 2 * sizes["n"] * sizes["k"],
    strategies=ALL_STRATEGIES,
    default_strategies=WITH_MAP,
    contracted=("k",),
    integer_result=True,
    uses_precision=True,
    sampled=("n",),
)


PRODUCT = Workload(
    name="product",
    title="Matrix product",
    formula="y = a @ b",
    dims=("m", "k", "n"),
    defaults={"m": 256, "k": 256, "n": 256},
    operands=(Array("a", ("m", "k")), Array("b", ("k", "n"))),
    results=(Array("y", ("m", "n")),),
    flops=lambda sizes: 2 * sizes["m"] * sizes["k"] * sizes["n"],
    strategies=ALL_STRATEGIES,
    default_strategies=WITH_MAP,
    program=Program(file="matmul"),
    contracted=("k",),
    integer_result=True,
    uses_precision=True,
    sampled=("m",),
)


MATMUL = Workload(
    name="matmul",
    title="Matrix products and a sum",
    formula="y = a @ b + c",
    dims=("batch", "m", "k", "n"),
    defaults={"batch": 16, "m": 128, "k": 128, "n": 128},
    optional_dims=("batch",),
    operands=(
        Array("a", ("batch", "m", "k")),
        Array("b", ("batch", "k", "n")),
        Array("c", ("batch", "m", "n")),
    ),
    results=(Array("y", ("batch", "m", "n")),),
    flops=lambda sizes: sizes.get("batch", 1) * sizes["m"] * sizes["n"] * (2 * sizes["k"] + 1),
    strategies=ALL_STRATEGIES,
    default_strategies=WITH_MAP,
    contracted=("k",),
    integer_result=True,
    uses_precision=True,
    sampled=("m",),
)


CONVOLVE = Workload(
    name="convolve",
    title="Convolution",
    formula="y = x convolved with a kernel, row by row",
    dims=("rows", "length", "width"),
    defaults={"rows": 64, "length": 4096, "width": 5},
    operands=(Array("x", ("rows", "length")), Array("kernel", ("width",))),
    results=(Array("y", ("rows", "length")),),
    flops=lambda sizes: 2 * sizes["rows"] * sizes["length"] * sizes["width"],
    dtypes=FLOATS,
    strategies=ALL_STRATEGIES,
    contracted=("width",),
    uses_precision=True,
    program=Program(gathered=("width",), halo=("length", "width")),
    size_rules=(AtMost("width", "length"),),
    sampled=("rows",),
)


def _normalize() -> Workload:
    """Over rows; the options cols and both change what is summed over."""
    rows = Workload(
        name="normalize",
        title="Normalize",
        formula="y = x / sum of |x| over rows, columns or both",
        dims=("rows", "cols"),
        defaults={"rows": 4096, "cols": 1024},
        optional_dims=("cols",),
        operands=(_X,),
        results=(_Y,),
        flops=_elementwise_flops,  # magnitude, add and divide
        dtypes=FLOATS,
        strategies=ALL_STRATEGIES,
        contracted=("rows",),
        sampled=("rows",),
        options={"over": Choice(("rows", "cols", "both"))},
    )
    both = replace(rows, optional_dims=(), contracted=("rows", "cols"))
    return replace(rows, variants={"cols": replace(both, contracted=("cols",)), "both": both})


NORMALIZE = _normalize()


def _mlp_flops(sizes: Dims) -> int:
    """Two products; the bias of both, and the relu of the first."""
    hidden = sizes["hidden"] * (2 * sizes["in"] + 2)
    return sizes["batch"] * (hidden + sizes["out"] * (2 * sizes["hidden"] + 1))


def _pipeline_flops(sizes: Dims) -> int:
    """A product for each layer; tanh and the sum."""
    rows = sizes["microbatches"] * sizes["rows"] * sizes["repeats"] * sizes["stages"]
    return rows * sizes["embed"] * (2 * sizes["embed"] + 2)


_ACTIVATION = Array("activation", ("batch", "hidden"))
MLP = Workload(
    name="mlp",
    title="Two dense layers",
    formula="y = relu(x @ w1 + b1) @ w2 + b2",
    dims=("batch", "in", "hidden", "out"),
    defaults={"batch": 64, "in": 128, "hidden": 512, "out": 128},
    operands=(
        Array("x", ("batch", "in")),
        Array("w1", ("in", "hidden")),
        Array("b1", ("hidden",)),
        Array("w2", ("hidden", "out")),
        Array("b2", ("out",)),
    ),
    results=(Array("y", ("batch", "out")),),
    flops=_mlp_flops,
    dtypes=FLOATS,
    strategies=ALL_STRATEGIES,
    contracted=("in", "hidden"),
    uses_precision=True,
    program=Program(
        between=(_ACTIVATION,),
        passes=((("w1",), (_ACTIVATION,)), (("w2",), ()), (("x",), (_ACTIVATION,))),
    ),
    sampled=("batch",),
    sharded_dim="hidden",
)


def _transfer() -> Workload:
    """From host to device memory; the options reverse it, or copy within the device."""
    inward = Workload(
        name="transfer",
        title="Transfer",
        kind="transfer",
        formula="y = copy of x, between host and device memory or within it",
        dims=("bytes",),
        defaults={"bytes": 2**24},
        operands=(Array("x", ("bytes",)),),
        results=(Array("y", ("bytes",)),),
        flops=lambda sizes: 0,
        dtypes=("int8",),
        integer_result=True,
        sampled=("bytes",),
        memory={"x": "pinned_host"},
        options={"direction": Choice(("host_to_device", "device_to_host", "resident"))},
    )
    return replace(
        inward,
        variants={
            "device_to_host": replace(inward, memory={"y": "pinned_host"}),
            "resident": replace(inward, memory={}),
        },
    )


TRANSFER = _transfer()


_LAYERS = ("repeats", "stages", "embed", "embed")
PIPELINE = Workload(
    name="pipeline",
    title="Layers in a pipeline",
    formula="y = x + tanh(x @ weights), layer by layer: those of all stages, `repeats` times",
    dims=("microbatches", "rows", "repeats", "stages", "embed"),
    defaults={"microbatches": 16, "rows": 32, "repeats": 2, "stages": 8, "embed": 64},
    operands=(
        Array("x", ("microbatches", "rows", "embed"), unsharded=("embed",)),
        Array("weights", _LAYERS, unsharded=("repeats", "embed")),
    ),
    results=(Array("y", ("microbatches", "rows", "embed"), unsharded=("embed",)),),
    flops=_pipeline_flops,
    dtypes=FLOATS,
    uses_precision=True,
    program=Program(
        between=(Array("gathered", _LAYERS, unsharded=("repeats", "stages", "embed")),),
        derived=(("weights", "initialized", ("weights",)),),
    ),
    draws=("normal",),
    sharded_dim="stages",
)


# Add a workload above this line.

# In the order in which they are offered.
ROWS = (
    ARRAY,
    ELEMENTWISE,
    CONTRACTION,
    LAYER,
    DOT,
    PRODUCT,
    MATMUL,
    CONVOLVE,
    NORMALIZE,
    MLP,
    PIPELINE,
    # Add a workload's name above this line.
)

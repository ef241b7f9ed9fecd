"""Parts of a transformer and of its training as workloads: attention, a block, a training step."""

from dataclasses import replace

from spmd_core.fields import Choice, Integer
from spmd_core.workloads.strategies import ALL_STRATEGIES, SEQUENCE_STRATEGIES
from spmd_core.workloads.workload import FLOATS, Array, Dims, Divides, Program, Training, Workload

# unsharded along embed: the table's entry for it shards the weights
_STREAM = ("batch", "sequence", "embed")
_HEADS = ("batch", "sequence", "heads", "head_dim")
_KV_HEADS = ("batch", "sequence", "kv_heads", "head_dim")
_BETWEEN = (
    Array("gathered", _KV_HEADS, unsharded=("sequence",)),
    Array("shared", _HEADS, unsharded=("sequence",)),
    # one query head per key head: a dim of size 1, written as kv_heads, is unsharded; so are the
    # keys, the last dim of scores
    Array("scores", ("batch", "heads", "kv_heads", "sequence"), unsharded=("kv_heads",)),
    Array("mixed", ("batch", "sequence", "heads", "kv_heads", "head_dim"), unsharded=("kv_heads",)),
)

_SCORES = Array("scores", ("batch", "heads", "sequence", "sequence"))  # with their real magnitude


def _attention_flops(sizes: Dims) -> int:
    """Scores of all pairs, those that are masked too, since they are computed; softmax and scale as
    five operations each.
    """
    pairs = sizes["batch"] * sizes["heads"] * sizes["sequence"] ** 2
    return pairs * (4 * sizes["head_dim"] + 5)


def _block_flops(sizes: Dims) -> int:
    """Two for each weight and token; attention; norms, residuals and the gate, element by element."""
    embed, mlp = sizes["embed"], sizes["mlp"]
    weights = 2 * embed * sizes["head_dim"] * (sizes["heads"] + sizes["kv_heads"]) + 3 * embed * mlp
    return sizes["batch"] * sizes["sequence"] * (
        2 * weights + 12 * embed + 6 * mlp
    ) + _attention_flops(sizes)


_CAUSAL = Workload(
    name="attention",
    title="Attention",
    formula="out = causal softmax(query · key / sqrt(head_dim)) @ value",
    dims=("batch", "sequence", "heads", "kv_heads", "head_dim"),
    defaults={"batch": 8, "sequence": 256, "heads": 8, "kv_heads": 8, "head_dim": 64},
    size_rules=(Divides("kv_heads", "heads"),),
    operands=(Array("query", _HEADS), Array("key", _KV_HEADS), Array("value", _KV_HEADS)),
    results=(Array("out", _HEADS),),
    flops=_attention_flops,
    dtypes=FLOATS,
    strategies=(*ALL_STRATEGIES, *SEQUENCE_STRATEGIES),
    contracted=("sequence", "head_dim"),
    uses_precision=True,
    program=Program(between=_BETWEEN, passes=((("query", "key"), (_SCORES,)), (("value",), ()))),
    draws=("normal", "ones"),
    sampled=("sequence",),
    sharded_dim="heads",
    options={
        "mask": Choice(
            ("causal", "full"),
            label="Mask",
            help="of queries and keys: up to a query's own position, or all",
            later=True,
        )
    },
)
_FULL = replace(
    _CAUSAL,
    formula="out = softmax(query · key / sqrt(head_dim)) @ value",
    program=replace(_CAUSAL.program, constants={"CAUSAL": False}),
)
ATTENTION = replace(_CAUSAL, variants={"full": _FULL})

_WEIGHTS = {
    "query": ("embed", "heads", "head_dim"),
    "key": ("embed", "kv_heads", "head_dim"),
    "value": ("embed", "kv_heads", "head_dim"),
    "out": ("heads", "head_dim", "embed"),
    "gate": ("embed", "mlp"),
    "up": ("embed", "mlp"),
    "down": ("mlp", "embed"),
}


def _weights(*names: str) -> tuple[Array, ...]:
    return tuple(Array(f"{name}_weights", _WEIGHTS[name]) for name in names)


_QUERY, _KEY = Array("query", _HEADS), Array("key", _KV_HEADS)
_HIDDEN = Array("hidden", ("batch", "sequence", "mlp"))
_INITIALIZED = tuple(
    (f"{name}_weights", "initialized_out" if name == "out" else "initialized", (f"{name}_weights",))
    for name in _WEIGHTS
)

TRANSFORMER_BLOCK = Workload(
    name="transformer_block",
    title="Transformer block",
    formula="h = x + attention(norm(x)); y = h + mlp(norm(h))",
    dims=("batch", "sequence", "embed", "heads", "kv_heads", "head_dim", "mlp"),
    defaults={
        "batch": 8,
        "sequence": 128,
        "embed": 256,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 32,
        "mlp": 512,
    },
    size_rules=(Divides("kv_heads", "heads"),),
    operands=(
        Array("x", _STREAM, unsharded=("embed",)),
        Array("attention_scale", ("embed",), unsharded=("embed",)),
        *_weights("query", "key", "value", "out"),
        Array("mlp_scale", ("embed",), unsharded=("embed",)),
        *_weights("gate", "up", "down"),
    ),
    results=(Array("y", _STREAM, unsharded=("embed",)),),
    flops=_block_flops,
    dtypes=FLOATS,
    strategies=ALL_STRATEGIES,
    contracted=("embed", "heads", "head_dim", "mlp", "sequence"),
    uses_precision=True,
    program=Program(
        between=(*_BETWEEN, _QUERY, _KEY, _HIDDEN),
        gathered=("embed",),
        derived=_INITIALIZED,
        passes=(
            (("x",), (_KEY, _SCORES)),
            (("query_weights",), (_QUERY, _SCORES)),
            (("key_weights",), (_KEY, _SCORES)),
            (("value_weights",), (_KEY, _QUERY)),
            (("out_weights", "down_weights"), ()),
            (("gate_weights", "up_weights"), (_HIDDEN,)),
        ),
    ),
    draws=("normal",),
    sampled=("sequence",),
    sharded_dim="heads",
)


def _linear_flops(sizes: Dims) -> int:
    """The product and its gradient; the loss; the step."""
    batch, terms, out = (sizes[dim] for dim in ("batch", "in", "out"))
    return 4 * batch * terms * out + 7 * batch * out + 2 * out * (terms + 1)


def _two_layer_flops(sizes: Dims) -> int:
    """The products and their gradients; the loss and the relu; the step."""
    batch, terms, hidden, out = (sizes[dim] for dim in ("batch", "in", "hidden", "out"))
    products = 4 * batch * terms * hidden + 6 * batch * hidden * out
    step = 2 * (hidden * (terms + 1) + out * (hidden + 1))
    return products + 7 * batch * (hidden + out) + step


_LINEAR = (("weights", ("in", "out")), ("bias", ("out",)))
_TWO_LAYER = (
    ("w1", ("in", "hidden")),
    ("b1", ("hidden",)),
    ("w2", ("hidden", "out")),
    ("b2", ("out",)),
)
Parameters = tuple[tuple[str, tuple[str, ...]], ...]  # (name, dims)


def _operands(parameters: Parameters) -> tuple[Array, ...]:
    return (
        Array("x", ("batch", "in")),
        Array("target", ("batch", "out")),
        *(Array(name, dims) for name, dims in parameters),
    )


def _results(parameters: Parameters) -> tuple[Array, ...]:
    return (Array("loss", ()), *(Array(f"new_{name}", dims) for name, dims in parameters))


def _fed_back(parameters: Parameters) -> Training:
    return Training(carried=tuple((f"new_{name}", name) for name, _ in parameters), curve="loss")


def _train_step() -> Workload:
    prediction = Array("prediction", ("batch", "out"))
    program = Program(
        function="linear_step",
        between=(prediction,),
        derived=(("target", "teacher", ("x", "target")),),
        constants={"LEARNING_RATE": 0.2},
    )
    linear = Workload(
        name="train_step",
        title="Training step",
        formula="gradient descent on the mean squared error of x @ weights + bias, or of two "
        "layers",
        dims=("batch", "in", "out"),
        defaults={"batch": 256, "in": 32, "out": 8},
        operands=_operands(_LINEAR),
        results=_results(_LINEAR),
        flops=_linear_flops,
        dtypes=FLOATS,
        strategies=ALL_STRATEGIES,
        contracted=("batch", "in"),
        uses_precision=True,
        program=program,
        mapped="batch",
        training=_fed_back(_LINEAR),
        options={"model": Choice(("linear", "two-layer")), "steps": Integer(0, 0, 100_000)},
    )
    activation = Array("activation", ("batch", "hidden"))
    two_layer = replace(
        linear,
        dims=("batch", "in", "hidden", "out"),
        defaults={"batch": 256, "in": 32, "hidden": 128, "out": 8},
        operands=_operands(_TWO_LAYER),
        results=_results(_TWO_LAYER),
        flops=_two_layer_flops,
        contracted=("batch", "in", "hidden"),
        program=replace(program, function="two_layer_step", between=(prediction, activation)),
        training=_fed_back(_TWO_LAYER),
    )
    return replace(linear, variants={"two-layer": two_layer})


TRAIN_STEP = _train_step()

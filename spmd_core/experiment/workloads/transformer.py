"""Parts of a transformer as workloads: causal attention, and one block."""

from dataclasses import replace

from spmd_core.experiment.fields import Choice
from spmd_core.experiment.workloads.strategies import ALL_STRATEGIES, SEQUENCE_STRATEGIES
from spmd_core.experiment.workloads.workload import FLOATS, Array, Dims, Divides, Program, Workload

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

"""Experiments that communicate, as specs: for the benches that read what compiling them comes to."""

from typing import Any

STRATEGIES = ("auto", "constrained", "explicit", "shard_map")
MESHES = {"tpu:v5e:4x4": {"x": 4, "y": 4}, "tpu:v5p:2x2x2": {"x": 2, "y": 4}}

_BLOCK = {
    "batch": 16,
    "sequence": 512,
    "embed": 1024,
    "heads": 16,
    "kv_heads": 16,
    "head_dim": 64,
    "mlp": 4096,
}
_MLP = {"batch": 1024, "in": 2048, "hidden": 8192, "out": 2048}
_LAYER = {"batch": 1024, "in": 4096, "out": 4096}
_STEP = {"batch": 1024, "in": 2048, "out": 2048}
_ATTENTION = {"batch": 16, "sequence": 1024, "heads": 16, "kv_heads": 16, "head_dim": 64}
_PRODUCT = {"batch": 4, "m": 1024, "k": 2048, "n": 1024}
_FSDP_BLOCK = {
    f"{name}_weights": axes
    for name, axes in (
        ("query", ["x", None, None]),
        ("key", ["x", None, None]),
        ("value", ["x", None, None]),
        ("out", [None, None, "x"]),
        ("gate", ["x", None]),
        ("up", ["x", None]),
        ("down", [None, "x"]),
    )
}


def _spec(
    workload: str, dims: dict[str, int], sharding: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {"workload": workload, "dims": dims, "sharding": sharding, "dtype": "bfloat16"} | more


# 25: sums, gathers, exchanges and halos, of one axis, of the other, and of both.
EXPERIMENTS: tuple[dict[str, Any], ...] = (
    _spec("layer", _LAYER, {"in": "x"}),
    _spec("layer", _LAYER, {"in": ["x", "y"]}),
    _spec("layer", _LAYER, {"batch": "x", "in": "y"}),
    _spec("layer", _LAYER, {"batch": "x", "out": "y"}, overrides={"y": ["x", None]}),
    _spec("layer", _LAYER, {"batch": "x"}, overrides={"y": [None, "x"]}),
    _spec("contraction", {"rows": 4096, "cols": 2048}, {"rows": "x"}),
    _spec("contraction", {"rows": 4096, "cols": 2048}, {"rows": "x", "cols": "y"}),
    _spec("contraction", {"rows": 4096, "cols": 2048}, {"rows": ["y", "x"]}),
    _spec("elementwise", {"rows": 4096, "cols": 2048}, {"rows": "x"}, overrides={"y": [None, "x"]}),
    _spec("dot", {"n": 8192, "k": 2048}, {"k": "y", "n": "x"}),
    _spec("matmul", _PRODUCT, {"k": "x"}),
    _spec("matmul", _PRODUCT, {"k": "y", "m": "x"}),
    _spec("matmul", _PRODUCT, {"m": "x", "n": "y"}, overrides={"y": [None, "x", None]}),
    _spec("convolve", {"rows": 512, "length": 8192, "width": 9}, {"length": "x"}, dtype="float32"),
    _spec("convolve", {"rows": 512, "length": 8192, "width": 9}, {"length": "y", "rows": "x"}),
    _spec("normalize", {"rows": 8192, "cols": 2048}, {"rows": "x"}),
    _spec(
        "normalize",
        {"rows": 8192, "cols": 2048},
        {"rows": "x", "cols": "y"},
        options={"over": "both"},
    ),
    _spec("mlp", _MLP, {"hidden": "x"}),
    _spec("mlp", _MLP, {"hidden": "x", "batch": "y"}),
    _spec("mlp", _MLP, {"in": "x", "hidden": "y"}),
    _spec("attention", _ATTENTION, {"sequence": "x"}),
    _spec("attention", _ATTENTION, {"sequence": "x", "heads": "y", "kv_heads": "y"}),
    _spec("transformer_block", _BLOCK, {"heads": "x", "kv_heads": "x", "mlp": "x"}),
    _spec("transformer_block", _BLOCK, {"batch": "y", "heads": "x", "kv_heads": "x", "mlp": "x"}),
    _spec("train_step", _STEP, {"batch": "x", "in": "y"}, dtype="float32"),
)

# 12: the batch and the parameters sharded over one axis, so that parameters are gathered.
FSDP_LIKE: tuple[dict[str, Any], ...] = (
    _spec(
        "layer",
        {"batch": 8192, "in": 8192, "out": 8192},
        {"batch": "x"},
        overrides={"weights": ["x", None]},
    ),
    _spec(
        "layer",
        {"batch": 8192, "in": 8192, "out": 8192},
        {"batch": "x", "out": "y"},
        overrides={"weights": ["x", "y"]},
    ),
    _spec(
        "mlp",
        {"batch": 4096, "in": 4096, "hidden": 16384, "out": 4096},
        {"batch": "x"},
        overrides={"w1": ["x", None], "w2": [None, "x"]},
    ),
    _spec(
        "mlp",
        {"batch": 4096, "in": 4096, "hidden": 16384, "out": 4096},
        {"batch": "x", "hidden": "y"},
        overrides={"w1": ["x", "y"], "w2": ["y", "x"]},
    ),
    _spec(
        "mlp",
        {"batch": 16384, "in": 2048, "hidden": 8192, "out": 2048},
        {"batch": ["x", "y"]},
        overrides={"w1": [["x", "y"], None], "w2": [None, ["x", "y"]]},
    ),
    _spec("transformer_block", _BLOCK, {"batch": "x"}, overrides=_FSDP_BLOCK),
    _spec(
        "transformer_block",
        _BLOCK | {"batch": 64, "sequence": 1024},
        {"batch": "x"},
        overrides=_FSDP_BLOCK,
    ),
    _spec(
        "transformer_block",
        _BLOCK | {"embed": 2048, "mlp": 8192},
        {"batch": "x"},
        overrides=_FSDP_BLOCK,
    ),
    _spec(
        "train_step",
        {"batch": 8192, "in": 4096, "out": 4096},
        {"batch": "x"},
        overrides={"weights": ["x", None], "new_weights": ["x", None]},
    ),
    _spec(
        "train_step",
        {"batch": 8192, "in": 2048, "hidden": 8192, "out": 2048},
        {"batch": "x"},
        options={"model": "two-layer"},
        overrides={
            "w1": ["x", None],
            "w2": [None, "x"],
            "new_w1": ["x", None],
            "new_w2": [None, "x"],
        },
    ),
    _spec("matmul", {"m": 8192, "k": 8192, "n": 8192}, {"m": "x"}, overrides={"b": ["x", None]}),
    _spec(
        "layer",
        {"batch": 16384, "in": 4096, "out": 16384},
        {"batch": ["x", "y"]},
        overrides={"weights": [["x", "y"], None]},
    ),
)

# 3 over two slices, whose transfers go through the data center network.
SLICES: tuple[dict[str, Any], ...] = tuple(
    spec | {"target": "tpu:v5e:2x4*2", "mesh": {"data": 2, "x": 8}}
    for spec in (
        _spec("train_step", {"batch": 8192, "in": 2048, "out": 2048}, {"batch": ["data", "x"]}),
        _spec("mlp", _MLP, {"hidden": "data", "batch": "x"}),
        _spec("contraction", {"rows": 4096, "cols": 2048}, {"rows": ["data", "x"]}),
    )
)


def on(spec: dict[str, Any], target: str) -> dict[str, Any]:
    """A spec on a target and its mesh."""
    return spec | {"target": target, "mesh": MESHES[target]}

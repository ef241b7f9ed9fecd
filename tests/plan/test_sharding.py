"""The table of how a decoder is cut, against the program's own shardings."""

import math
import re
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from spmd_core.plan.hybrid_presets import HYBRID
from spmd_core.plan.sharding import (
    CONTEXT_DIMS,
    KINDS,
    RULES,
    arrays,
    by_dim,
    parameter_share,
    parameters,
    spec,
    undivided_axes,
)
from spmd_core.script.decoder import configuration
from spmd_core.script.programs import decoder_context
from spmd_core.script.programs.decoder_config import (
    TRAIN_RULES,
    Decoder,
    parameter_dims,
    spec as program_spec,
)
from spmd_core.workloads import parse_plan

PLANS = [
    {"target": "tpu:v5e:16x16", "model": "scaled:16", "mesh": {"fsdp": 256}, "batch_per_device": 6},
    {
        "target": "tpu:v5p:4x4x4",
        "model": "scaled:32",
        "mesh": {"fsdp": 16, "tensor": 4},
        "batch_per_device": 6,
        "fused_qkv": True,
        "fused_mlp": True,
    },
    {
        "target": "tpu:v5p:4x4x4",
        "model": "llama-3.1-70b",
        "mesh": {"fsdp": 4, "tensor": 16},
        "batch_per_device": 1,
    },
    {
        "target": "tpu:v5p:4x4x4*2",
        "model": "mixtral-8x7b",
        "mesh": {"data": 2, "fsdp": 8, "expert": 8},
        "batch_per_device": 1,
    },
    {
        "target": "tpu:v5p:4x4x4",
        "model": "deepseek-v3-671b",
        "mesh": {"fsdp": 16, "expert": 4},
        "batch_per_device": 1,
        "mtp_layers": 1,
    },
    *(
        {
            "target": "tpu:v5p:4x4x4",
            "model": size.name,
            "mesh": {"fsdp": 16, "tensor": 4},
            "batch_per_device": 1,
        }
        for size in HYBRID
    ),
    {
        "target": "tpu:v5e:4x4",
        "model": "gpt-3-175b",
        "mesh": {"fsdp_transpose": 4, "sequence": 2, "tensor": 2},
        "batch_per_device": 1,
    },
]


def axes_of(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def test_the_table_is_the_program_s():
    assert dict(RULES) == TRAIN_RULES
    assert CONTEXT_DIMS == decoder_context.CONTEXT_DIMS


@pytest.mark.parametrize("given", PLANS, ids=lambda given: given["model"])
def test_parameters_are_cut_as_the_program_cuts_them(given):
    plan = parse_plan(given)
    config = Decoder(**configuration(plan))
    tree = parameter_dims(config)
    mesh: Any = SimpleNamespace(shape=dict(plan.mesh))
    leaves = {name: [dims] for name, dims in tree.items() if name not in ("stages", "mtp")}
    for stage, (_, times) in zip(tree["stages"], config.blocks, strict=True):
        for part in stage:
            for name, dims in part.items():
                leaves.setdefault(name, []).extend([dims[1:]] * times)
    for part in tree.get("mtp", []):
        for name, dims in part.items():
            leaves.setdefault(name, []).append(dims)
    ours = parameters(plan)
    assert {"embedding", "out", "down", "final_norm"} <= ours.keys()
    for name, (dims, times) in ours.items():
        weight = next((name.removeprefix(kind) for kind in KINDS if name.startswith(kind)), name)
        found = leaves["final_norm"][:1] if name == "final_norm" else leaves[weight]
        assert found.count(dims) == times, name
        assert spec(dims, dict(plan.mesh)) == tuple(
            axes_of(entry) for entry in program_spec(dims, TRAIN_RULES, mesh)
        ), name


def test_what_a_device_holds():
    plan = parse_plan(PLANS[2])
    held = {array.name: (array.axes, array.held(plan.axis_sizes)) for array in arrays(plan)}
    assert held["query"] == ((("fsdp",), ("tensor",), ()), (2048, 4, 128))
    # 8 heads do not divide over tensor=16: every device has all
    assert held["key"] == ((("fsdp",), (), ()), (2048, 8, 128))
    assert held["between the blocks"] == ((("fsdp",), (), ("tensor",)), (16, 2048, 512))


def test_dims_by_the_axes_that_cut_them():
    table = by_dim(parse_plan(PLANS[1]))
    assert list(table) == ["batch", "sequence", "embed", "heads", "mlp", "vocabulary", "norms"]
    assert table["embed"] == {"activations": (("tensor",),), "parameters": (("fsdp",),)}
    assert table["batch"] == {"activations": (("fsdp",),)}
    assert table["sequence"] == {"activations": ((),)}


def plan(target, mesh, model="scaled:1"):
    return parse_plan(
        {"target": f"tpu:{target}", "model": model, "mesh": mesh, "batch_per_device": 1}
    )


def test_an_axis_that_divides_no_dim_leaves_the_parameters_whole_and_is_named():
    whole = plan("v5e:16x16*16", {"fsdp": 4096})
    assert parameter_share(whole) == 1
    assert undivided_axes(whole) == (
        "embed=2048 does not divide over fsdp=4096: parameters are replicated on every device",
    )
    # embed over fsdp, mlp over fsdp_transpose
    half = plan("v5e:16x16*16", {"fsdp": 2048, "fsdp_transpose": 2})
    assert undivided_axes(half) == () and 1 / 4096 < parameter_share(half) < 1 / 2048
    beside = plan("v5p:16x20x28", {"fsdp": 2240, "tensor": 4})
    assert undivided_axes(beside) == (
        "embed=2048 does not divide over fsdp=2240: parameters are not sharded over fsdp",
    )
    assert parameter_share(beside) == 1 / 4


@pytest.mark.parametrize("model", ["llama-2-70b", "qwen3-30b-a3b", "scaled:1"])
def test_a_named_dim_divides_over_no_product_that_is_named(model):
    """An axis may divide a dim, but not what the axes before leave of it."""
    seen = []
    for axis, fsdp in product(("sequence", "expert"), (1024, 8192)):
        mesh = {"fsdp": fsdp, axis: 16384 // fsdp}
        for failed in undivided_axes(plan("v5p:16x16x16*4", mesh, model)):
            dims, axes = (
                [int(number) for number in re.findall("=([0-9]+)", part)]
                for part in failed.partition(": parameters")[0].split(" over ")
            )
            assert all(length % math.prod(axes) for length in dims), failed
            seen.append(len(axes))
    assert max(seen) > 1


def test_where_every_dim_divides_a_device_holds_its_share():
    assert parameter_share(plan("v5e:16x16", {"fsdp": 256}, "scaled:16")) == 1 / 256
    assert parameter_share(plan("v5e:16x16*2", {"data": 2, "fsdp": 256}, "scaled:16")) == 1 / 256
    assert undivided_axes(plan("v5e:16x16*2", {"data": 2, "fsdp": 256}, "scaled:16")) == ()
    # 8 key heads do not divide over 16
    few_keys = plan("v5p:4x4x4", {"fsdp": 4, "tensor": 16}, "llama-3.1-70b")
    keys, others, tables = (
        2 * 8192 * 8 * 128 * 80,
        (2 * 8192 * 64 * 128 + 3 * 8192 * 28672) * 80,
        2 * 8192 * 128256,
    )
    assert parameter_share(few_keys) == pytest.approx(
        (keys / 4 + (others + tables) / 64) / (keys + others + tables)
    )
    assert undivided_axes(few_keys) == ()

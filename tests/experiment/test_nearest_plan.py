"""The nearest training step to a damaged or misfit one: target, mesh, batch, model, options; every
change said.
"""

import pytest
from hypothesis import given, settings, strategies as st

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.workloads import DEFAULT_SPEC

SPEC = DEFAULT_SPEC  # scaled:1 on tpu:v5e:4x4, fsdp=16, batch 32


def with_options(**changes):
    return {"options": SPEC["options"] | changes}


@pytest.mark.parametrize(
    ("change", "field", "wanted", "words"),
    [
        (
            {"mesh": {"fsdp": 15}},
            "mesh",
            (("fsdp", 16),),
            "Mesh fsdp=15 has 15 devices and v5e:4x4 has 16: fsdp=16 is used.",
        ),
        (
            {"mesh": {"data": 3, "tensor": 4}},
            "mesh",
            (("data", 4), ("tensor", 4)),
            "data=4, tensor=4 is used",
        ),
        (
            {"mesh": {"fsdp": 2, "tensor": 2}},
            "mesh",
            (("fsdp", 8), ("tensor", 2)),
            "fsdp=8, tensor=2 is used",
        ),
        ({"mesh": {"x": 16}}, "mesh", (("fsdp", 16),), "not sharded over a mesh axis 'x'"),
        (
            {"mesh": {"tensor": 3}},
            "mesh",
            (("fsdp", 16), ("tensor", 1)),
            "tensor=3 does not divide the heads, mlp and embed of scaled:1",
        ),
        (
            {"mesh": {"stage": 16}, "options": {"model": "gpt-oss-20b"}},
            "mesh",
            (("fsdp", 2), ("stage", 8)),
            "stage=16 is no number of stages of gpt-oss-20b: stage=8 is used.",
        ),
        (
            {"mesh": {"context": 16}, "dims": {"batch": 32, "sequence": 4000}},
            "dims",
            (("batch", 32), ("sequence", 4096)),
            "sequence=4000 does not divide into blocks of 128 over 32 parts: sequence=4096 is used.",
        ),
        (
            {"target": "tpu:v5p:16x16x16*2", "mesh": {"context": 8192}},
            "mesh",
            (("data", 2), ("fsdp", 1), ("context", 4096)),
            "context=8192 leaves less than two blocks of 128 tokens to a part of a sequence",
        ),
        (
            {"target": "tpu:v5p:16x16x16*4", "mesh": {"sequence": 16384}},
            "mesh",
            (("data", 4), ("fsdp", 1), ("sequence", 4096)),
            "sequence=16384 leaves less than a block of 128 tokens to a part of a sequence",
        ),
        (
            {
                "target": "tpu:v5p:16x16x16*2",
                "mesh": {"sequence": 8192},
                "dims": {"batch": 32, "sequence": 2**20},
                "options": {"model": "lama-3.1-8b"},
            },
            "mesh",
            (("sequence", 8192),),
            "Model 'lama-3.1-8b' does not exist",
        ),
        (
            {"target": "gpu:any:8", "mesh": {"fsdp": 8}},
            "target",
            "gpu:h100:8",
            "GPU 'any' has no data sheet here",
        ),
        (
            {"target": "tpu:v5e:3x5"},
            "target",
            "tpu:v5e:4x4",
            "Topology v5e:3x5 is not a shape of TPU v5e",
        ),
        (
            {"target": "tpu:v7:2x2", "mesh": {"fsdp": 4}},
            "target",
            "tpu:tpu7x:2x2x1",
            "Generation 'v7' is not one that the TPU compiler knows",
        ),
        (
            {"target": "tpu:v5e:4x5*2", "mesh": {"fsdp": 32}},
            "target",
            "tpu:v5e:4x4*2",
            "tpu:v5e:4x4*2 is used",
        ),
        ({"target": "tpu:v5e:4x4*999"}, "target", "tpu:v5e:4x4*256", "999 slices are out of range"),
        ({"target": "tpu:v9:4x4"}, "target", "tpu:v5e:4x4", "Generation 'v9'"),
        ({"target": "cpu:8"}, "target", "tpu:v5e:4x4", "Target 'cpu:8' is not a TPU topology"),
        ({"target": "moon"}, "target", "tpu:v5e:4x4", "Target 'moon' is not a place to run"),
        ({"target": None}, "target", "tpu:v5e:4x4", "is used"),
        (
            {"dims": {"batch": 30}},
            "dims",
            (("batch", 32), ("sequence", 2048)),
            "batch=30 does not divide over fsdp=16: batch=32 is used.",
        ),
        (
            {"dims": {"batch": 1}},
            "dims",
            (("batch", 16), ("sequence", 2048)),
            "batch=1 does not divide over fsdp=16",
        ),
        (
            {"dims": {"batch": 32, "sequence": 2000}},
            "dims",
            (("batch", 32), ("sequence", 1920)),
            "sequence=2000 does not divide into blocks of 128",
        ),
        (
            {"dims": {"batch": 32, "depth": 2}},
            "dims",
            (("batch", 32), ("sequence", 2048)),
            "Dim 'depth' is not one of decoder",
        ),
        (
            {"dims": {"batch": "many"}},
            "dims",
            (("batch", 32), ("sequence", 2048)),
            "batch='many' is not a size",
        ),
        (
            with_options(model="llama3-8b"),
            "model",
            "llama-3.1-8b",
            "Model 'llama3-8b' does not exist",
        ),
        (with_options(model="Llama-2-70"), "model", "llama-2-70b", "llama-2-70b is used"),
        (
            with_options(model="scaled:3"),
            "model",
            "scaled:2",
            "Model scaled:3 is not a power of two",
        ),
        (with_options(model="scaled:99999"), "model", "scaled:65536", "is not a power of two"),
        (with_options(model="zzz"), "model", "scaled:1", "Model 'zzz' does not exist"),
        (
            with_options(remat="often"),
            "remat",
            "full",
            "Option remat is left out.",
        ),
        (
            with_options(save="query,soup"),
            "save",
            "",
            "Save 'soup' is not saved by a decoder's block",
        ),
        (
            with_options(save="query", offload="query,key"),
            "offload",
            "",
            "'query' is both saved and offloaded: choose one. Option offload is left out.",
        ),
        (with_options(remat="none", save="query"), "save", "", "Remat none keeps everything"),
        (
            with_options(
                compiler_flags="xla_tpu_dot_dot_fusion=true --xla_dump_to=/tmp xla_other=1 junk"
            ),
            "compiler_flags",
            "",
            "Option compiler_flags is left out.",
        ),
        (
            with_options(attention_blocks=300),
            "attention_blocks",
            0,
            "attention_blocks=300 does not divide sequence=2048: use 4. Option attention_blocks is left out.",
        ),
        (
            with_options(model="llama-3.1-8b", fused_qkv=True),
            "fused_qkv",
            False,
            "fused_qkv needs as many key heads as heads",
        ),
        (
            with_options(state_dtype="int8"),
            "state_dtype",
            "float32",
            "state_dtype='int8' is not a choice: use float32, bfloat16, float8.",
        ),
        (
            {"sharding": {"batch": "fsdp"}},
            "sharding",
            (),
            "Sharding of decoder follows from the names of its mesh axes",
        ),
        (
            {"strategies": ["single"]},
            "strategies",
            ("auto",),
            "Strategy 'single' is not one of decoder",
        ),
        ({"colour": "red"}, "seed", 0, "The field 'colour' is not part of an experiment"),
    ],
)
def test_what_does_not_fit_is_changed_and_said(change, field, wanted, words):
    with pytest.raises(RequestError):
        parse_experiment(SPEC | change)
    experiment, changes = nearest(SPEC | change)
    assert (
        getattr(experiment, field) if hasattr(experiment, field) else experiment.option(field)
    ) == wanted
    assert len([sentence for sentence in changes if words in sentence]) == 1, changes
    assert experiment.plan.devices == experiment.plan.topology.devices
    assert nearest(experiment.to_json()) == (experiment, ())


def test_what_fits_is_left_alone():
    assert nearest(SPEC) == (parse_experiment(SPEC), ())


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["data", "fsdp", "tensor", "sequence", "context", "stage", "expert", "x"]),
        st.integers(1, 300),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 10**6),
    st.integers(1, 10**5),
    st.sampled_from(
        ["tpu:v5e:3x5", "tpu:v5p:2x2x3", "tpu:v6e:16x16*3", "tpu:tpu7x:4x4x4", "cpu:8"]
    ),
    st.sampled_from(["scaled:5", "llama-3.1-70b", "mixtral", ""]),
    st.integers(0, 9000),
)
def test_the_nearest_is_always_a_plan(mesh, batch, sequence, target, model, blocks):
    """Whatever the sizes are, what is offered can be compiled."""
    spec = SPEC | {
        "mesh": mesh,
        "dims": {"batch": batch, "sequence": sequence},
        "target": target,
        "options": {"model": model, "attention_blocks": blocks},
    }
    experiment, changes = nearest(spec)
    plan = experiment.plan
    assert plan.devices == plan.topology.devices and changes

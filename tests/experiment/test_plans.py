"""A transformer's training step as a workload: plans and experiments stand for one another."""

import math

import pytest
from hypothesis import given, strategies as st

from spmd_core.base import RequestError
from spmd_core.experiment import (
    Experiment,
    compiler_flags,
    experiment_of,
    parse_experiment,
    parse_experiment_text,
)
from spmd_core.experiment.link import decode, encode
from spmd_core.plan import NAMES, VARIABLE, Plan
from spmd_core.workloads import parse_plan
from spmd_core.workloads.serving import DECODER, DEFAULT_SPEC

GOOD = {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "batch_per_device": 2}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A valid plan over one of a few topologies."""
    target, mesh = draw(
        st.sampled_from(
            (
                ("tpu:v5e:4x4", {"fsdp": 16}),
                ("tpu:v5e:2x2*2", {"data": 2, "fsdp": 2, "tensor": 2}),
                ("tpu:v5p:4x4x12", {"tensor": 2, "fsdp": 96}),
                ("tpu:tpu7x:2x2x1", {"sequence": 2, "fsdp": 4}),
            )
        )
    )
    rows = math.prod(size for axis, size in mesh.items() if axis in ("data", "fsdp"))
    remat, kept = draw(st.sampled_from(("none", "minimal", "full"))), draw(st.permutations(NAMES))
    count = 0 if remat == "none" else draw(st.integers(0, 4))
    sizes = draw(st.lists(st.sampled_from(("layers", "vocab", "embed", "mlp")), unique=True))
    return parse_plan(
        {
            "target": target,
            "mesh": mesh,
            "model": draw(st.sampled_from(("scaled:1", "Scaled:4", "llama-2-7b"))),
            "remat": remat,
            "batch_per_device": rows * draw(st.integers(1, 9)) / math.prod(mesh.values()),
            "sequence": 512 * draw(st.integers(1, 4)),
            "save": kept[:count],
            "offload": kept[count : count + min(count, 2)],
            "fused_qkv": draw(st.booleans()),
            "fused_mlp": draw(st.booleans()),
            "attention_blocks": draw(
                st.sampled_from((None, 128, 256, (512, 256, 128), (128, 512, 256)))
            ),
            "attention_backward": draw(st.sampled_from(("published", "fused", "split"))),
            "second_moment_dtype": draw(st.sampled_from((None, "float32", "bfloat16"))),
            "activation": draw(st.sampled_from((None, "relu"))),
            "tied": draw(st.sampled_from((None, True, False))),
            "state_dtype": draw(st.sampled_from(("float32", "bfloat16"))),
            "parameter_dtype": draw(st.sampled_from(("float32", "bfloat16"))),
            "device_order": draw(st.sampled_from(("topology", "plain"))),
            "compiler_flags": draw(
                st.sampled_from(
                    ((), ("xla_enable_async_all_gather=true", "--xla_tpu_scoped_vmem_limit_kib=3"))
                )
            ),
            "sizes": {
                name: 2048 * draw(st.integers(1, 3))
                if name != "layers"
                else draw(st.integers(1, 40))
                for name in sizes
            },
        }
    )


@given(plans())
def test_a_plan_an_experiment_and_its_texts_stand_for_one_another(plan):
    experiment = experiment_of(plan)
    assert experiment.plan == plan and hash(experiment.plan) == hash(plan)
    assert experiment_of(experiment.plan) == experiment
    assert parse_experiment(experiment.to_json()) == experiment
    assert parse_experiment_text(experiment.model_dump_json()) == experiment
    assert Experiment.model_validate_json(experiment.model_dump_json()).id == experiment.id
    assert decode(encode(experiment)) == experiment


def test_an_experiment_says_what_its_plan_says():
    experiment = parse_experiment(
        DEFAULT_SPEC
        | {
            "options": {
                "model": "llama-3.1-8b",
                "remat": "full",
                "offload": "query, input",
                "attention_blocks": 256,
                "fused_mlp": True,
                "compiler_flags": "--xla_a=true xla_b=2",
            },
            "dims": {"batch": 64, "sequence": 1024, "layers": 3, "vocab": 4096},
        }
    )
    plan = experiment.plan
    assert (plan.batch, plan.batch_per_device, plan.sequence, plan.layers, plan.sizes) == (
        64,
        4.0,
        1024,
        3,
        (("vocab", 4096),),
    )
    assert (plan.offload, plan.attention_blocks, plan.fused_mlp, plan.compiler_flags) == (
        ("input", "query"),
        256,
        True,
        ("xla_a=true", "xla_b=2"),
    )
    assert plan.size.layers == 3 and plan.size.vocab == 4096 and plan.size.embed == 4096
    assert dict(experiment.options)["offload"] == "input,query"
    assert compiler_flags(experiment)["xla_b"] == "2"


def test_plans_that_mean_the_same_have_one_id():
    one = parse_plan(
        GOOD
        | {
            "save": ["value", "query"],
            "layers": 4,
            "target": "tpu:V5E:4x4",
            "compiler_flags": ["--xla_a=1"],
        }
    )
    other = parse_plan(
        GOOD
        | {
            "save": ["query", "value"],
            "sizes": {"layers": 4},
            "model": "SCALED:1",
            "compiler_flags": ["xla_a=1"],
        }
    )
    assert one == other and experiment_of(one).id == experiment_of(other).id
    options = {
        "model": "Scaled:1",
        "save": " value,query ",
        "fused_qkv": False,
        "state_dtype": "float32",
    }
    spelled = parse_experiment(DEFAULT_SPEC | {"options": options})
    assert spelled.id == parse_experiment(DEFAULT_SPEC | {"options": {"save": "query,value"}}).id
    assert spelled.id != parse_experiment(DEFAULT_SPEC).id


def test_a_share_of_a_sequence_that_is_no_binary_fraction_is_whole_again():
    plan = parse_plan(
        GOOD
        | {
            "target": "tpu:v5p:4x4x12",
            "mesh": {"tensor": 2, "fsdp": 96},
            "batch_per_device": 0.5 * 7,
        }
    )
    assert plan.batch == 672
    assert experiment_of(plan).plan == plan
    third = parse_plan(
        GOOD
        | {
            "target": "tpu:v5p:4x4x12",
            "mesh": {"tensor": 4, "fsdp": 16, "sequence": 3},
            "sequence": 3072,
            "batch_per_device": 16 / 192,
        }
    )
    assert third.batch == 16 and experiment_of(third).plan.batch == 16


def test_an_experiment_is_varied():
    experiment = parse_experiment(DEFAULT_SPEC)
    wider = experiment.vary(dims={"batch": 64, "sequence": 2048})
    assert wider.sizes["batch"] == 64 and wider.id != experiment.id
    assert (
        experiment.vary(
            target="tpu:v5e:8x8", mesh={"fsdp": 64}, dims={"batch": 128, "sequence": 2048}
        ).device_count
        == 64
    )
    with pytest.raises(
        RequestError,
        match="does not fill v5e:8x8 with its 64: make the axes multiply to 64",
    ):
        experiment.vary(target="tpu:v5e:8x8")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"target": "cpu:8", "mesh": {"fsdp": 8}},
            "target cpu:8 cannot run a transformer's training step, which is only compiled: use a topology",
        ),
        ({"target": "local"}, "target local cannot run a transformer's training step"),
        (
            {"mesh": {"x": 16}},
            "mesh axis 'x' is not one that a decoder is sharded over: use data, fsdp",
        ),
        ({"mesh": {"fsdp": 8}}, "mesh of 8 devices does not fill v5e:4x4 with its 16"),
        (
            {"dims": {"batch": 20}},
            "batch_per_device=1.25 makes 20 sequences, which do not divide over 16 shards: use 1",
        ),
        ({"dims": {"batch": 16, "sequence": 100}}, "sequence=100 is too small: use at least 128"),
        (
            {"dims": {"batch": 16, "sequence": 2048, "rows": 3}},
            "dim 'rows' is not one of decoder: use batch, sequence",
        ),
        (
            {"options": {"model": "gpt-5"}},
            "model 'gpt-5' does not exist: use a preset such as llama-3.1-8b, ",
        ),
        ({"options": {"remat": "some"}}, "remat='some' is not a choice: use full, minimal, none"),
        ({"options": {"save": "colour"}}, "save 'colour' is not saved by a decoder's block"),
        ({"options": {"save": 3}}, "save=3 is not a text"),
        (
            {"options": {"fused_qkv": "yes"}},
            "fused_qkv='yes' is neither on nor off: use true or false",
        ),
        (
            {"options": {"attention_blocks": -1}},
            "attention_blocks=-1 is not a whole number from 0 to 8192",
        ),
        (
            {"options": {"attention_blocks": 5}},
            "attention_blocks=5 is not between 128 and 8192: use 128",
        ),
        ({"options": {"compiler_flags": "rm -rf"}}, "compiler flag 'rm' is not a flag"),
        ({"options": {"colour": "red"}}, "option 'colour' is not one of decoder"),
        (
            {"sharding": {"batch": "fsdp"}},
            "sharding of decoder follows from the names of its mesh axes: leave sharding out",
        ),
        ({"dtype": "float32"}, "dtype float32 makes no sense for decoder: use bfloat16"),
        ({"strategies": ["shard_map"]}, "strategy 'shard_map' is not one of decoder: use auto"),
        ({"target": "tpu:v5e:4x5"}, "use tpu:v5e:4x4 or tpu:v5e:4x8"),
    ],
)
def test_a_bad_one_is_refused_with_the_value_the_rule_and_a_fix(change, words):
    with pytest.raises(RequestError) as caught:
        parse_experiment(DEFAULT_SPEC | change)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_its_dims_are_those_of_the_models():
    assert (
        DECODER.dims == ("batch", "sequence", *VARIABLE)
        and DECODER.compile_only
        and not DECODER.operands
    )


def test_experts_pass_through_an_experiment_and_back():
    plan = parse_plan(
        {
            "target": "tpu:v5e:4x4",
            "model": "mixtral-8x7b",
            "mesh": {"fsdp": 8, "expert": 2},
            "batch_per_device": 1,
            "dropless": True,
            "imbalance": 1.5,
        }
    )
    experiment = experiment_of(plan)
    assert experiment.plan == plan
    assert {"dropless": True, "imbalance": "1.5"}.items() <= dict(experiment.options).items()
    wrong = experiment.to_json() | {"options": dict(experiment.options) | {"imbalance": "much"}}
    with pytest.raises(
        RequestError, match="imbalance='much' is not a number from 1 to 64: use for example 1"
    ):
        parse_experiment(wrong)

"""Blocks of the attention kernel against the vector memory that it may take."""

import pytest

from spmd_core.machine import TPUS
from spmd_core.plan import PRESETS
from spmd_core.plan.blocks import kernel_bytes, too_large
from spmd_core.workloads import parse_plan

KIB = 1024


def plan(target="tpu:v5e:16x16", **changes):
    return parse_plan(
        {
            "target": target,
            "model": "llama-3.1-8b",
            "mesh": {"fsdp": 256},
            "batch_per_device": 1,
            "sequence": 8192,
        }
        | changes
    )


def test_blocks_that_no_kernel_holds_are_said_with_those_that_fit():
    assert plan(attention_blocks=2048).kernel_refusal == (
        "attention blocks 2048,2048,2048 need at least 23.0 MiB of vector memory, 7.0 MiB more "
        "than the 16.0 MiB that a kernel may take: use 1024,2048,512"
    )
    assert plan(attention_blocks=[1024, 2048, 512]).kernel_refusal is None


def test_the_nearest_blocks_that_fit_are_those_that_are_named():
    assert plan(attention_blocks=2048).with_fitting_blocks.kernel_blocks == (1024, 2048, 512)
    fits = plan(attention_blocks=512)
    assert fits.with_fitting_blocks is fits


def test_a_flag_gives_a_kernel_more_room():
    flag = "xla_tpu_scoped_vmem_limit_kib=65536"
    assert plan(attention_blocks=2048, compiler_flags=[flag]).kernel_refusal is None
    assert plan("tpu:v6e:16x16").kernel_refusal is None


def test_what_compiles_is_not_refused():
    """These compiled: blocks of 1024 on v4 and v5e, of 2048 on v6e and TPU7x with their flags."""
    for blocks, limit in (((1024,) * 3, 16384), ((2048,) * 3, 98304), ((2048,) * 3, 65536)):
        assert too_large(blocks, 128, limit) is None
    assert too_large((8192,) * 3, 128, None) is None  # where the room is not known, nothing is said
    assert kernel_bytes((512, 512, 512), 128) == 2816 * KIB


@pytest.mark.parametrize("model", PRESETS)
@pytest.mark.parametrize("generation", [name for name in TPUS if name not in ("v2", "v3")])
def test_the_blocks_of_every_model_on_every_chip_fit(generation, model):
    chip = TPUS[generation]
    shape, devices = ("16x16", 256) if chip.torus_dims == 2 else ("4x4x8", 128)
    mesh = {"fsdp": devices * chip.devices_per_chip}
    found = parse_plan(
        {
            "target": f"tpu:{generation}:{shape}",
            "model": model,
            "mesh": mesh,
            "batch_per_device": 1,
            "sequence": 4096,
        }
    )
    assert found.kernel_refusal is None

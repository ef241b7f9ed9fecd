"""What becomes of the compiler's refusals."""

import pytest

from spmd_core.base import RequestError, WorkerError
from spmd_core.experiment import parse_experiment
from spmd_core.time.predicting import CompiledText, of_experiment, of_plan
from spmd_core.workloads import parse_plan


def test_a_program_that_does_not_fit_is_a_prediction_that_says_by_how_much():
    plan = parse_plan(
        {
            "target": "tpu:v5e:2x2",
            "model": "scaled:8",
            "mesh": {"fsdp": 4},
            "batch_per_device": 2,
            "layers": 2,
            "sequence": 512,
        }
    )
    refusal = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (20.00G) exceeds available HBM (15.75G)."
    )
    found = of_plan(plan, CompiledText(error_kind="JaxRuntimeError", error=refusal))
    assert not found.fits
    assert found.predicted_s is None
    assert found.memory_bytes.missing == int(4.25 * 2**30)


def test_other_words_of_the_compiler_are_an_error():
    plan = parse_plan(
        {"target": "tpu:v5e:2x2", "model": "scaled:1", "mesh": {"fsdp": 4}, "batch_per_device": 1}
    )
    with pytest.raises(WorkerError, match=r"the compiler refused the program .*no such flag"):
        of_plan(
            plan, CompiledText(error_kind="JaxRuntimeError", error="INVALID_ARGUMENT: no such flag")
        )


def test_what_cannot_be_expressed_is_a_bad_request():
    layer = parse_experiment({"workload": "layer", "mesh": {"x": 4}, "target": "tpu:v5e:2x2"})
    with pytest.raises(RequestError, match="use auto or shard_map"):
        of_experiment(
            layer,
            CompiledText(
                error_kind="Inexpressible",
                error="pmap is called on attached devices: use auto or shard_map",
            ),
        )


def test_a_kernel_that_runs_out_of_vector_memory_is_a_sentence():
    """The compiler says it in a thousand words, and with a whole program in thirty thousand."""
    words = (
        "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of memory in memory "
        "space vmem while allocating on stack for %splash_mha_fwd_segmented_residuals.1 = "
        "(f32[2048,128]{1,0}) custom-call(%a). Scoped allocation with size 23.76M and limit "
        "16.00M exceeded scoped vmem limit by 7.76M. " + "x" * 30_000
    )
    plan = parse_plan(
        {"target": "tpu:v5e:2x2", "model": "scaled:1", "mesh": {"fsdp": 4}, "batch_per_device": 1}
    )
    with pytest.raises(WorkerError) as refused:
        of_plan(plan, CompiledText(error_kind="JaxRuntimeError", error=words))
    assert str(refused.value) == (
        "kernel splash_mha_fwd_segmented_residuals.1 runs out of vector memory: it needs 23.8 MiB, "
        "7.8 MiB more than the 16.0 MiB that it may take: use smaller attention blocks, or raise "
        "xla_tpu_scoped_vmem_limit_kib"
    )

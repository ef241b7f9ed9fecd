"""A compile that is read before its end: stages, the account of memory, and what is left of it."""

import glob
import os
import tempfile
from pathlib import Path

import jax
import pytest

from spmd_core.base import Settings
from spmd_core.engine import codeless
from spmd_core.engine.absent import early
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.machine import dumps as dump_folder
from spmd_core.workloads import DEFAULT_SPEC

pytestmark = pytest.mark.this_python

SMALL = DEFAULT_SPEC | {
    "target": "tpu:v5e:2x2",
    "mesh": {"fsdp": 4},
    "dims": {"batch": 4, "sequence": 2048, "layers": 2},
    "options": {"model": "scaled:1"},
}
ALLOCATIONS = """BufferAssignment:
allocation 0: size 512, thread-local:
 value: <5 x @0> (size=512,offset=0): f32[]
allocation 1: size 1000, parameter 14, shape |f32[2]| at ShapeIndex {}, maybe-live-out:
allocation 2: size 30, parameter 1, shape |f32[2]| at ShapeIndex {}:
allocation 3: size 4, maybe-live-out:
allocation 4: size 512, constant:
allocation 5: size 2000, preallocated-temp:
allocation 6: size 7, color 1, preallocated-temp:
allocation 7: size 70, color 5, preallocated-temp:
"""


def test_the_account_of_memory_counts_hbm_and_host_apart_and_no_vmem():
    found = early.memory_account(ALLOCATIONS)
    assert found == {
        "argument": 1030,
        "output": 1004,
        "alias": 1000,
        "temp": 2000,
        "host_temp": 70,
        "peak_memory": 3034,
    }


def test_the_stage_is_told_by_the_files_that_are_there(tmp_path):
    seen = [early.stage_of(tmp_path)]
    for name in (
        "before_optimizations",
        "3.x.after_tpu-spmd-partitioning.before_y",
        "6.x.after_z.before_latency-hiding-scheduler",
        "after_optimizations",
    ):
        (tmp_path / f"module_0.jit.{name}.txt").write_text("")
        seen.append(early.stage_of(tmp_path))
    assert seen == ["partition", "partition", "optimize", "schedule", "code"]


def test_a_program_without_all_of_its_buffers_is_not_taken_for_scheduled(tmp_path):
    (tmp_path / "m.after_optimizations.txt").write_text("HloModule m")
    (tmp_path / "m.after_optimizations-buffer-assignment.txt").write_text(ALLOCATIONS)
    assert early.scheduled(tmp_path) is None  # as where memory ran out
    (tmp_path / "m.after_optimizations_after_buffer_assignment.txt").write_text("HloModule m")
    found = early.scheduled(tmp_path)
    assert found is not None and found.text == "HloModule m" and found.memory["temp"] == 2000


def test_the_result_that_ends_a_compile_is_no_result_of_the_program(tmp_path):
    call = '  %call.2 = f32[] custom-call(), custom_call_target="spmd_lab.without_code"'
    buffers = (
        ALLOCATIONS + "allocation 8: size 512, maybe-live-out:\n value: <7 call.2 @0> (size=512)"
    )
    assert early.memory_account(codeless.own_buffers(call, buffers)) == early.memory_account(
        ALLOCATIONS
    )
    assert codeless.own_buffers("HloModule m", buffers) == buffers


class Lowered:
    """A program whose compile ends without writing a file, or fails."""

    def __init__(self, error: Exception | None = None):
        self.error = error

    def compile(self, compiler_options):
        """What the compiler makes of it."""
        assert "xla_dump_to" in compiler_options
        if self.error:
            raise self.error
        return "compiled"


def test_a_compile_that_writes_no_schedule_is_waited_for(tmp_path):
    assert early.compile_early(Lowered(), tmp_path, lambda stage: None) == "compiled"


def test_what_the_compiler_raises_is_raised(tmp_path):
    with pytest.raises(ValueError, match="refused"):
        early.compile_early(Lowered(ValueError("refused")), tmp_path, lambda stage: None)


class Newer(Lowered):
    """A compiler that has not all flags, as XLA refuses the others."""

    def compile(self, compiler_options):
        """Its answer, or the first flag that it does not have."""
        for name in ("xla_gpu_old", "xla_gpu_own"):
            if name in compiler_options:
                raise jax.errors.JaxRuntimeError(
                    f"INVALID_ARGUMENT: No such compile option: '{name}'"
                )
        return super().compile(compiler_options)


def test_a_flag_that_a_version_lacks_is_left_out_and_named_unless_it_is_a_user_s(tmp_path):
    given = (Newer(), tmp_path, lambda stage: None)
    found, words = early.compile_known(*given, {"xla_gpu_old": True}, ("xla_gpu_old",))
    assert found == "compiled"
    assert words == ("this version of XLA has no flag xla_gpu_old: compiled without it",)
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_gpu_own"):
        early.compile_known(*given, {"xla_gpu_own": True}, ("xla_gpu_old",))


def test_a_folder_goes_with_its_process_and_not_before(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "spmd-lab-compile-left"
    left.mkdir()
    (left / ".held").touch()
    with dump_folder.dump_folder() as held:
        dump_folder.sweep()
        assert held.exists() and not left.exists()
    assert not held.exists()


def test_a_step_is_answered_from_its_schedule_and_nothing_is_left_behind(tmp_path, monkeypatch):
    pytest.importorskip("libtpu")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # others compile beside this test
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stages = []
    lab = Lab.open(tmp_path / "data", settings=Settings(predict_timeout_s=500, idle_s=300))
    try:
        run = lab.submit(parse_experiment(SMALL))
        status = lab.wait(run, 500, lambda status: stages.append(status.phase))
        found = lab.result(run).strategies["auto"].prediction
        assert status.state == "succeeded", status.error
        assert found.program == "scheduled" and found.fits and found.predicted_s.estimate > 0
        assert (
            found.memory_bytes.peak
            == found.memory_bytes.argument
            + found.memory_bytes.temp
            + found.memory_bytes.output
            - found.memory_bytes.alias
        )
        assert "is_scheduled=true" in lab.texts(run, "auto")["hlo"]
        assert "partition" in stages or "optimize" in stages or "schedule" in stages
        assert not _folders()
    finally:
        lab.close()


def _folders() -> list[str]:
    return glob.glob(os.path.join(tempfile.gettempdir(), "spmd-lab-compile-*"))


def test_files_are_counted_by_their_bytes(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"1234")
    assert dump_folder.size_bytes(tmp_path) == 4

import jax
import pytest

from spmd_core.base import WorkerError
from spmd_core.engine import devices
from spmd_core.engine.devices import describe
from spmd_core.terms import environment_notes


def test_an_environment_describes_what_is_there(environment):
    assert (environment.jax, environment.platform, environment.device_count) == (
        jax.__version__,
        "cpu",
        8,
    )
    assert environment.simulated
    assert [device.id for device in environment.devices] == list(range(8))
    assert set(environment.devices[0].memory_kinds) >= {"device", "pinned_host"}
    assert environment.default_memory == "device"
    assert environment.cores >= 1
    assert environment.host_memory_bytes > 2**28
    assert environment_notes(environment, "cpu:8") == (
        f"8 simulated devices share {environment.cores} core{'s' * (environment.cores > 1)}: "
        "their times say nothing of real devices",
    )


@pytest.mark.parametrize(
    ("target", "count", "words"),
    [
        ("cpu:4", None, "target cpu:4 got 8 devices, not 4"),
        ("cpu:8", 16, "target cpu:8 got 8 devices, not 16"),
        ("tpu:v5e:2x4", None, "compile-only"),
    ],
)
def test_devices_other_than_asked_for_are_an_error(target, count, words):
    with pytest.raises(WorkerError, match=words):
        describe(target, count)


def test_a_busy_accelerator_that_became_a_cpu_is_an_error(monkeypatch):
    monkeypatch.setattr(devices, "accelerator_files", lambda: ("/dev/accel0",))
    with pytest.raises(WorkerError, match="target local got the CPU although /dev/accel0 exists"):
        describe("local")


def test_a_machine_without_an_accelerator_runs_local_on_its_cpu(monkeypatch):
    monkeypatch.setattr(devices, "accelerator_files", lambda: ())
    assert describe("local").platform == "cpu"

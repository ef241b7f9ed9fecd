"""Programs of attached TPUs priced from their own text: real devices' words and coordinates, taken
from topologies of the compiler.
"""

from pathlib import Path

import jax
import pytest

from spmd_core.engine.absent.topology import devices_of, lower_experiment
from spmd_core.engine.devices import coordinates
from spmd_core.engine.lower import Steps, memory_account
from spmd_core.engine.measured import attached
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Prediction
from spmd_core.machine import ENVIRONMENT, get_topology
from spmd_core.time import CompiledText, Useful, of_experiment
from tests.program import hlo

pytestmark = pytest.mark.this_python

LAYER = {
    "workload": "layer",
    "dims": {"batch": 1024, "in": 1024, "out": 1024},
    "dtype": "bfloat16",
    "sharding": {"in": "x"},
    "strategies": ["auto"],
}


@pytest.fixture
def compile_only(monkeypatch):
    pytest.importorskip("libtpu")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("target", "mesh"),
    [
        ("tpu:v5e:2x2", {"x": 4}),
        ("tpu:v4:2x2x1", {"x": 2, "y": 2}),
        ("tpu:v6e:2x4", {"x": 8}),
        ("tpu:v6e:2x4", {"x": 2}),
    ],
)
def test_a_program_is_priced_on_attached_devices_as_on_the_same_absent_ones(
    target, mesh, compile_only
):
    experiment = parse_experiment(LAYER | {"target": target, "mesh": mesh})
    ahead, devices = (
        lower_experiment(experiment, "auto", Steps(lambda phase: None)),
        devices_of(get_topology(target)),
    )
    compiled, used = ahead.lowered.compile(), list(ahead.mesh.devices.flat)
    found = attached.price(
        experiment.mesh,
        compiled,
        used,
        devices,
        useful=Useful(int(experiment.what.flops(experiment.sizes))),
    )
    wanted = of_experiment(
        experiment, CompiledText(compiled.as_text(), memory_account(compiled), coordinates(used))
    )
    assert (
        isinstance(found, Prediction)
        and found.predicted_s is not None
        and 0 < found.predicted_s.estimate < 1e-3
    )
    assert found == wanted
    assert [one.kind for one in found.collectives] == ["all-reduce"] and found.collectives[
        0
    ].axes == ("x",)


class Refusing:
    """A compiled program without a text."""

    def as_text(self):
        raise NotImplementedError("no text here")


class Chip:
    """A device as JAX shows it."""

    def __init__(self, x, kind="TPU v5 lite", platform="tpu"):
        self.platform, self.device_kind, self.coords, self.core_on_chip = (
            platform,
            kind,
            (x, 0, 0),
            0,
        )
        self.id = x


class Gpu:
    """A GPU as JAX shows it: no coordinates."""

    def __init__(self, number, process, kind):
        self.id, self.process_index, self.device_kind = number, process, kind
        self.platform = "gpu"


def test_what_cannot_be_priced_is_a_note_and_never_an_error():
    chips = [Chip(0), Chip(1)]
    assert attached.price((("x", 2),), Refusing(), chips, chips) == "no text here"
    strangers = [Chip(0, "TPU v99")]
    assert "device kind" in str(attached.price((), Refusing(), strangers, strangers))


class Compiled:
    """A program as XLA compiled it for 2 hosts of 8 H100."""

    def as_text(self):
        return (Path(hlo.__file__).parent / "product_gpu_0.10.2.hlo").read_text()

    def memory_analysis(self):
        return None


@pytest.mark.parametrize("kind", ["NVIDIA H100 80GB HBM3", "NVIDIA H200"])
def test_gpus_are_known_by_their_name_and_give_mfu(kind):
    gpus = [Gpu(number, number // 8, kind) for number in range(16)]
    useful = Useful(2 * 2 * 2048 * 4096 * 8192)
    found = attached.price((("x", 2), ("y", 8)), Compiled(), gpus, gpus, useful=useful)
    assert isinstance(found, Prediction) and found.predicted_s is not None
    assert found.mfu == pytest.approx(useful.flops / 16 / 989e12 / found.predicted_s.estimate)
    assert found.collectives[0].route == "8 GPUs over NVLink"
    strange = [Gpu(0, 0, "NVIDIA GeForce RTX 4090")]
    assert "RTX 4090' is none whose data sheet is here" in str(
        attached.price((), Compiled(), strange, strange)
    )


def test_other_devices_are_not_priced(run):
    assert attached.price((), Refusing(), [Chip(0, "cpu", "cpu")], [Chip(0, "cpu", "cpu")]) is None
    assert attached.price((), Refusing(), jax.devices(), jax.devices()) is None
    found = run(
        workload="layer", mesh={"x": 8}, strategies=["auto"], sharding={"in": "x"}
    ).result.strategies["auto"]
    assert (
        found.median_s
        and found.predicted_s is None
        and found.prediction is None
        and not any("predicted" in note for note in found.notes)
    )


def test_a_run_keeps_the_prediction_beside_its_measurement(run, monkeypatch):
    """As on a TPU: what pricing gives reaches the result, and a refusal reaches its notes, whatever
    was measured.
    """
    spec = {
        "workload": "layer",
        "mesh": {"x": 8},
        "strategies": ["auto", "shard_map"],
        "sharding": {"in": "x"},
    }
    made = Prediction.model_validate(
        {
            "fits": True,
            "memory_bytes": {"capacity": 1},
            "predicted_s": {"low": 1e-6, "estimate": 2e-6, "high": 3e-6},
        }
    )
    monkeypatch.setattr(
        attached,
        "price",
        lambda mesh, compiled, used, every, collectives, keep, useful: (
            made if len(used) == len(every) else "why"
        ),
    )
    found = run(**spec).result.strategies
    assert (
        {found[name].predicted_s.estimate for name in found} == {2e-6}
        and found["auto"].prediction == made
        and found["auto"].median_s
    )
    monkeypatch.setattr(attached, "price", lambda *_: "why")
    found = run(**spec).result.strategies["auto"]
    assert (
        "not predicted: why" in found.notes
        and found.predicted_s is None
        and found.median_s
        and found.correct
    )

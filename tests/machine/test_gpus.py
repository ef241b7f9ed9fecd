import pytest

from spmd_core.base import RequestError
from spmd_core.machine import GPUS, get_topology, mesh_places, parse_target, topology_of_chips
from spmd_core.machine.absent import compiler_refusal, hosts_of, target_config

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "canonical", "devices", "domains"),
    [
        ("gpu:h100:8", "gpu:h100:8", 8, 1),
        ("gpu:H100:16x8", "gpu:h100:16x8", 128, 16),
        ("gpu:a100:1x4", "gpu:a100:4", 4, 1),
        ("GPU:GB200:2x72", "gpu:gb200:2x72", 144, 2),
    ],
)
def test_a_target_names_nvlink_domains(text, canonical, devices, domains):
    topology = get_topology(text)
    assert (topology.target, topology.devices, topology.slices) == (canonical, devices, domains)
    assert parse_target(text).is_absent and parse_target(text).is_gpu


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu:v100:8", "GPU 'v100' has no data sheet here: use gpu:h100:8, or one of a100, h200"),
        ("gpu:b300:8", "use gpu:b200:8, or one of a100, h100"),
        ("gpu:gb300:72", "use gpu:gb200:72, or one of a100, h100"),
        ("gpu:h100", "has no size: add the number of devices, such as gpu:h100:8"),
        ("gpu:h100:7", "has 1, 2, 4 or 8 GPUs: use gpu:h100:8 or gpu:h100:4"),
        ("gpu:h100:2x2x2", "is not built"),
        ("gpu:gb200:70", "a multiple of 4 up to 72 GPUs: use gpu:gb200:72"),
        ("gpu:h100:0x8", "0 NVLink domains are out of range: use 1 to 4096"),
        ("gpu:v5e:8", "GPU 'v5e' has no data sheet here"),
        ("tpu:h100:8", "is not one that the TPU compiler knows: use one of v2"),
    ],
)
def test_what_no_one_builds_is_refused(text, words):
    with pytest.raises(RequestError, match=r"^[^\n]*$") as refused:
        get_topology(text)
    assert words in str(refused.value)


def test_a_mesh_takes_gpus_as_they_are_listed():
    places = mesh_places(get_topology("gpu:h100:2x8"), (2, 4, 2))
    assert places[0, 3, 1].tolist() == [7, 0, 0, 0, 0]
    assert places[1, 0, 1].tolist() == [1, 0, 0, 0, 1]


def test_a_number_of_gpus_is_full_domains():
    assert topology_of_chips("h100", 4).target == "gpu:h100:4"
    assert topology_of_chips("h100", 2048).target == "gpu:h100:256x8"
    assert topology_of_chips("gb200", 144).target == "gpu:gb200:2x72"


@pytest.mark.parametrize("name", GPUS)
def test_the_compiler_reads_the_data_sheet(name):
    text = target_config(GPUS[name])
    assert f"core_count: {GPUS[name].sms}" in text and text.count("{") == text.count("}")


def test_hosts_of_a_domain():
    assert hosts_of(get_topology("gpu:gb200:2x72")) == "2x18x4"
    assert hosts_of(get_topology("gpu:h100:4")) == "1x1x4"


def test_a_missing_compiler_names_the_line_to_type(monkeypatch):
    monkeypatch.setattr("spmd_core.machine.absent.plugin_version", lambda: None)
    assert "pip install -r requirements-gpu-targets.txt" in (compiler_refusal("gpu:h100:8") or "")
    monkeypatch.setattr(
        "spmd_core.machine.absent.plugin_version", lambda: "jax-cuda12-plugin 0.4.1"
    )
    assert "does not fit jaxlib" in (compiler_refusal("gpu:h100:8") or "")

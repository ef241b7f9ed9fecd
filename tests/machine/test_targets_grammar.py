"""One grammar of targets: aliases are read everywhere and stored nowhere."""

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import link, parse_experiment
from spmd_core.machine import get_topology, parse_target
from spmd_core.search.chips import read_chips
from spmd_core.workloads import parse_plan

ALIASES = {
    "v5p:64": "tpu:v5p:4x4x4",
    "tpu:v5p:64": "tpu:v5p:4x4x4",
    "V5P:4x4x4": "tpu:v5p:4x4x4",
    "v5e:16x16*2": "tpu:v5e:16x16*2",
    "tpu7x:64": "tpu:tpu7x:4x4x4",
    "7x:64": "tpu:tpu7x:4x4x4",
    "tpu:7x:4x4x4": "tpu:tpu7x:4x4x4",
    "h100:8": "gpu:h100:8",
    "h100:64": "gpu:h100:8x8",
    "gpu:h100:64": "gpu:h100:8x8",
    "h100:8x8": "gpu:h100:8x8",
    "gb200:72": "gpu:gb200:72",
    "gb200:144": "gpu:gb200:2x72",
}


@pytest.mark.parametrize(("text", "target"), ALIASES.items())
def test_an_alias_is_read_and_the_canonical_target_is_stored(text, target):
    assert parse_target(text).text == get_topology(text).target == target
    assert parse_target(target).text == target
    devices = get_topology(text).devices
    plan = {"model": "scaled:1", "mesh": {"fsdp": devices}, "batch_per_device": 1}
    assert parse_plan(plan | {"target": text}) == parse_plan(plan | {"target": target})
    layer = {"workload": "layer", "mesh": {"x": devices}, "strategies": ["auto"]}
    one, other = (parse_experiment(layer | {"target": each}) for each in (text, target))
    assert one == other and one.id == other.id and link.encode(one) == link.encode(other)
    assert target in [each.target for each in read_chips(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v5p-64", "is Google's name of 32 chips (64 cores): use v5p:32, or v5p:64 for 64 chips"),
        ("tpu:v4-8", "is Google's name of 4 chips (8 cores): use v4:4, or v4:8 for 8 chips"),
        ("v5litepod-64", "is Google's name of 64 chips: use v5e:64"),
        ("tpu:v5e-16", "target v5e-16 is Google's name of 16 chips: use v5e:16"),
        ("v6e-256", "is Google's name of 256 chips: use v6e:256"),
        ("v5p:63", "do not form slices of TPU v5p: use 32 or 64"),
        ("h100:12", "is not built"),
        ("v8:64", "is not a place to run"),
    ],
)
def test_what_is_no_target_is_refused_with_what_is_meant(text, words):
    for read in (
        (parse_target, read_chips)
        if "-" in text
        else (lambda name: get_topology(parse_target(name)),)
    ):
        with pytest.raises(RequestError) as refused:
            read(text)
        assert words in str(refused.value)

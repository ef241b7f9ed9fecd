"""Host memory by machine type, and that of hosts of one's own."""

import pytest

from spmd_core.base import RequestError
from spmd_core.machine import CHIPS
from spmd_core.machine.chip import DESCRIBED, HOST_SHARE, LISTED, VARIABLE, Capacity
from spmd_core.time.cost.constants import taken_memory
from spmd_core.words.facts import fact_words
from tests.labs import ROOT


def test_devices_share_a_host_evenly():
    gib = 2**30
    assert CHIPS["v5p"].capacity.host == int(HOST_SHARE * 448 * gib / 4)
    assert CHIPS["tpu7x"].capacity.host == int(HOST_SHARE * 960 * gib / 4 / 2)
    assert CHIPS["h100"].capacity.host == int(HOST_SHARE * 1872 * gib / 8)
    assert all(chip.capacity.host > 0 for chip in CHIPS.values())


def test_every_host_has_a_machine_type_and_a_source_and_docs_have_the_same():
    told = (ROOT / "docs" / "prediction.md").read_text()
    for chip in CHIPS.values():
        assert chip.host_source in (LISTED, DESCRIBED)
        starred = "\\*" * (chip.host_source == DESCRIBED)
        assert f"{chip.host_type.removeprefix('a ')}{starred}" in told.replace(
            "TPU VM v2-8", "v2-8 TPU VM"
        )
        assert f"{chip.host_bytes // 2**30}" in told


def test_a_plan_that_offloads_names_the_host(monkeypatch):
    (said,) = taken_memory(CHIPS["v5e"], 1, 1)
    assert fact_words(said) == (
        "a host has the 192.0 GiB of ct5lp-hightpu-4t; SPMD_LAB_HOST_GIB=v5e=2048 sets what yours has"
    )
    assert list(taken_memory(CHIPS["v5e"], 1, 0)) == []
    monkeypatch.setenv(VARIABLE, "v5e=512")
    assert fact_words(next(taken_memory(CHIPS["v5e"], 1, 1))).startswith(
        f"a host has the 512.0 GiB of {VARIABLE}"
    )


def test_the_owner_of_other_hosts_sets_their_memory(monkeypatch):
    monkeypatch.setenv(VARIABLE, " H100=4096 , v5p=512.5")
    assert CHIPS["h100"].capacity.host == int(HOST_SHARE * 4096 * 2**30 / 8)
    assert CHIPS["v5p"].capacity.host == int(HOST_SHARE * 512.5 * 2**30 / 4)
    assert CHIPS["v5e"].capacity.host == int(HOST_SHARE * 192 * 2**30 / 4)


@pytest.mark.parametrize(
    "text", ["4096", "h100=", "h100=0", "h100=-1", "h100=nan", "=5", "h100=1e9"]
)
def test_what_is_no_memory_is_refused_with_an_example(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(RequestError, match=f"{VARIABLE}=h100=2048,v5p=448"):
        CHIPS["v5p"].capacity  # noqa: B018


def test_a_limit_is_of_the_device_alone():
    assert Capacity(10, 20).limited(5) == Capacity(5, 20)
    assert Capacity(10, 20).limited(None) == Capacity(10, 20).limited(15) == Capacity(10, 20)

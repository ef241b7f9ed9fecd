"""Where mesh axes lie, against jax's own mesh_utils, and the listing of devices against the
compiler's.
"""

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from jax.experimental import mesh_utils

from spmd_core.base import RequestError
from spmd_core.machine import TPUS, device_ids, get_topology, legal_shapes, listed, mesh_places

pytestmark = [pytest.mark.slow, pytest.mark.newer]

KINDS = {
    "v2": "TPU v2",
    "v3": "TPU v3",
    "v4": "TPU v4",
    "v5e": "TPU v5 lite",
    "v5p": "TPU v5",
    "v6e": "TPU v6 lite",
    "tpu7x": "TPU7x",
}
LISTED = ("v2:4x4", "v4:2x4x4", "v5e:4x8*2", "v5p:4x4x4", "v6e:2x4", "tpu7x:2x2x2")


@dataclass(frozen=True)
class FakeDevice:
    """As much of a TPU device as mesh_utils looks at."""

    device_kind: str
    coords: tuple[int, int, int]
    core_on_chip: int
    slice_index: int
    platform: str = "tpu"
    process_index: int = 0

    @property
    def place(self) -> tuple[int, ...]:
        return (*self.coords, self.core_on_chip, self.slice_index)


def fakes(topology):
    return [
        FakeDevice(KINDS[topology.chip.generation], (x, y, z), core, number)
        for x, y, z, core, number in listed(topology)
    ]


def by_jax(topology, sizes, between=None):
    if between is None:
        mesh = mesh_utils.create_device_mesh(sizes, fakes(topology), allow_split_physical_axes=True)
    else:
        within = [size // count for size, count in zip(sizes, between, strict=True)]
        mesh = mesh_utils.create_hybrid_device_mesh(
            within, between, fakes(topology), allow_split_physical_axes=True
        )
    return np.array([device.place for device in mesh.flat]).reshape(*sizes, 5)


def factorings(number, parts):
    if parts == 1:
        return [(number,)]
    return [
        (first, *rest)
        for first in range(1, number + 1)
        if number % first == 0
        for rest in factorings(number // first, parts - 1)
    ]


@pytest.mark.parametrize("generation", TPUS)
def test_axes_lie_where_mesh_utils_puts_them(generation):
    compared = 0
    for shape in legal_shapes(generation):
        topology = get_topology(f"tpu:{generation}:{'x'.join(map(str, shape))}")
        # a prime factor of 5 or 7 in an axis that has to be cut makes mesh_utils of JAX 0.10 fail
        if topology.devices > 512 or any(size % prime == 0 for size in shape for prime in (5, 7)):
            continue
        every = [
            (topology.devices,),
            *factorings(topology.devices, 2),
            *factorings(topology.devices, 3),
        ]
        for sizes in random.Random(f"{generation}{shape}").sample(every, min(10, len(every))):
            assert np.array_equal(mesh_places(topology, sizes), by_jax(topology, sizes)), (
                topology.name,
                sizes,
            )
            compared += 1
    assert compared >= 30


@pytest.mark.parametrize(
    ("name", "sizes", "between"),
    [
        ("v5e:16x16*2", (2, 16, 16), (2, 1, 1)),
        ("v5p:4x4x4*4", (8, 32), (4, 1)),
        ("v6e:4x4*4", (2, 4, 8), (2, 2, 1)),
    ],
)
def test_slices_are_put_on_the_first_axes(name, sizes, between):
    topology = get_topology(f"tpu:{name}")
    assert np.array_equal(mesh_places(topology, sizes), by_jax(topology, sizes, between))


def test_plain_order_is_the_listing():
    topology = get_topology("tpu:v5e:4x4")
    places = mesh_places(topology, (4, 4), "plain")
    # the four chips of a host
    assert places[0].tolist() == [
        [0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
    ]
    assert sorted(map(tuple, places.reshape(-1, 5).tolist())) == sorted(listed(topology))


def test_what_does_not_fill_the_topology_is_refused():
    with pytest.raises(
        RequestError,
        match="mesh of 8 devices does not fill v5e:4x4 with its 16: make the axes multiply to 16",
    ):
        mesh_places(get_topology("tpu:v5e:4x4"), (8,))


def test_devices_are_listed_and_numbered_as_the_compiler_does():
    code = (
        "import json, sys; from spmd_core.engine.absent.topology import devices_of; "
        "from spmd_core.engine.devices import coordinates; "
        "from spmd_core.machine.topologies import get_topology; "
        "found = [devices_of(get_topology('tpu:' + name)) for name in sys.argv[1:]]; "
        "print(json.dumps([(coordinates(each), [device.id for device in each]) for each in found]))"
    )
    environ = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    answer = subprocess.run(
        [sys.executable, "-c", code, *LISTED],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "libtpu is not installed" in answer.stderr:
        pytest.skip("no libtpu here")
    for name, (places, ids) in zip(LISTED, json.loads(answer.stdout), strict=True):
        topology = get_topology(f"tpu:{name}")
        assert [tuple(place) for place in places] == list(listed(topology)), name
        assert device_ids(topology, np.array(places)).tolist() == ids, name

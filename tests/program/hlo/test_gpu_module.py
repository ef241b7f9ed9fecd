"""A module as XLA 0.10.2 writes it for 2 x 8 H100: silu(a @ b) @ c, its operands sharded over x and y."""

from pathlib import Path

import pytest

from spmd_core.machine import GPUS, get_topology
from spmd_core.program import parse_module, read_collectives
from spmd_core.time import predict
from spmd_core.time.cost.advance import beside_collectives
from spmd_core.time.cost.clocks import Busy, State
from spmd_core.time.cost.comm import Cluster, Communication
from spmd_core.time.cost.links import NCCL
from spmd_core.time.cost.ops import OperationCost

pytestmark = pytest.mark.fast
TEXT = (Path(__file__).parent / "product_gpu_0.10.2.hlo").read_text()
MESH = (("x", 2), ("y", 8))
PLACES = tuple((at % 8, 0, 0, 0, at // 8) for at in range(16))
CLUSTER = Cluster(get_topology("gpu:h100:2x8"), PLACES)


def collectives(text):
    return read_collectives(parse_module(text), MESH, places=PLACES)


def test_collectives_of_a_gpu_module():
    (found,) = collectives(TEXT)
    assert (found.kind, found.axes, found.bytes) == ("all-reduce", ("y",), 4 * 2048 * 4096)
    assert not found.asynchronous and found.count == 1


def test_a_pair_with_work_beside_it_is_asynchronous():
    text = TEXT.replace('"is_sync":true', '"is_sync":false')
    assert text != TEXT
    assert all(each.asynchronous for each in collectives(text))


def test_a_gpu_module_has_a_time_and_what_it_lacks_in_memory():
    found = predict(TEXT, CLUSTER, {"argument": 2**30}, MESH)
    assert found.predicted_s.low <= found.predicted_s.estimate <= found.predicted_s.high
    assert found.shares_s["matmul"] > 2 * 2 * 4096**2 * 8192 / 16 / 989e12
    assert found.collectives[0].route == "8 GPUs over NVLink"
    found = predict(TEXT, CLUSTER, {"argument": 2**30, "temp": 2**37}, MESH)
    assert found.predicted_s is None
    held = found.memory_bytes
    assert held.missing == 2**30 + 2**37 - held.capacity and not found.fits


def test_work_beside_a_collective_has_fewer_multiprocessors():
    gpu, work = GPUS["h100"], OperationCost(1.0, "matmul", bound="compute", high=1.2)
    comm = Communication("all-gather", 8, 0.5, (NCCL,), (), "", True, None, "gather")
    state = State(chip=2.0)
    assert beside_collectives(work, state, gpu) is work
    state.under_way["gather"], state.holders[NCCL] = Busy(comm, 1.0, 2.5, ""), "gather"
    taken = 16 / 132
    found = beside_collectives(work, state, gpu)
    assert found.seconds == pytest.approx(1 + 0.5 * taken) and found.low == work.low
    state.under_way["gather"] = Busy(comm, 1.0, 9.0, "")
    assert beside_collectives(work, state, gpu).seconds == pytest.approx(1 / (1 - taken))

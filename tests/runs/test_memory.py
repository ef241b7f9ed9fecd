"""What a run needs at least, and what is refused before it runs."""

import dataclasses

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.machine import Hardware
from spmd_core.results import Device, Environment
from spmd_core.runs.memory import check_memory, check_runs_here, memory_need

MACHINE = Hardware(None, None, (), (), cores=2, memory_bytes=16 * 2**30, available_bytes=8 * 2**30)
TPU = Hardware(
    "tpu",
    "TPU v5e",
    ("/dev/accel0",),
    (),
    cores=2,
    memory_bytes=16 * 2**30,
    available_bytes=8 * 2**30,
)


def layer(rows=1000, **changes):
    return parse_experiment(
        {
            "workload": "layer",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "dims": {"batch": rows, "in": 64, "out": 16},
            "sharding": {"in": "x"},
            "strategies": ["single", "auto"],
        }
        | changes
    )


def environment(memory_bytes):
    devices = tuple(Device(id=number, process=0, memory_bytes=memory_bytes) for number in range(8))
    return Environment(
        jax="0",
        jaxlib="0",
        python="3",
        platform="tpu",
        device_kind="TPU",
        device_count=8,
        devices=devices,
    )


def test_the_need_is_counted_per_strategy_with_replicas():
    x, weights, bias, y = 1000 * 64, 64 * 16, 16, 1000 * 16
    need = memory_need(layer())
    # and the reference
    assert need.host_bytes == 8 * x + 4 * (x + weights + bias) + 8 * (x + weights + bias + y)
    large = memory_need(layer(rows=1000_000))  # above 2 GFLOP the reference is a few rows
    assert large.host_bytes == 1000 * (8 + 4) * x + 4 * (weights + bias)
    # bias and y are whole on each device
    single, shard = 4 * (x + weights + bias + y), 4 * (x // 8 + weights // 8 + bias + y)
    assert need.device_bytes == single + shard
    assert need.all_device_bytes == single + 8 * shard


def test_ten_to_the_twelve_elements_are_refused_with_bytes_and_limit():
    huge = parse_experiment(
        {
            "workload": "elementwise",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "dims": {"rows": 10**6, "cols": 10**6},
            "sharding": {"rows": "x"},
            "strategies": ["auto"],
        }
    )
    with pytest.raises(RequestError) as caught:
        check_memory(huge, None, MACHINE)
    assert str(caught.value) == (
        "elementwise with rows=1000000, cols=1000000 needs 18.2 TiB on 8 simulated devices "
        "(7.3 TiB of shards, 10.9 TiB to draw and check them), more than "
        "the 8.0 GiB free here: use smaller dims"
    )


@pytest.mark.parametrize(
    ("changed", "fix"),
    [
        ({}, "smaller dims"),
        ({"strategies": ["auto", "shard_map"]}, "smaller dims or fewer strategies"),
        ({"sharding": {}}, "smaller dims or more sharding"),
        (
            {"sharding": {}, "strategies": ["auto", "single"]},
            "smaller dims or fewer strategies or more sharding",
        ),
    ],
)
def test_only_what_needs_less_is_advised(changed, fix):
    spec = {
        "workload": "elementwise",
        "target": "cpu:8",
        "mesh": {"x": 8},
        "dims": {"rows": 2**24, "cols": 2**24},
        "sharding": {"rows": "x"},
        "strategies": ["auto"],
    }
    with pytest.raises(RequestError, match=f"needs .* PiB .*: use {fix}$"):
        check_memory(parse_experiment(spec | changed), None, MACHINE)


def test_nothing_is_traced_where_nothing_runs():
    absent = layer(target="tpu:v5e:2x4", options={"trace": True}, strategies=["auto"])
    with pytest.raises(RequestError, match="trace=true finds nothing to trace on tpu:v5e:2x4"):
        check_runs_here(absent, MACHINE, lambda target: None)
    plain = absent.vary(options=dict(absent.options) | {"trace": False})
    check_runs_here(plain, MACHINE, lambda target: None)
    assert plain == layer(target="tpu:v5e:2x4", strategies=["auto"])


def test_replication_over_simulated_devices_counts():
    fits = layer(rows=3_000_000, strategies=["auto"], sharding={"batch": "x"})
    check_memory(fits, None, MACHINE)
    with pytest.raises(RequestError, match=r"more than the 8\.0 GiB free here"):
        check_memory(layer(rows=3_000_000, strategies=["auto"], sharding={}), None, MACHINE)


def test_an_accelerator_is_limited_by_one_device_and_by_the_host():
    local = layer(rows=1_000_000, target="local")
    check_memory(local, environment(2**30), TPU)
    with pytest.raises(
        RequestError,
        match=r"needs 396.7 MiB, more than the 256.0 MiB of one device",
    ):
        check_memory(local, environment(256 * 2**20), TPU)
    check_memory(local, environment(None), TPU)  # a limit that is not known refuses nothing
    with pytest.raises(RequestError, match=r"8\.0 GiB free here:"):
        check_memory(layer(rows=20_000_000, target="local"), environment(2**40), TPU)


def test_a_small_program_needs_nothing_that_is_known():
    program = parse_experiment(
        {
            "workload": "program",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "options": {"program": "psum_total"},
        }
    )
    assert memory_need(program).host_bytes == 0


def test_a_small_program_of_many_rows_is_refused_where_memory_is_short():
    """Measured: 1.1 GB at ten million rows, of which 0.2 GB are JAX itself."""
    program = parse_experiment(
        {
            "workload": "program",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "options": {"program": "many_rows", "rows": 10_000_000},
        }
    )
    check_memory(program, None, MACHINE)
    with pytest.raises(RequestError) as caught:
        check_memory(program, None, dataclasses.replace(MACHINE, available_bytes=2**29))
    assert str(caught.value) == (
        "program many_rows with rows=10000000, calls=9 needs 858.3 MiB on 8 simulated devices, more "
        "than the 512.0 MiB free here: use smaller sizes"
    )

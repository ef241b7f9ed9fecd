"""Where devices stand: by the order of the mesh, and by what attached ones say of themselves."""

from spmd_core.experiment import parse_experiment
from spmd_core.pictures import placed
from spmd_core.results import Device, Environment


def environment(kind, devices):
    return Environment(
        jax="0.10.2",
        jaxlib="0.10.2",
        python="3.11",
        platform="tpu",
        device_kind=kind,
        device_count=len(devices),
        devices=tuple(devices),
    )


def experiment(**mesh):
    return parse_experiment(
        {
            "workload": "layer",
            "target": "local",
            "mesh": mesh,
            "dims": {"batch": 64, "in": 64, "out": 64},
        }
    )


def chips(low=0, process=lambda at: 0):
    """Eight chips of v5e from a corner on, numbered row by row."""
    return [
        Device(id=100 + at, process=process(at), coords=(low + at % 2, low + at // 2, 0), core=0)
        for at in range(8)
    ]


def test_attached_devices_stand_by_their_coordinates_counted_from_the_least():
    for low in (0, 4):
        stand = placed(experiment(x=8), environment("TPU v5 lite", chips(low)))
        assert stand.topology is not None and stand.topology.name == "v5e:2x4"
        # mesh_utils puts them in an order of its own, and each keeps its number
        assert dict(zip(stand.numbers, stand.places, strict=True)) == {
            100 + at: (at % 2, at // 2, 0, 0, 0) for at in range(8)
        }
        assert stand.numbers != tuple(range(100, 108))


def test_hosts_are_the_processes_of_attached_devices():
    stand = placed(experiment(x=8), environment("TPU v5 lite", chips(process=lambda at: at // 4)))
    assert dict(zip(stand.numbers, stand.hosts, strict=True)) == {
        100 + at: (at // 4,) for at in range(8)
    }


def test_devices_that_form_no_box_or_have_no_coordinates_stand_in_the_mesh():
    gpus = [Device(id=at, process=0) for at in range(4)]
    stand = placed(experiment(x=4), environment("NVIDIA H100", gpus))
    assert (stand.topology, stand.places, stand.numbers) == (None, None, (0, 1, 2, 3))
    odd = [*chips()[:7], Device(id=107, process=0, coords=(5, 5, 0), core=0)]
    assert placed(experiment(x=8), environment("TPU v5 lite", odd)).topology is None
    assert placed(experiment(x=4), environment("TPU v5 lite", chips())).topology is None


def test_a_mesh_that_does_not_fill_its_topology_stands_in_the_mesh():
    few = parse_experiment(
        {
            "workload": "layer",
            "target": "tpu:v5e:4x4",
            "mesh": {"x": 4},
            "dims": {"batch": 64, "in": 64, "out": 64},
        }
    )
    assert placed(few).topology is None and len(placed(few).numbers) == 4

from bench.values import ENVIRONMENT
from spmd_core.machine.hardware import Hardware, Holder
from spmd_core.results import Environment
from spmd_core.words.predictions import HELD, PUBLISHED, RANGE
from spmd_lab.ui.hardware import cluster_headline, facts, headline, hosts_table, remarks
from tests.ui import opened

LAPTOP = Hardware(None, None, (), (), 2, 8 * 2**30, 4 * 2**30)
TPU = Hardware(
    "tpu",
    "TPU v5e",
    ("/dev/accel0", "/dev/accel1"),
    (Holder(41, "python3", "/dev/accel0"),),
    112,
    2**38,
    2**37,
    2,
    4,
    chips=2,
)
CHIPS = Environment.model_validate(
    ENVIRONMENT
    | {
        "platform": "tpu",
        "device_kind": "TPU v5 lite",
        "device_count": 2,
        "simulated": False,
        "devices": [
            {
                "id": 0,
                "process": 0,
                "coords": [0, 0, 0],
                "core": 0,
                "memory_kinds": ["device", "pinned_host"],
                "memory_bytes": 16 * 2**30,
            }
        ],
    }
)


def test_a_machine_without_accelerator_says_what_stands_in():
    simulated = Environment.model_validate(ENVIRONMENT)
    assert " measured on 8 simulated CPU devices, " in headline(LAPTOP, simulated, "cpu:8")
    assert dict(facts(LAPTOP, simulated))["Memory kinds"] == "device, pinned_host"
    assert remarks(LAPTOP, simulated, "cpu:8", None) == [
        "8 simulated devices share 2 cores: their times say nothing of real devices. Layouts and collectives are as on real ones."
    ]


def test_a_busy_tpu_names_who_holds_it_and_its_place_in_the_slice():
    assert " measured on 2 × TPU v5e, predicted" in headline(TPU, None, "local")
    told = remarks(TPU, None, "local", worker_pid=7)
    assert told[0] == "/dev/accel0 is held by process 41: another program, python3."
    assert (
        told[1]
        == "This host is one of 4 of a slice, number 2: only the devices of this host are used here."
    )
    assert "this dashboard's own worker" in remarks(TPU, None, "local", worker_pid=41)[0]


def test_what_jax_takes_of_a_gpu_stands_beside_its_data_sheet():
    pool = int(0.75 * 81_559 * 2**20)
    update = {"platform": "gpu", "device_kind": "NVIDIA H100 80GB HBM3"}
    held = CHIPS.devices[0].model_copy(update={"memory_bytes": pool})
    gpus = CHIPS.model_copy(update={**update, "devices": (held,)})
    (told,) = remarks(LAPTOP, gpus, "local", None)
    assert told.startswith("JAX takes up to 59.7 GiB of each GPU of the 79.6 GiB in the data sheet")
    stranger = gpus.model_copy(update={"device_kind": "NVIDIA GeForce RTX 4090"})
    assert "data sheet" not in remarks(LAPTOP, stranger, "local", None)[0]


def test_facts_of_chips_come_from_the_devices_themselves():
    assert dict(facts(TPU, CHIPS)) == {
        "Platform": "tpu",
        "Devices": "2",
        "Device kind": "TPU v5 lite",
        "Memory per device": "16.0 GiB",
        "Memory kinds": "device, pinned_host",
        "Host": "112 cores, 256.0 GiB",
    }
    assert dict(facts(TPU, None))["Memory kinds"] == "–"  # not asked yet


def test_a_cluster_has_a_row_for_each_host_with_its_chips():
    given = {"core": 0, "memory_kinds": ["device"], "memory_bytes": 16 * 2**30}
    devices = [
        {"id": at, "process": at // 4, "coords": [at // 2, 0, 0]} | given | {"core": at % 2}
        for at in range(8)
    ]
    changes = {"process_count": 2, "device_count": 8, "devices": devices, "hosts": ["vm-0", "vm-1"]}
    found = Environment.model_validate(CHIPS.model_dump() | changes)
    assert cluster_headline(found, "5 min ago") == (
        "2 hosts, 8 × TPU v5 lite in all, when last queried: 5 min ago. A host that was lost since "
        "is listed."
    )
    assert hosts_table(found).to_dict("records") == [
        {
            "Host": f"vm-{number}",
            "Process": number,
            "Chips": 2,
            "Devices": ", ".join(str(4 * number + at) for at in range(4)),
            "Memory per device": "16.0 GiB",
        }
        for number in range(2)
    ]


def test_how_well_predictions_hold_is_a_press_from_the_overview(data_folder):
    screen = opened()
    (button,) = [each for each in screen.button if each.key == "published"]
    assert f"{HELD} of {PUBLISHED} published step times" in button.label and RANGE in button.label
    assert not screen.get("image")
    button.click().run(timeout=60)
    assert not screen.exception and len(screen.get("image")) == 1

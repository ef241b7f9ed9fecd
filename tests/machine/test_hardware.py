"""What the machine is, read from a folder that imitates one."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spmd_core.machine import read_hardware

GIB = 2**30


@pytest.fixture
def root(tmp_path):
    write(
        tmp_path,
        "proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         100 kB\nMemAvailable:    8388608 kB\n",
    )
    return tmp_path


def write(root, path, text=""):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


NO_METADATA = {"TPU_SKIP_MDS_QUERY": "1"}


def add_tpu(root, chips=4, device="0x0063"):
    for chip in range(chips):
        write(root, f"dev/accel{chip}")
        write(root, f"sys/bus/pci/devices/0000:00:0{chip}.0/vendor", "0x1ae0\n")
        write(root, f"sys/bus/pci/devices/0000:00:0{chip}.0/device", f"{device}\n")


def test_a_machine_without_an_accelerator(root):
    hardware = read_hardware(root, {})
    assert (hardware.accelerator, hardware.name, hardware.device_files, hardware.holders) == (
        None,
        None,
        (),
        (),
    )
    assert (hardware.memory_bytes, hardware.available_bytes) == (16 * GIB, 8 * GIB)
    assert hardware.cores == len(os.sched_getaffinity(0))
    assert hardware.sentence == f"no accelerator, {hardware.cores} CPU cores"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("0x005e", "TPU v4"),
        ("0x0062", "TPU v5p"),
        ("0x0063", "TPU v5e"),
        ("0x006f", "TPU v6e"),
        ("0xffff", "TPU"),
    ],
)
def test_a_tpu_is_named_by_its_pci_device(root, device, name):
    add_tpu(root, device=device)
    hardware = read_hardware(root, NO_METADATA)
    assert (hardware.accelerator, hardware.name) == ("tpu", name)
    assert hardware.device_files == ("/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel3")
    assert hardware.sentence.startswith(f"4 × {name}, ")


def add_vfio(root, group, device="0x0063", vendor="0x1ae0"):
    write(root, f"dev/vfio/{group}")
    for folder in (
        f"sys/kernel/iommu_groups/{group}/devices/0000:01:0{group}.0",
        f"sys/bus/pci/devices/0000:01:0{group}.0",
    ):
        write(root, f"{folder}/vendor", f"{vendor}\n")
        write(root, f"{folder}/device", f"{device}\n")


def test_a_tpu_behind_vfio(root):
    for group in (0, 2, 10):
        add_vfio(root, group)
    write(root, "dev/vfio/vfio")
    hardware = read_hardware(root, NO_METADATA)
    assert hardware.device_files == ("/dev/vfio/0", "/dev/vfio/2", "/dev/vfio/10")
    assert (hardware.name, hardware.chips) == ("TPU v5e", 3)


@pytest.mark.parametrize(("vendor", "device"), [("0x15b3", "0x101e"), ("0x1ae0", "0x0042")])
def test_a_network_card_behind_vfio_is_no_tpu(root, vendor, device):
    add_vfio(root, 96, device, vendor)
    assert read_hardware(root, NO_METADATA).accelerator is None
    for group in range(4):
        add_vfio(root, group, "0x006f")
    hardware = read_hardware(root, NO_METADATA)
    assert (hardware.name, hardware.chips) == ("TPU v6e", 4)
    assert "/dev/vfio/96" not in hardware.device_files


def test_a_tpu7x_has_two_device_files_a_chip(root):
    for file in range(8):
        write(root, f"dev/vfio/{file}")
    for chip in range(4):
        write(root, f"sys/bus/pci/devices/0000:00:0{chip}.0/vendor", "0x1ae0\n")
        write(root, f"sys/bus/pci/devices/0000:00:0{chip}.0/device", "0x0076\n")
    hardware = read_hardware(root, NO_METADATA)
    assert (hardware.name, len(hardware.device_files), hardware.chips) == ("TPU7x", 8, 4)
    assert hardware.sentence.startswith("4 × TPU7x, ")


@pytest.mark.parametrize(("subsystem", "name"), [("0x004e", "TPU v2"), ("0x004f", "TPU v3")])
def test_v2_and_v3_differ_by_their_subsystem(root, subsystem, name):
    add_tpu(root, device="0x0027")
    for chip in range(4):
        write(root, f"sys/bus/pci/devices/0000:00:0{chip}.0/subsystem_device", subsystem)
    assert read_hardware(root, NO_METADATA).name == name


def test_a_container_counts_the_chips_that_it_was_given(root):
    add_tpu(root, chips=4)
    for chip in (1, 2, 3):
        (root / f"dev/accel{chip}").unlink()
    assert read_hardware(root, NO_METADATA).chips == 1


def test_gpus(root):
    write(root, "dev/kfd")
    assert read_hardware(root, {}).accelerator == "amd"
    write(root, "dev/nvidia0")
    write(root, "dev/nvidiactl")
    write(
        root,
        "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ: 1\n",
    )
    hardware = read_hardware(root, {})
    assert (hardware.accelerator, hardware.name, hardware.device_files) == (
        "nvidia",
        "NVIDIA H200",
        ("/dev/nvidia0",),
    )


def test_the_process_that_holds_a_busy_tpu_is_named(root):
    add_tpu(root)
    write(root, "proc/41/comm", "bystander\n")
    write(root, "proc/42/comm", "python3\n")
    for process, number, file in (
        (41, 0, "/dev/null"),
        (42, 0, "/dev/null"),
        (42, 7, "/dev/accel0"),
        (42, 8, "/dev/accel1"),
    ):
        (root / f"proc/{process}/fd").mkdir(exist_ok=True)
        (root / f"proc/{process}/fd/{number}").symlink_to(file)
    write(root, "proc/43/comm", "another user's")  # no fd folder that could be read
    (holder,) = read_hardware(root, NO_METADATA).holders
    assert (holder.pid, holder.name, holder.device_file) == (42, "python3", "/dev/accel0")


def test_a_real_process_that_holds_a_file_is_found(tmp_path):
    """Against the real /proc: the same reading, of a file that stands for the device."""
    from spmd_core.machine import hardware

    device = tmp_path / "accel0"
    device.touch()
    with subprocess.Popen(
        [sys.executable, "-c", f"file = open({str(device)!r}); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        assert [holder.pid for holder in hardware._holders(hardware.Path("/"), (str(device),))] == [
            process.pid
        ]
        process.communicate("\n")


def test_a_host_of_a_slice_says_which_it_is(root):
    environ = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "t-0,t-1,t-2,t-3"}
    assert read_hardware(root, environ).slice_hosts == 1  # without a TPU the variables mean nothing
    add_tpu(root)
    hardware = read_hardware(root, environ)
    assert (hardware.slice_host, hardware.slice_hosts) == (2, 4)
    assert hardware.sentence.endswith("this host is one of 4 of a slice")


@pytest.fixture
def metadata_server():
    """A metadata server as on a Cloud TPU VM; yields its address and the paths that were asked for."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.rpartition("/")[2]
            asked.append((self.path, self.headers["Metadata-Flavor"]))
            text = {
                "worker-network-endpoints": "a:1:10.0.0.2,a:2:10.0.0.3,a:3:10.0.0.4,a:4:10.0.0.5",
                "agent-worker-number": "3\n",
            }.get(name)
            self.send_response(200 if text else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_a_cloud_tpu_vm_asks_its_metadata_server_once(root, metadata_server):
    address, asked = metadata_server
    assert read_hardware(root, {"GCE_METADATA_IP": address}).slice_hosts == 1
    assert asked == []  # there is no TPU
    add_tpu(root)
    for _ in range(3):
        hardware = read_hardware(root, {"GCE_METADATA_IP": address})
        assert (hardware.slice_host, hardware.slice_hosts) == (3, 4)
    attributes = "/computeMetadata/v1/instance/attributes/"
    assert asked == [
        (f"{attributes}worker-network-endpoints", "Google"),
        (f"{attributes}agent-worker-number", "Google"),
    ]


def test_no_metadata_server_is_no_slice(root):
    add_tpu(root)
    hardware = read_hardware(root, {"GCE_METADATA_IP": "127.0.0.1:9"})
    assert (hardware.slice_host, hardware.slice_hosts) == (None, 1)


@pytest.mark.parametrize(
    ("group", "files"),
    [
        (
            "0::/job",
            {
                "job/memory.max": "4294967296",
                "job/memory.current": "3221225472",
                "job/memory.stat": "inactive_file 1073741824\n",
            },
        ),
        (
            "0::/elsewhere",
            {
                "memory.max": "4294967296",
                "memory.current": "3221225472",
                "memory.stat": "anon 5\ninactive_file 1073741824\n",
            },
        ),
        (
            "4:memory:/job",
            {
                "memory/job/memory.limit_in_bytes": "4294967296",
                "memory/job/memory.usage_in_bytes": "2147483648",
            },
        ),
    ],
)
def test_a_control_group_that_allows_less_counts(root, group, files):
    write(root, "proc/self/cgroup", f"9:cpu:/\n{group}\n")
    for path, text in files.items():
        write(root, f"sys/fs/cgroup/{path}", text + "\n")
    hardware = read_hardware(root, {})
    assert (hardware.memory_bytes, hardware.available_bytes) == (4 * GIB, 2 * GIB)


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_a_control_group_without_a_limit_does_not_count(root, limit):
    write(root, "sys/fs/cgroup/memory.max", limit)
    write(root, "sys/fs/cgroup/memory.current", "1")
    assert read_hardware(root, {}).memory_bytes == 16 * GIB


def test_this_machine_can_be_read():
    hardware = read_hardware()
    assert hardware.cores >= 1
    assert hardware.memory_bytes is None or 0 < hardware.available_bytes <= hardware.memory_bytes

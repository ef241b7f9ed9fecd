"""What this machine is, read from device files, /proc and the environment, without jax."""

import os
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spmd_core.machine.chips import TITLES_BY_PCI_ID

METADATA_TIMEOUT_S = 1.0
_ATTRIBUTES = "http://{address}/computeMetadata/v1/instance/attributes/{name}"


_GOOGLE_PCI_VENDOR = "0x1ae0"
# v2 and v3 have one device id; tpu_info/device.py (AI-Hypercomputer/cloud-accelerator-diagnostics)
_V2_V3_PCI_ID, _BY_SUBSYSTEM = "0x0027", {"0x004e": "TPU v2", "0x004f": "TPU v3"}
_FILES_PER_CHIP = {"TPU7x": 2}
_FILES = (
    ("tpu", "dev", "accel[0-9]*"),
    ("nvidia", "dev", "nvidia[0-9]*"),
    ("tpu", "dev/vfio", "[0-9]*"),
    ("amd", "dev", "kfd"),
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has an accelerator's device file open."""

    pid: int
    name: str
    device_file: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """This machine: accelerator kind (`tpu`, `nvidia`, `amd` or None), its device files and chips
    (TPU7x has two files for each), CPU cores, memory in bytes.
    """

    accelerator: str | None
    name: str | None
    device_files: tuple[str, ...]
    holders: tuple[Holder, ...]
    cores: int
    memory_bytes: int | None
    available_bytes: int | None
    slice_host: int | None = None  # this host's number in its TPU slice, from 0
    slice_hosts: int = 1
    chips: int = 0

    @property
    def sentence(self) -> str:
        """The machine in a sentence."""
        what = f"{self.chips} × {self.name}" if self.accelerator else "no accelerator"
        place = (
            f"; this host is one of {self.slice_hosts} of a slice" if self.slice_hosts > 1 else ""
        )
        return f"{what}, {self.cores} CPU cores{place}"


def read_hardware(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Hardware:
    """Reads hardware facts under `root`: `/`, or a test's copy of it."""
    kind, files = device_files(root)
    name = _name(root, kind)
    host, hosts = slice_position(environ) if kind == "tpu" else (None, 1)
    total, available = _memory(root)
    return Hardware(
        accelerator=kind,
        name=name,
        device_files=files,
        holders=_holders(root, files) if kind == "tpu" else (),
        cores=available_cores(),
        memory_bytes=total,
        available_bytes=available,
        slice_host=host,
        slice_hosts=hosts,
        chips=_chips(root, kind, name, len(files)),
    )


def device_files(root: Path = Path("/")) -> tuple[str | None, tuple[str, ...]]:
    """The accelerator's kind and its device files; None and nothing where there is none."""
    for kind, folder, pattern in _FILES:
        files = [
            path
            for path in sorted(
                (root / folder).glob(pattern), key=lambda path: (len(path.name), path.name)
            )
            if folder != "dev/vfio" or _is_tpu_group(root, path.name)
        ]
        if files:
            return kind, tuple("/" + str(path.relative_to(root)) for path in files)
    return None, ()


def _is_tpu_group(root: Path, group: str) -> bool:
    """Whether an IOMMU group holds a TPU: a network card can be at /dev/vfio/96 as well. Where a
    container hides the group's devices, the machine's PCI devices decide.
    """
    devices = list((root / "sys/kernel/iommu_groups" / group / "devices").glob("*/vendor"))
    return bool(_titles(devices) if devices else _tpus_on_pci(root))


def _tpus_on_pci(root: Path) -> list[str]:
    return _titles(sorted(root.glob("sys/bus/pci/devices/*/vendor")))


def _titles(vendors: Sequence[Path]) -> list[str]:
    """Titles of the TPUs among PCI devices, by their `vendor` files. By device id, since Google's
    network cards have the same vendor.
    """
    titles = []
    for vendor in vendors:
        if _text(vendor).strip() != _GOOGLE_PCI_VENDOR:
            continue
        device = _text(vendor.parent / "device").strip()
        title = TITLES_BY_PCI_ID.get(device)
        if device == _V2_V3_PCI_ID:
            subsystem = _text(vendor.parent / "subsystem_device").strip()
            title = _BY_SUBSYSTEM.get(subsystem, "TPU v3")
        if title:
            titles.append(title)
    return titles


def _chips(root: Path, kind: str | None, name: str | None, files: int) -> int:
    """Chips: of a TPU as the PCI bus lists them, but never more than its files allow, since a
    container may be given some of them only.
    """
    if kind != "tpu":
        return files
    by_files = -(-files // _FILES_PER_CHIP.get(name or "", 1))
    return min(len(_tpus_on_pci(root)) or by_files, by_files)


def _name(root: Path, kind: str | None) -> str | None:
    if kind == "tpu":
        return next(iter(_tpus_on_pci(root)), "TPU")
    if kind == "nvidia":
        for information in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
            for line in _text(information).splitlines():
                if line.startswith("Model:"):
                    return line.removeprefix("Model:").strip()
        return "NVIDIA GPU"
    return "AMD GPU" if kind == "amd" else None


def _holders(root: Path, files: tuple[str, ...]) -> tuple[Holder, ...]:
    """Processes with one of the files open, as far as /proc lets this user see."""
    holders = []
    for process in root.glob("proc/[0-9]*"):
        try:
            opened = {os.readlink(link) for link in (process / "fd").iterdir()}
        except OSError:  # it ended, or it is another user's
            continue
        if held := sorted(opened & set(files)):
            holders.append(
                Holder(int(process.name), _text(process / "comm").strip() or "?", held[0])
            )
    return tuple(sorted(holders, key=lambda holder: holder.pid))


def available_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory(root: Path) -> tuple[int | None, int | None]:
    """Total and available bytes: the machine's, or those of a control group that allows less."""
    fields = {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (
            line.partition(":") for line in _text(root / "proc/meminfo").splitlines()
        )
        if name in ("MemTotal", "MemAvailable")
    }
    total, available = fields.get("MemTotal"), fields.get("MemAvailable")
    for group in _control_groups(root):
        for limit_file, used_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _text(group / limit_file).strip(), _text(group / used_file).strip()
            if (
                not limit.isdecimal()
                or not used.isdecimal()
                or int(limit) >= (total or int(limit) + 1)
            ):
                continue
            # the page cache counts as used, though the kernel gives it back
            cached = sum(
                int(line.split()[1])
                for line in _text(group / "memory.stat").splitlines()
                if line.startswith("inactive_file ")
            )
            room = max(0, int(limit) - int(used) + cached)
            total, available = int(limit), room if available is None else min(room, available)
    return total, available


def _control_groups(root: Path) -> list[Path]:
    """Folders of this process's memory control groups: version 2 and 1, as seen from the host and
    from inside a container.
    """
    folders = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/memory"]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            folders.append(folders[0 if not controllers else 1] / path.lstrip("/"))
    return list(dict.fromkeys(folders))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def slice_position(environ: Mapping[str, str]) -> tuple[int | None, int]:
    """This host's number in its slice, from 0, and how many hosts that has. None and 1 where
    neither source gives them.

    GKE sets TPU_WORKER_ID and TPU_WORKER_HOSTNAMES. A Cloud TPU VM has a metadata server, which is
    queried once unless TPU_SKIP_MDS_QUERY is set. Both as in
    jax/_src/clusters/cloud_tpu_cluster.py.
    """
    number, hosts = (
        environ.get("TPU_WORKER_ID", ""),
        _hosts(environ.get("TPU_PROCESS_ADDRESSES") or environ.get("TPU_WORKER_HOSTNAMES", "")),
    )
    if not hosts and "TPU_SKIP_MDS_QUERY" not in environ:
        address = environ.get("GCE_METADATA_IP", "metadata.google.internal")
        hosts = _hosts(_attribute(address, "worker-network-endpoints"))
        number = _attribute(address, "agent-worker-number") if hosts > 1 else ""
    return (int(number) if number.isdecimal() else None), max(1, hosts)


def _hosts(names: str) -> int:
    return sum(1 for name in names.split(",") if name.strip())


@lru_cache(maxsize=8)
def _attribute(address: str, name: str) -> str:
    request = urllib.request.Request(
        _ATTRIBUTES.format(address=address, name=name), headers={"Metadata-Flavor": "Google"}
    )
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with without_proxy.open(request, timeout=METADATA_TIMEOUT_S) as answer:
            return answer.read(2**16).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""


SHARE = 0.9  # of the memory that is free: a machine without any stops responding


def spare_bytes() -> int | None:
    """Bytes that such code may take now; None where free memory is unknown."""
    free = read_hardware().available_bytes
    return None if free is None else int(SHARE * free)

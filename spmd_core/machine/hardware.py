"""What this machine is, read from device files, /proc and the environment, without jax."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spmd_core.machine.chips import TITLES_BY_PCI_ID
from spmd_core.machine.host_in_slice import slice_position

_GOOGLE_PCI_VENDOR = "0x1ae0"
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
    """This machine: accelerator kind (`tpu`, `nvidia`, `amd` or None), its device files, CPU cores,
    memory in bytes.
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

    @property
    def sentence(self) -> str:
        """The machine in a sentence."""
        what = f"{len(self.device_files)} × {self.name}" if self.accelerator else "no accelerator"
        place = (
            f"; this host is one of {self.slice_hosts} of a slice" if self.slice_hosts > 1 else ""
        )
        return f"{what}, {self.cores} CPU cores{place}"


def read_hardware(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Hardware:
    """Reads hardware facts under `root`: `/`, or a test's copy of it."""
    kind, files = _device_files(root)
    host, hosts = slice_position(environ) if kind == "tpu" else (None, 1)
    total, available = _memory(root)
    return Hardware(
        accelerator=kind,
        name=_name(root, kind),
        device_files=files,
        holders=_holders(root, files) if kind == "tpu" else (),
        cores=_cores(),
        memory_bytes=total,
        available_bytes=available,
        slice_host=host,
        slice_hosts=hosts,
    )


def _device_files(root: Path) -> tuple[str | None, tuple[str, ...]]:
    for kind, folder, pattern in _FILES:
        if files := sorted(
            (root / folder).glob(pattern), key=lambda path: (len(path.name), path.name)
        ):
            return kind, tuple("/" + str(path.relative_to(root)) for path in files)
    return None, ()


def _name(root: Path, kind: str | None) -> str | None:
    if kind == "tpu":
        for vendor in sorted(root.glob("sys/bus/pci/devices/*/vendor")):
            if _text(vendor).strip() == _GOOGLE_PCI_VENDOR:
                name = TITLES_BY_PCI_ID.get(_text(vendor.parent / "device").strip())
                if name:
                    return name
        return "TPU"
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


def _cores() -> int:
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

"""What surrounds the devices of this machine: lock file, limits, environment, ports; without jax."""

import os
import re
import resource
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_NAMES = ("TPU_", "LIBTPU_", "XLA_", "JAX_", "CLOUD_TPU_", "MEGASCALE_", "SPMD_LAB_", "CUDA_")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)
# of a URL with a password, and of what looks like a key wherever it stands
_MASKED_PARTS = (
    (re.compile(r"(?<=://)[^/@\s]+@"), "***@"),
    (re.compile(r"\b(?=\w*[0-9])(?=\w*[A-Za-z])[A-Za-z0-9_-]{32,}\b"), "***"),
)
LOCK_FILE = "tmp/libtpu_lockfile"
PORTS = {8501: "the dashboard", 8431: "libtpu's metrics", 8476: "processes of a slice"}


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that JAX, libtpu, XLA and the lab read, by name; what may be a secret is masked.

    >>> variables({"SPMD_LAB_TOKEN": "s3cret", "TPU_TOPOLOGY": "4x4", "HOME": "/root"})
    {'SPMD_LAB_TOKEN': '***', 'TPU_TOPOLOGY': '4x4'}
    """
    return {
        name: "***" if _SECRET.search(name) else _without_secrets(value)
        for name, value in sorted(environ.items())
        if name.startswith(_NAMES)
    }


def _without_secrets(value: str) -> str:
    for pattern, mask in _MASKED_PARTS:
        value = pattern.sub(mask, value)
    return value[:300]


def lock_file(root: Path = Path("/")) -> tuple[str, str] | None:
    """The lock file of libtpu and its owner, where there is one: a user's name, else a number."""
    path = root / LOCK_FILE
    try:
        owner = path.stat().st_uid
    except OSError:
        return None
    with suppress(ImportError, KeyError):
        import pwd  # not on every platform

        return f"/{LOCK_FILE}", pwd.getpwuid(owner).pw_name
    return f"/{LOCK_FILE}", str(owner)


def locked_memory_bytes() -> int | None:
    """What this process may lock in memory; None for no limit."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def huge_pages(root: Path = Path("/")) -> str | None:
    """The kernel's setting of transparent huge pages: always, madvise or never."""
    with suppress(OSError):
        text = (root / "sys/kernel/mm/transparent_hugepage/enabled").read_text()
        if chosen := re.search(r"\[(\w+)\]", text):
            return chosen[1]
    return None


def unreadable(files: tuple[str, ...]) -> tuple[str, ...]:
    """Those device files that this user may not open."""
    return tuple(file for file in files if not os.access(file, os.R_OK | os.W_OK))


def taken_ports() -> tuple[int, ...]:
    """Those of `PORTS` at which something listens on loopback."""
    taken = []
    for port in PORTS:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                taken.append(port)
    return tuple(taken)


def answers(host: str, port: int, timeout_s: float = 2.0) -> str | None:
    """Why nothing answers at an address; None where something does."""
    try:
        socket.create_connection((host.strip("[]"), port), timeout_s).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def folder_facts(folder: Path) -> dict[str, object]:
    """Mode, free bytes and file system of a folder, or of its nearest parent that exists."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    space = os.statvfs(there)
    return {
        "path": str(folder),
        "is_there": there == folder,
        "is_writable": os.access(there, os.W_OK | os.X_OK),
        "is_private": not there.stat().st_mode & 0o077 if there == folder else True,
        "free_bytes": space.f_bavail * space.f_frsize,
        "file_system": _file_system(there),
    }


def _file_system(folder: Path) -> str | None:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return None
    holding = [
        (len(point), kind) for _, point, kind, *_ in mounts if folder.is_relative_to(Path(point))
    ]
    return max(holding)[1] if holding else None

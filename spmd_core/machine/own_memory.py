"""How much memory code of the user's own may take, whose needs nobody knows beforehand."""

import os
from pathlib import Path

from spmd_core.machine.hardware import read_hardware

SHARE = 0.9  # of the memory that is free: a machine without any stands still


def spare_bytes() -> int | None:
    """Bytes that such code may take now; None where free memory is unknown."""
    free = read_hardware().available_bytes
    return None if free is None else int(SHARE * free)


def resident_bytes(pid: int) -> int:
    """Main memory that a process holds now; 0 where that cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

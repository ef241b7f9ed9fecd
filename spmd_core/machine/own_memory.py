"""How much memory code of the user's own may take, whose needs nobody knows beforehand."""

from spmd_core.machine.hardware import read_hardware

SHARE = 0.9  # of the memory that is free: a machine without any stops responding


def spare_bytes() -> int | None:
    """Bytes that such code may take now; None where free memory is unknown."""
    free = read_hardware().available_bytes
    return None if free is None else int(SHARE * free)

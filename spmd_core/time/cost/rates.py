"""What a device reaches of its memory: its bandwidth, and the share that a process may have."""

from collections.abc import Iterator

from spmd_core.machine import GPU_SHARE, USUAL_SHARE, Chip, Gpu
from spmd_core.results import StoredFact
from spmd_core.time.cost.constants import HBM_EFFICIENCY


def hbm_share(chip: Chip) -> float:
    """The share of nominal HBM bandwidth that streaming reaches."""
    return chip.hbm_share if isinstance(chip, Gpu) else HBM_EFFICIENCY


def hbm_s(chip: Chip, nbytes: float) -> float:
    """Seconds of one device's bytes to and from HBM, as streams."""
    return nbytes / (chip.device_hbm_bandwidth * hbm_share(chip))


def taken_memory(chip: Chip, peak: int | None, host: int | None) -> Iterator[StoredFact]:
    """Yields which share of a GPU's memory a process is taken to have, and, where a step holds
    bytes in host memory, whose that is.
    """
    if chip.is_gpu:
        holds = "holds" if (peak or 0) <= USUAL_SHARE * chip.hbm_bytes else "does not hold"
        values = {"share": GPU_SHARE, "memory_bytes": chip.hbm_bytes, "usual": USUAL_SHARE}
        yield StoredFact(kind="gpu memory", values={**values, "holds": holds})
    if host:
        machine, nbytes = chip.host
        values = {"machine": machine, "memory_bytes": nbytes, "generation": chip.generation}
        yield StoredFact(kind="host memory", values=values)

"""What a device reaches of its memory's bandwidth."""

from spmd_core.machine import Chip, Gpu
from spmd_core.time.cost.constants import HBM_EFFICIENCY


def hbm_share(chip: Chip) -> float:
    """The share of nominal HBM bandwidth that streaming reaches."""
    return chip.hbm_share if isinstance(chip, Gpu) else HBM_EFFICIENCY


def hbm_s(chip: Chip, nbytes: float) -> float:
    """Seconds of one device's bytes to and from HBM, as streams."""
    return nbytes / (chip.device_hbm_bandwidth * hbm_share(chip))

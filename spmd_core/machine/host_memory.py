"""How much host memory arrays of a device may take, and what the owner of other hosts has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.base import refuse, shorten

VARIABLE = "SPMD_LAB_HOST_GIB"
# Compute Engine's list of machine types, as kept by Cyclenerd/google-cloud-pricing-cost-calculator
LISTED = "gcloud compute machine-types list (tools/machinetypes.csv of Cyclenerd's calculator)"
DESCRIBED = "cloud.google.com, the page of the machine type; not in the list of machine types read"
# of a host's memory that arrays may take: the rest is for the operating system, the process and its
# input pipeline; a guess above 0.88, which MaxText's step of 128B parameters on v5e offloads
HOST_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes that one JAX device may hold, and that it may hold in host memory."""

    device: int
    host: int

    def limited(self, most: int | None) -> "Capacity":
        """The same with at most so many bytes on the device."""
        return Capacity(min(self.device, most or self.device), self.host)


def own_host_bytes() -> Mapping[str, float]:
    """Generation -> bytes of one host, as `SPMD_LAB_HOST_GIB=h100=2048,v5p=448` sets them.

    Raises:
        RequestError: A part is not a generation with a positive number of GiB.
    """
    return _read(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=8)
def _read(text: str) -> Mapping[str, float]:
    sizes = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        try:
            size = float(value)
        except ValueError:
            size = 0.0
        if not (name.strip() and 0 < size < 1e6):
            raise refuse(
                f"{VARIABLE}={shorten(part)}",
                "is not a generation with the GiB of one host",
                f"use for example {VARIABLE}=h100=2048,v5p=448, or leave it out",
            )
        sizes[name.strip().lower()] = size * 2**30
    return sizes

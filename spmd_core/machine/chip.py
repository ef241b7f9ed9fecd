"""A kind of accelerator: what each TPU generation and each GPU has in its data sheet, and the memory of
its hosts.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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


@lru_cache(maxsize=8)
def _host_bytes(text: str) -> Mapping[str, float]:
    """Generation -> bytes of one host, of a text such as `h100=2048,v5p=448`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A TPU generation or a GPU. Values are per chip unless noted; bandwidths in bytes per second,
    one way.
    """

    generation: str
    title: str
    # `device_kind` as libtpu reports it, and its other spellings.
    device_kinds: tuple[str, ...]
    pci_id: str | None = None  # of jax/_src/hardware_utils.py, _TPU_PCI_DEVICE_IDS
    peak_flops: float  # FLOP/s in bfloat16
    hbm_bytes: int  # what a program may use
    hbm_bandwidth: float
    # of one link, one direction, nominal; of a GPU all its NVLinks together
    link_bandwidth: float
    torus_dims: int
    dcn_bandwidth: float  # per chip, out of the slice
    host_bandwidth: float  # per chip, to host memory, each way
    host_bytes: int  # memory of one host machine
    host_type: str  # the machine type that has so much
    host_source: str  # of its memory
    host_chips: int = 4  # chips of a host
    clock_hz: float
    matrix_unit: int = 128  # rows and columns of one matrix unit
    max_shape: tuple[int, ...]
    # "full": an axis wraps at the size of max_shape; "cubes": every axis wraps where a slice
    # consists of complete 4x4x4 cubes; "switch": no axis, every device is one hop from every other.
    wrap: Literal["full", "cubes", "switch"]
    devices_per_chip: int = 1
    cores: int = 1  # of one JAX device: two share each operation of a megacore
    smallest: tuple[int, ...] | None = (
        None  # the smallest legal shape, where no single chip is offered
    )
    libtpu_name: str = ""  # of the generation in a topology's name; "": as the generation
    options: tuple[tuple[str, str], ...] = ()  # of libtpu's topology description
    sources: str = ""
    platform: Literal["tpu", "gpu"] = "tpu"  # the first word of a target
    max_slices: int = 256
    slice_word: str = "slice"  # what the devices are together that links join

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU behind switches, and no TPU in a torus."""
        return self.platform == "gpu"

    @property
    def device_flops(self) -> float:
        """Peak bfloat16 FLOP/s of one JAX device."""
        return self.peak_flops / self.devices_per_chip

    @property
    def device_hbm_bandwidth(self) -> float:
        """HBM bandwidth of one JAX device, when all of a chip are busy."""
        return self.hbm_bandwidth / self.devices_per_chip

    @property
    def device_host_bandwidth(self) -> float:
        """Bandwidth to host memory of one JAX device, when all of a chip are busy."""
        return self.host_bandwidth / self.devices_per_chip

    @property
    def device_hbm_bytes(self) -> int:
        """HBM of one JAX device that a program may use."""
        return self.hbm_bytes // self.devices_per_chip

    @property
    def host(self) -> tuple[str, int]:
        """The machine type of a host, and its bytes of memory; the variable that sets them, else.

        RequestError where `SPMD_LAB_HOST_GIB` cannot be read.
        """
        own = _host_bytes(os.environ.get(VARIABLE, "")).get(self.generation)
        return (VARIABLE, int(own)) if own else (self.host_type, self.host_bytes)

    @property
    def capacity(self) -> Capacity:
        """Bytes of one JAX device, and its even share of the host's memory.

        RequestError where `SPMD_LAB_HOST_GIB` cannot be read.
        """
        host = HOST_SHARE * self.host[1]
        return Capacity(self.device_hbm_bytes, int(host / self.host_chips / self.devices_per_chip))

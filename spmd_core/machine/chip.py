"""A kind of accelerator: what each TPU generation and each GPU has in its data sheet."""

from dataclasses import dataclass
from typing import Literal

from spmd_core.machine.host_memory import HOST_SHARE, VARIABLE, Capacity, own_host_bytes


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
        own = own_host_bytes().get(self.generation)
        return (VARIABLE, int(own)) if own else (self.host_type, self.host_bytes)

    @property
    def capacity(self) -> Capacity:
        """Bytes of one JAX device, and its even share of the host's memory.

        RequestError where `SPMD_LAB_HOST_GIB` cannot be read.
        """
        host = HOST_SHARE * self.host[1]
        return Capacity(self.device_hbm_bytes, int(host / self.host_chips / self.devices_per_chip))

"""TPU generations: what each chip can do, every figure with its source."""

from dataclasses import dataclass

GIB = 2**30

# Sources, by short name:
BOOK = '"How to Scale Your Model", chapter 2 (jax-ml/scaling-book, tpus.md)'

DOCS = "cloud.google.com/tpu/docs, the page of the generation"

CACM = 'Jouppi et al., "A domain-specific supercomputer for training deep neural networks", CACM 2020, table 3'

ISCA = 'Jouppi et al., "TPU v4: an optically reconfigurable supercomputer", ISCA 2023, table 4'

COMPILER = "read off libtpu: capacity from its RESOURCE_EXHAUSTED messages, clock from estimated_cycles of plain matmuls against the peak"

GUESS = "a guess"


@dataclass(frozen=True, slots=True)
class Chip:
    """A generation. Per chip unless said otherwise; bandwidths in bytes per second, one way."""

    generation: str
    title: str
    peak_flops: float  # bfloat16
    hbm_bytes: int  # what a program may use
    hbm_bandwidth: float
    link_bandwidth: float  # of one link, one direction, nominal
    torus_dims: int
    dcn_bandwidth: float  # per chip, out of the slice
    host_bandwidth: float  # per chip, to host memory, each way
    clock_hz: float
    matrix_unit: int  # rows and columns of one matrix unit
    max_shape: tuple[int, ...]
    wrap: str  # "full": an axis wraps at the size of max_shape; "cubes": every axis of a slice of whole 4x4x4 cubes wraps
    devices_per_chip: int = 1
    options: tuple[tuple[str, str], ...] = ()
    sources: str = ""

    @property
    def device_flops(self) -> float:
        """Peak bfloat16 FLOP/s of one JAX device."""
        return self.peak_flops / self.devices_per_chip

    @property
    def device_hbm_bandwidth(self) -> float:
        """HBM bandwidth of one JAX device, when all of a chip are busy."""
        return self.hbm_bandwidth / self.devices_per_chip

    @property
    def device_hbm_bytes(self) -> int:
        """HBM of one JAX device."""
        return self.hbm_bytes // self.devices_per_chip

CHIPS: dict[str, Chip] = {
    chip.generation: chip
    for chip in (
        Chip("v2", "TPU v2", 46e12, int(14.96 * GIB), 700e9, 62e9, 2, 3.125e9, 1.5e10, 0.70e9, 128, (16, 16), "full", 2,
             sources=f"peak, HBM bandwidth, clock, links (496 Gbit/s): {CACM}; capacity: {COMPILER}; dcn, host: {GUESS}"),
        Chip("v3", "TPU v3", 123e12, int(30.96 * GIB), 900e9, 82e9, 2, 3.125e9, 1.5e10, 0.94e9, 128, (32, 32), "full", 2,
             sources=f"peak, HBM bandwidth, clock, links (656 Gbit/s): {CACM}; capacity: {COMPILER}; dcn, host: {GUESS}"),
        Chip("v4", "TPU v4", 275e12, int(30.75 * GIB), 1.228e12, 5e10, 3, 6.25e9, 1.5e10, 1.05e9, 128, (16, 16, 16), "cubes", 1,
             (("chip_config_name", "megacore"),), sources=f"peak, HBM bandwidth, clock, links: {ISCA}; capacity: {COMPILER}; "
                                                          f"host: {BOOK}; dcn: {GUESS}"),
        Chip("v5e", "TPU v5e", 197e12, int(15.75 * GIB), 8.1e11, 5e10, 2, 3.125e9, 1.5e10, 1.50e9, 128, (16, 16), "full",
             sources=f"peak: {DOCS}; HBM bandwidth, links, host: {BOOK}; dcn (2 x 100 Gbit/s for 8 chips): {DOCS}; capacity, clock: {COMPILER}"),
        Chip("v5p", "TPU v5p", 459e12, int(95.74 * GIB), 2.765e12, 1e11, 3, 6.25e9, 1.5e10, 1.75e9, 128, (16, 20, 28), "cubes",
             sources=f"peak, HBM bandwidth, links (1,200 GB/s in all), dcn (50 Gbit/s): {DOCS}; host: {BOOK}; capacity, clock: {COMPILER}"),
        Chip("v6e", "TPU v6e (Trillium)", 918e12, int(31.25 * GIB), 1.64e12, 1e11, 2, 1.25e10, 3.2e10, 1.75e9, 256, (16, 16), "full",
             sources=f"peak, HBM bandwidth, links (800 GB/s in all), dcn (4 x 200 Gbit/s for 8 chips): {DOCS}; host: {BOOK}; "
                     f"capacity, clock: {COMPILER}"),
        Chip("tpu7x", "TPU7x (Ironwood)", 2307e12, int(189.5 * GIB), 7.38e12, 1e11, 3, 1.25e10, 3.2e10, 2.20e9, 256, (16, 24, 24), "cubes", 2,
             sources=f"peak, HBM bandwidth, links (1,200 GB/s in all): {DOCS}; capacity: {COMPILER}; dcn, host, clock: {GUESS}"),
    )
}

# What else generations are called.
OTHER_NAMES = {"v7": ("tpu7x",), "v7x": ("tpu7x",), "tpu7": ("tpu7x",), "ironwood": ("tpu7x",), "v6": ("v6e",), "trillium": ("v6e",),
               "v5": ("v5e", "v5p"), "v5lite": ("v5e",), "v5x": ("v5p",)}

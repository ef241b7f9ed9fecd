"""Every kind of accelerator that programs are compiled for: TPU generations, each figure with its
source, and the GPUs.
"""

from spmd_core.machine.chip import DESCRIBED, LISTED, Chip
from spmd_core.machine.gpus import GPUS

GIB = 2**30

# Sources, by short name:
BOOK = '"How to Scale Your Model", chapter 2 (jax-ml/scaling-book, tpus.md)'

DOCS = "cloud.google.com/tpu/docs, the page of the generation"

CACM = (
    'Jouppi et al., "A domain-specific supercomputer for training deep neural networks", CACM '
    "2020, table 3"
)

ISCA = 'Jouppi et al., "TPU v4: an optically reconfigurable supercomputer", ISCA 2023, table 4'

COMPILER = (
    "read off libtpu: capacity from its RESOURCE_EXHAUSTED messages, clock from "
    "estimated_cycles of plain matmuls against the peak"
)

GUESS = "a guess"


TPUS: dict[str, Chip] = {
    chip.generation: chip
    for chip in (
        Chip(
            generation="v2",
            title="TPU v2",
            device_kinds=("TPU v2",),
            peak_flops=46e12,
            hbm_bytes=int(14.96 * GIB),
            hbm_bandwidth=700e9,
            link_bandwidth=62e9,
            dcn_bandwidth=3.125e9,
            host_bandwidth=15e9,
            host_bytes=334 * GIB,
            host_type="a v2-8 TPU VM",
            host_source=DESCRIBED,
            clock_hz=0.70e9,
            torus_dims=2,
            max_shape=(16, 16),
            wrap="full",
            devices_per_chip=2,
            smallest=(2, 2),
            sources=(
                f"peak, HBM bandwidth, clock, links (496 Gbit/s): {CACM}; capacity: "
                f"{COMPILER}; dcn, host: {GUESS}"
            ),
        ),
        Chip(
            generation="v3",
            title="TPU v3",
            device_kinds=("TPU v3",),
            pci_id="0x0027",
            peak_flops=123e12,
            hbm_bytes=int(30.96 * GIB),
            hbm_bandwidth=900e9,
            link_bandwidth=82e9,
            dcn_bandwidth=3.125e9,
            host_bandwidth=15e9,
            host_bytes=340 * GIB,
            host_type="ct3-hightpu-4t",
            host_source=LISTED,
            clock_hz=0.94e9,
            torus_dims=2,
            max_shape=(32, 32),
            wrap="full",
            devices_per_chip=2,
            smallest=(2, 2),
            sources=(
                f"peak, HBM bandwidth, clock, links (656 Gbit/s): {CACM}; capacity: "
                f"{COMPILER}; dcn, host: {GUESS}"
            ),
        ),
        Chip(
            generation="v4",
            title="TPU v4",
            device_kinds=("TPU v4",),
            pci_id="0x005e",
            peak_flops=275e12,
            hbm_bytes=int(30.75 * GIB),
            hbm_bandwidth=1.228e12,
            link_bandwidth=50e9,
            dcn_bandwidth=6.25e9,
            host_bandwidth=15e9,
            host_bytes=407 * GIB,
            host_type="ct4p-hightpu-4t",
            host_source=LISTED,
            clock_hz=1.05e9,
            torus_dims=3,
            max_shape=(16, 16, 16),
            wrap="cubes",
            cores=2,
            options=(("chip_config_name", "megacore"),),
            sources=(
                f"peak, HBM bandwidth, clock, links: {ISCA}; capacity: {COMPILER}; host: "
                f"{BOOK}; dcn: {GUESS}"
            ),
        ),
        Chip(
            generation="v5e",
            title="TPU v5e",
            device_kinds=("TPU v5 lite", "TPU v5e"),
            pci_id="0x0063",
            peak_flops=197e12,
            hbm_bytes=int(15.75 * GIB),
            hbm_bandwidth=810e9,
            link_bandwidth=50e9,
            dcn_bandwidth=3.125e9,
            host_bandwidth=15e9,
            host_bytes=192 * GIB,
            host_type="ct5lp-hightpu-4t",
            host_source=LISTED,
            clock_hz=1.5e9,
            torus_dims=2,
            max_shape=(16, 16),
            wrap="full",
            sources=(
                f"peak: {DOCS}; HBM bandwidth, links, host: {BOOK}; dcn (2 x 100 Gbit/s for 8 "
                f"chips): {DOCS}; capacity, clock: {COMPILER}"
            ),
        ),
        Chip(
            generation="v5p",
            title="TPU v5p",
            device_kinds=("TPU v5", "TPU v5p"),
            pci_id="0x0062",
            peak_flops=459e12,
            hbm_bytes=int(95.74 * GIB),
            hbm_bandwidth=2.765e12,
            link_bandwidth=100e9,
            dcn_bandwidth=6.25e9,
            host_bandwidth=15e9,
            host_bytes=448 * GIB,
            host_type="ct5p-hightpu-4t",
            host_source=LISTED,
            clock_hz=1.75e9,
            torus_dims=3,
            max_shape=(16, 20, 28),
            wrap="cubes",
            cores=2,
            sources=(
                f"peak, HBM bandwidth, links (1,200 GB/s in all), dcn (50 Gbit/s): {DOCS}; "
                f"host: {BOOK}; capacity, clock: {COMPILER}"
            ),
        ),
        Chip(
            generation="v6e",
            title="TPU v6e (Trillium)",
            device_kinds=("TPU v6 lite", "TPU v6e"),
            pci_id="0x006f",
            peak_flops=918e12,
            hbm_bytes=int(31.25 * GIB),
            hbm_bandwidth=1.64e12,
            link_bandwidth=100e9,
            dcn_bandwidth=12.5e9,
            host_bandwidth=32e9,
            host_bytes=720 * GIB,
            host_type="ct6e-standard-4t",
            host_source=LISTED,
            clock_hz=1.75e9,
            matrix_unit=256,
            torus_dims=2,
            max_shape=(16, 16),
            wrap="full",
            sources=(
                f"peak, HBM bandwidth, links (800 GB/s in all), dcn (4 x 200 Gbit/s for 8 "
                f"chips): {DOCS}; host: {BOOK}; capacity, clock: {COMPILER}"
            ),
        ),
        Chip(
            generation="tpu7x",
            title="TPU7x (Ironwood)",
            device_kinds=("TPU7x", "TPU7"),
            pci_id="0x0076",
            peak_flops=2307e12,
            hbm_bytes=int(189.5 * GIB),
            hbm_bandwidth=7.38e12,
            link_bandwidth=100e9,
            dcn_bandwidth=12.5e9,
            host_bandwidth=32e9,
            host_bytes=960 * GIB,
            host_type="tpu7x-standard-4t",
            host_source=DESCRIBED,
            clock_hz=2.2e9,
            matrix_unit=256,
            torus_dims=3,
            max_shape=(16, 24, 24),
            wrap="cubes",
            devices_per_chip=2,
            libtpu_name="TPU7x",
            sources=(
                f"peak, HBM bandwidth, links (1,200 GB/s in all): {DOCS}; capacity: "
                f"{COMPILER}; dcn, host, clock: {GUESS}"
            ),
        ),
        # Add a generation above this line.
    )
}

CHIPS: dict[str, Chip] = {**TPUS, **GPUS}

# Generation by `device_kind`, and title by PCI device id.
BY_DEVICE_KIND = {kind: chip.generation for chip in CHIPS.values() for kind in chip.device_kinds}


def sheet_bytes(device_kind: str) -> int | None:
    """Memory of a device by its data sheet; None of a kind that has none here."""
    generation = BY_DEVICE_KIND.get(device_kind)
    if generation is None:
        return None
    chip = CHIPS[generation]
    return chip.hbm_bytes // chip.devices_per_chip


TITLES_BY_PCI_ID = {
    chip.pci_id: chip.title.partition(" (")[0] for chip in CHIPS.values() if chip.pci_id
}

# Other names of generations.
OTHER_NAMES = {
    "v7": ("tpu7x",),
    "v7x": ("tpu7x",),
    "tpu7": ("tpu7x",),
    "ironwood": ("tpu7x",),
    "v6": ("v6e",),
    "trillium": ("v6e",),
    "v5": ("v5e", "v5p"),
    "v5lite": ("v5e",),
    "v5x": ("v5p",),
}

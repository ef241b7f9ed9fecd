"""NVIDIA GPUs: what each can do, every figure with its source."""

from dataclasses import dataclass
from typing import Any, Literal

from spmd_core.machine.chip import DESCRIBED, LISTED, Chip

# of a GPU's memory that a process takes with XLA_PYTHON_CLIENT_MEM_FRACTION=0.9, as published runs
# set it: the rest is for the CUDA context and NCCL. JAX takes USUAL_SHARE of it by default
GPU_SHARE, USUAL_SHARE = 0.9, 0.75

MIB, GIB = 2**20, 2**30
SHEET = "NVIDIA's data sheet of the product (dense, SXM)"
SMI = "nvidia-smi's total memory of the product"
# stas00/ml-engineering: compute/accelerator, network/README.md; jax-ml/scaling-book: gpus.md
ENGINEERING = "stas00/ml-engineering, compute/accelerator"
_RINGS = "the best of nccl-tests: stas00/ml-engineering, network/benchmarks; jax-ml/scaling-book, gpus.md"
_EACH = f"peaks, HBM bandwidth, NVLink: {SHEET}; capacity: {SMI}; matmuls and HBM reached: {ENGINEERING}; NVLink reached: {_RINGS}"
_SMALL = ((1,), (2,), (4,), (8,))  # GPUs of a host that are built or rented together


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Chip):
    """A GPU. A slice of a topology is one NVLink domain; `link_bandwidth` is into the switch, all
    NVLinks of a GPU together, and `dcn_bandwidth` that of its network card.
    """

    torus_dims: int = 1
    wrap: Literal["full", "cubes", "switch"] = "switch"
    platform: Literal["tpu", "gpu"] = "gpu"
    max_slices: int = 4096
    slice_word: str = "NVLink domain"
    domains: tuple[tuple[int, ...], ...] = _SMALL  # numbers of GPUs in a domain
    host_chips: int = 8
    sms: int  # streaming multiprocessors
    fp8_flops: float | None  # FLOP/s; None: has no such units
    float32_flops: float  # without tensor cores; float64 with them reaches as much
    l2_bytes: int
    capability: tuple[int, int]  # CUDA's compute capability
    # of the peaks: the best of published matmuls in bfloat16 and in e4m3, and of streams over HBM
    matmul_share: float
    fp8_share: float = 0.0
    hbm_share: float
    # of NVLink's nominal rate: what NCCL's rings reach, and what sums in the switch do (None: it
    # cannot add up)
    ring_share: float
    switch_share: float | None

    @property
    def device_hbm_bytes(self) -> int:
        """HBM that one process takes."""
        return int(self.hbm_bytes * GPU_SHARE)


def _hopper(
    generation: str,
    kind: str,
    *,
    memory_mib: int,
    hbm_bandwidth: float,
    hbm_share: float,
    fp8_share: float,
    host_gib: int,
    host_type: str,
) -> Gpu:
    """H100 and H200 differ by their memory alone."""
    return Gpu(
        generation=generation,
        title=f"NVIDIA {generation.upper()} SXM",
        device_kinds=(kind,),
        peak_flops=989e12,
        fp8_flops=1979e12,
        float32_flops=67e12,
        hbm_bytes=memory_mib * MIB,
        hbm_bandwidth=hbm_bandwidth,
        link_bandwidth=450e9,
        dcn_bandwidth=50e9,
        host_bandwidth=64e9,
        host_bytes=host_gib * GIB,
        host_type=host_type,
        host_source=LISTED,
        clock_hz=1.83e9,
        max_shape=(8,),
        sms=132,
        l2_bytes=50 * MIB,
        capability=(9, 0),
        matmul_share=794 / 989,
        fp8_share=fp8_share,
        hbm_share=hbm_share,
        ring_share=0.82,
        switch_share=0.68,
        sources=f"{_EACH}; network: 400 Gbit/s for each GPU; host: PCIe 5",
    )


def _blackwell(
    generation: str, title: str, *, peak_flops: float, memory_mib: int, sources: str, **other: Any
) -> Gpu:
    """B200 and GB200: the same chip at another clock, in hosts of 8 and in racks of 72."""
    return Gpu(
        generation=generation,
        title=title,
        device_kinds=(title.removesuffix(" NVL72"),),
        peak_flops=peak_flops,
        fp8_flops=2 * peak_flops,
        hbm_bytes=memory_mib * MIB,
        hbm_bandwidth=8e12,
        link_bandwidth=900e9,
        dcn_bandwidth=50e9,
        sms=148,
        l2_bytes=126 * MIB,
        capability=(10, 0),
        hbm_share=0.9,
        ring_share=0.73,
        sources=f"{_EACH}, {sources}",
        max_shape=other.pop("max_shape", (8,)),
        **other,
    )


GPUS: dict[str, Gpu] = {
    gpu.generation: gpu
    for gpu in (
        Gpu(
            generation="a100",
            title="NVIDIA A100 SXM 80 GB",
            device_kinds=("NVIDIA A100-SXM4-80GB",),
            peak_flops=312e12,
            fp8_flops=None,
            float32_flops=19.5e12,
            hbm_bytes=81_251 * MIB,
            hbm_bandwidth=2.04e12,
            link_bandwidth=300e9,
            dcn_bandwidth=25e9,
            host_bandwidth=32e9,
            host_bytes=1360 * GIB,
            host_type="a2-ultragpu-8g",
            host_source=LISTED,
            clock_hz=1.41e9,
            max_shape=(8,),
            sms=108,
            l2_bytes=40 * MIB,
            capability=(8, 0),
            matmul_share=271 / 312,
            hbm_share=1.68 / 2.04,
            ring_share=0.79,
            switch_share=None,
            sources=f"{_EACH}; network: 200 Gbit/s for each GPU; host: PCIe 4",
        ),
        _hopper(
            "h100",
            "NVIDIA H100 80GB HBM3",
            memory_mib=81_559,
            hbm_bandwidth=3.35e12,
            hbm_share=3.04 / 3.35,
            fp8_share=1402.6 / 1979,
            host_gib=1872,
            host_type="a3-highgpu-8g",
        ),
        _hopper(
            "h200",
            "NVIDIA H200",
            memory_mib=143_771,
            hbm_bandwidth=4.8e12,
            hbm_share=4.25 / 4.8,
            fp8_share=1453.4 / 1979,
            host_gib=2952,
            host_type="a3-ultragpu-8g",
        ),
        _blackwell(
            "b200",
            "NVIDIA B200",
            peak_flops=2250e12,
            matmul_share=1745 / 2250,
            fp8_share=3432.5 / 4500,
            float32_flops=75e12,
            memory_mib=183_359,
            host_bandwidth=64e9,
            host_bytes=3968 * GIB,
            host_type="a4-highgpu-8g",
            host_source=DESCRIBED,
            clock_hz=1.85e9,
            switch_share=0.56,
            sources="HBM as of H100; network: 400 Gbit/s for each GPU; host: PCIe 5",
        ),
        _blackwell(
            "gb200",
            "NVIDIA GB200 NVL72",
            peak_flops=2500e12,
            matmul_share=1822 / 2500,
            fp8_share=3615.6 / 5000,
            float32_flops=80e12,
            memory_mib=189_471,
            host_bandwidth=225e9,
            clock_hz=2.06e9,
            switch_share=0.48,
            sources=(
                "as of B200; network: 400 Gbit/s for each GPU; host: half of the NVLink-C2C of a "
                "Grace CPU"
            ),
            max_shape=(72,),
            domains=((1,), (2,), *((count,) for count in range(4, 73, 4))),
            host_chips=4,
            host_bytes=884 * GIB,
            host_type="a4x-highgpu-4g",
            host_source=DESCRIBED,
        ),
        # Add a GPU above this line.
    )
}

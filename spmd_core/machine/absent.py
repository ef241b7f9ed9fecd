"""Compile-only topologies: the arguments for JAX and the environment of the compilers, for the
worker and for exported scripts; and the compiler for GPUs: whether its wheels are here.
"""

import math

from spmd_core.base import package_version
from spmd_core.machine.gpus import Gpu
from spmd_core.machine.mesh_order import slices_by_axis
from spmd_core.machine.targets import parse_target
from spmd_core.machine.topology import Topology

REQUIREMENTS = "requirements-gpu-targets.txt"
INSTALL = f"pip install -r {REQUIREMENTS}"
_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
# what XLA reads of a GPU, alike for all of these: registers, threads, blocks (CUDA C++ programming
# guide, technical specifications of compute capability 8.0 to 10.0)
_CONFIG = """gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: {shared}
  shared_memory_per_block_optin: {shared_block}
  core_count: {sms} fpus_per_core: {lanes}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth} l2_cache_size: {l2} clock_rate_ghz: {clock}
  device_memory_size: {memory}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability {{ major: {major} minor: {minor}{features} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{name}"
"""


# read when jax and libtpu are loaded
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


# Options of a compile for GPUs: there is none to try kernels on
GPU_OPTIONS: dict[str, object] = {"xla_gpu_autotune_level": 0}


def platform_of(topology: Topology) -> str:
    """The platform of JAX that compiles for a topology."""
    return "cuda" if topology.chip.is_gpu else "tpu"


def description(topology: Topology) -> tuple[str, dict[str, object]]:
    """Name and options for `jax.experimental.topologies.get_topology_desc(name, platform,
    **options)`, whose platform is `platform_of`.
    """
    if isinstance(topology.chip, Gpu):
        config = target_config(topology.chip)
        return "", {"target_config": config, "topology": hosts_of(topology)}
    options: dict[str, object] = dict(topology.chip.options)
    if topology.slices > 1:
        options["num_slices"] = topology.slices
    if topology.shape == (1, 1):
        options["chips_per_host_bounds"] = (1, 1, 1)
    name = topology.name.split("*")[0]
    if topology.chip.libtpu_name:
        name = name.replace(topology.chip.generation, topology.chip.libtpu_name)
    return name, options


def split_over_slices(
    sizes: tuple[int, ...], slices: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of mesh axes within a slice and between slices, slices taken by the first axes; None
    where they do not divide.
    """
    between = slices_by_axis(slices, sizes)
    if math.prod(between) < slices:
        return None
    return tuple(size // taken for size, taken in zip(sizes, between, strict=True)), between


def plugin_version() -> str | None:
    """The package of JAX's CUDA plugin and its version, e.g. `jax-cuda12-plugin 0.10.2`; None where
    there is none.
    """
    for name in _PLUGINS:
        if version := package_version(name):
            return f"{name} {version}"
    return None


def compiler_refusal(target: str) -> str | None:
    """Why programs for a target cannot be compiled here, with what to type; None if they can."""
    if not parse_target(target).is_gpu:
        return None  # requirements.txt brings libtpu
    plugin = plugin_version()
    if plugin is None:
        return f"the compiler for GPUs is not installed: run `{INSTALL}`"
    jaxlib = package_version("jaxlib")
    name, _, number = plugin.partition(" ")
    if jaxlib is not None and number != jaxlib:
        return f"{name} {number} does not fit jaxlib {jaxlib}: run `{INSTALL}`, which brings the one that fits"
    return None


def target_config(gpu: Gpu) -> str:
    """A GPU as XLA's compiler reads it, in the text format of its `GpuTargetConfigProto`."""
    major, minor = gpu.capability
    per_core = 164 if major == 8 else 228  # KiB; a block can have 1 KiB less
    return _CONFIG.format(
        shared=per_core * 1024,
        shared_block=(per_core - 1) * 1024,
        sms=gpu.sms,
        lanes=64 if major == 8 else 128,
        bandwidth=int(gpu.hbm_bandwidth),
        l2=gpu.l2_bytes,
        clock=gpu.clock_hz / 1e9,
        memory=int(gpu.device_hbm_bytes / 0.8),  # XLA plans for 80 % of it
        major=major,
        minor=minor,
        features=" feature_extension: ACCELERATED_FEATURES" if major >= 9 else "",
        name=gpu.device_kinds[0],
    )


def hosts_of(topology: Topology) -> str:
    """Domains, hosts of a domain and GPUs of a host, as XLA names a topology, e.g. `2x1x8`."""
    count = topology.shape[0]
    assert isinstance(topology.chip, Gpu)
    each = min(count, topology.chip.host_chips)
    return f"{topology.slices}x{count // each}x{each}"

"""Compile-only topologies: the arguments for JAX and the environment of the compilers, for the
worker and for exported scripts.
"""

from math import gcd

from spmd_core.machine.gpu_compiler import hosts_of, target_config
from spmd_core.machine.gpus import Gpu
from spmd_core.machine.topologies import Topology

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
    between, rest = [], slices
    for size in sizes:
        between.append(gcd(size, rest))
        rest //= between[-1]
    if rest > 1:
        return None
    return tuple(size // taken for size, taken in zip(sizes, between, strict=True)), tuple(between)

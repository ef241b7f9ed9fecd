"""Flags of the TPU compiler: those of published training runs, and which a user may add."""

import re
from dataclasses import dataclass

_FLAG = re.compile(r"(--)?(xla_[a-z0-9_]+)=[A-Za-z0-9_.\-]+")
# Parts of names of libtpu's flags that read or write files: a link must not.
_FILES = frozenset(
    (
        "cache",
        "dir",
        "dump",
        "dumping",
        "file",
        "filename",
        "files",
        "folder",
        "graph",
        "path",
        "profile",
        "profiler",
        "proto",
        "protobuf",
        "recorder",
        "snapshots",
        "subdirectories",
        "url",
    )
)

# Flags of MaxText's published runs, which change the compiler's schedule. Source:
# MaxText/configs/v5e/*.sh, v5p/*.sh and
# benchmarks/xla_flags_library.py (AI-Hypercomputer/maxtext).
PUBLISHED_FLAGS = (
    "xla_tpu_enable_data_parallel_all_reduce_opt=true",
    "xla_tpu_data_parallel_opt_different_sized_ops=true",
    "xla_tpu_enable_async_collective_fusion=true",
    "xla_tpu_enable_async_collective_fusion_fuse_all_gather=true",
    "xla_tpu_enable_async_collective_fusion_multiple_steps=true",
    "xla_tpu_overlap_compute_collective_tc=true",
    "xla_enable_async_all_gather=true",
)
# The same for GPUs: collectives beside the work, those of up to 1 GiB as one, and those of a layer
# beside the work of another. Source: NVIDIA/JAX-Toolbox,
# rosetta/docs/GPU_performance.md
GPU_FLAGS = (
    "xla_gpu_enable_latency_hiding_scheduler=true",
    "xla_gpu_all_gather_combine_threshold_bytes=1073741824",
    "xla_gpu_reduce_scatter_combine_threshold_bytes=1073741824",
    "xla_gpu_all_reduce_combine_threshold_bytes=1073741824",
    "xla_gpu_enable_pipelined_all_gather=true",
    "xla_gpu_enable_pipelined_reduce_scatter=true",
    "xla_gpu_enable_pipelined_all_reduce=true",
    "xla_gpu_enable_while_loop_double_buffering=true",
)
# a version of XLA may lack some of these (0.12 of JAX: pipelined collectives have other flags)
OPTIONAL_FLAGS = frozenset(flag.partition("=")[0] for flag in GPU_FLAGS)
# Collectives on the SparseCores, beside the work of the TensorCores. Source:
# benchmarks/xla_flags_library.py (AI-Hypercomputer/maxtext), and for TPU7x
# training/ironwood/llama3.1-70b/8k-bf16-tpu7x-4x4x4/run_recipe.sh (AI-Hypercomputer/tpu-recipes)
SPARSE_CORE_FLAGS = (
    "xla_tpu_enable_sparse_core_reduce_scatter_v2=true",
    "xla_tpu_enable_sparse_core_collective_offload_all_gather=true",
    "xla_tpu_enable_sparse_core_collective_offload_2d_all_gather=true",
    "xla_tpu_enable_sparse_core_collective_offload_3d_all_gather=true",
    "xla_tpu_enable_all_gather_offload_tracing=true",
    "xla_tpu_use_tc_device_shape_on_sc=true",
    "xla_sc_disable_megacore_partitioning=true",
    "xla_tpu_enable_async_collective_fusion_fuse_all_gather=false",
    "xla_tpu_prefer_async_allgather_to_allreduce=true",
    "xla_tpu_enable_sparse_core_collective_offload_all_reduce=true",
    "xla_tpu_enable_sparse_core_collective_offload_reduce_scatter=true",
    "xla_tpu_use_single_sparse_core_for_all_gather_offload=true",
)
# From which size on (MiB) a matmul is split into parts, whose operands or sums pass around a ring
# of devices meanwhile. MaxText's published runs on v6e turn that off by a size that no matmul has.
RING_FLAG = "xla_jf_spmd_threshold_for_windowed_einsum_mib"
WITHOUT_RINGS = f"{RING_FLAG}=1000000"
LEAST_WITHOUT_MIB = 100_000  # a size from which on no matmul is split
GENERATION_FLAGS = {
    "v4": ("xla_enable_async_collective_permute=true",),
    "v5p": (
        "xla_enable_async_collective_permute=true",
        "xla_tpu_enable_ag_backward_pipelining=true",
        "xla_tpu_megacore_fusion_allow_ags=false",
        *SPARSE_CORE_FLAGS,
    ),
    "v6e": ("xla_tpu_scoped_vmem_limit_kib=98304",),
    "tpu7x": (
        "xla_tpu_scoped_vmem_limit_kib=65536",
        "xla_tpu_bf16_emission_mode=NATIVE_EMISSION",
        *SPARSE_CORE_FLAGS,
    ),
}


def flag_refusal(flag: str) -> str | None:
    """Why a compiler flag is refused; None if it is accepted.

    >>> flag_refusal("xla_enable_async_all_gather=false"), flag_refusal("xla_jf_generate_cpu_profile_to=here")
    (None, 'reads or writes files')
    """
    match = _FLAG.fullmatch(flag)
    if match is None:
        return "is not a flag"
    return (
        "reads or writes files"
        if match[2].endswith("_to") or _FILES.intersection(match[2].split("_"))
        else None
    )


@dataclass(frozen=True, slots=True)
class LinkFlag:
    """A compiler flag that a link may carry: a switch, or an integer up to `most`."""

    why: str  # its effect on the predicted program
    most: int | None = None  # None: true or false

    def takes(self, value: str) -> bool:
        """Whether a value is of the flag's kind."""
        if self.most is None:
            return value in ("true", "false")
        return value.isascii() and value.isdigit() and len(value) < 16 and int(value) <= self.most

    @property
    def values(self) -> str:
        """The values that it takes, in words."""
        return "true or false" if self.most is None else f"a whole number up to {self.most:,}"


_ASYNC = "whether this collective runs beside compute"
_FUSE = "whether this collective is fused with compute to hide it"
_MATMUL = "whether a matmul is split into parts so that its collective hides behind them"
_COMBINE = "from which size on small collectives are sent as one"
_SCHEDULE = "the order in which compute and collectives are issued"
_MEMORY = "how much memory a program may take, or what it computes twice to take less"
_VMEM = "how much of the chip's vector memory a kernel may take"
_GIB, _KIB = 2**40, 2**20  # bytes in 1 TiB, KiB in 1 GiB: more than any chip has

# Names as in libtpu 0.0.42 (JAX 0.10.2) and later. Other flags are accepted only from a command
# line or a spec file: most of libtpu's 1,700 flags are for debugging, and some write files.
LINK_FLAGS: dict[str, LinkFlag] = {
    name: LinkFlag(why, most)
    for why, most, names in (
        (
            _ASYNC,
            None,
            (
                "xla_enable_async_all_gather",
                "xla_enable_async_all_reduce",
                "xla_enable_async_collective_permute",
                "xla_enable_async_reduce_scatter_fusion",
                "xla_tpu_enable_async_all_to_all",
                "xla_tpu_overlap_compute_collective_tc",
                "xla_tpu_prefer_async_allgather_to_allreduce",
                "xla_tpu_enable_ag_backward_pipelining",
            ),
        ),
        (
            "how many collectives of a kind are under way at once",
            1024,
            (
                "xla_max_concurrent_async_all_gathers",
                "xla_max_concurrent_async_all_reduces",
                "xla_max_concurrent_async_collective_permutes",
                "xla_max_concurrent_async_reduce_scatters",
            ),
        ),
        (
            _FUSE,
            None,
            (
                "xla_tpu_enable_async_collective_fusion",
                "xla_tpu_enable_async_collective_fusion_fuse_all_gather",
                "xla_tpu_enable_async_collective_fusion_fuse_all_reduce",
                "xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter",
                "xla_tpu_enable_async_collective_fusion_multiple_steps",
                "xla_tpu_enable_async_collective_fusion_while_loops",
                "xla_tpu_enable_async_collective_merger",
                "xla_tpu_async_collective_fusion_fuse_multiple_collectives",
                "xla_tpu_enable_data_parallel_all_reduce_opt",
                "xla_tpu_data_parallel_opt_different_sized_ops",
                "xla_tpu_megacore_fusion_allow_ags",
                "xla_tpu_enable_megacore_fusion",
            ),
        ),
        (
            _MATMUL,
            None,
            (
                "xla_tpu_decompose_all_gather_einsum",
                "xla_tpu_decompose_einsum_reduce_scatter",
                "xla_tpu_enable_windowed_einsum_for_all_gather",
                "xla_tpu_enable_windowed_einsum_for_reduce_scatter",
                "xla_tpu_spmd_bidirectional_windowed_einsum",
                "xla_tpu_spmd_unroll_windowed_einsum",
                "xla_tpu_dot_dot_fusion",
                "xla_tpu_nested_dot_fusion",
            ),
        ),
        (
            "from which size (MiB) on a matmul is split into parts",
            2**20,
            (RING_FLAG,),
        ),
        (
            _COMBINE,
            _GIB,
            (
                "xla_tpu_agf_combiner_threshold_in_bytes",
                "xla_tpu_arf_combiner_threshold_in_bytes",
                "xla_tpu_ars_combiner_threshold_in_bytes",
                "xla_jf_crs_combiner_threshold_in_bytes",
                "xla_tpu_collective_permute_combiner_threshold_in_bytes",
                "xla_tpu_dcn_all_reduce_combiner_threshold_bytes",
                "xla_all_gather_latency_bound_threshold_in_bytes",
                "xla_all_reduce_latency_bound_threshold_in_bytes",
            ),
        ),
        (
            _COMBINE,
            2**20,
            ("xla_jf_crs_combiner_threshold_count", "xla_all_gather_combiner_threshold_count"),
        ),
        (
            _SCHEDULE,
            None,
            (
                "xla_tpu_enable_latency_hiding_scheduler",
                "xla_tpu_enable_latency_hiding_layer_scheduler",
                "xla_tpu_enable_multi_compute_overlap_in_layer_scheduler",
                "xla_tpu_enable_layer_scheduler_for_dependent_collectives",
                "xla_tpu_enable_scheduler_memory_pressure_tracking",
                "xla_tpu_scheduler_using_real_cost_model",
            ),
        ),
        (_SCHEDULE, 1024, ("xla_latency_hiding_scheduler_rerun",)),
        (
            _MEMORY,
            100_000,
            (
                "xla_tpu_scheduler_percent_shared_memory_limit",
                "xla_jf_rematerialization_percent_shared_memory_limit",
            ),
        ),
        (_MEMORY, _KIB, ("xla_tpu_max_hbm_size_mib",)),
        (
            _MEMORY,
            _GIB,
            ("xla_tpu_user_reserved_hbm_bytes", "xla_tpu_rematerialization_min_size_in_bytes"),
        ),
        (
            _MEMORY,
            None,
            (
                "xla_tpu_rematerialization_use_host_memory_offload",
                "xla_tpu_choose_faster_windowed_einsum_over_mem",
            ),
        ),
        (_VMEM, _KIB, ("xla_tpu_scoped_vmem_limit_kib",)),
        (
            _VMEM,
            None,
            ("xla_tpu_scavenge_vmem_for_fusions", "xla_tpu_msa_reduce_scoped_vmem_limit"),
        ),
    )
    for name in names
}


def link_refusal(flag: str) -> str | None:
    """Why a compiler flag is refused from a link or the browser, in a sentence; None if it is
    accepted.

    >>> link_refusal("xla_tpu_scoped_vmem_limit_kib=98304") is None
    True
    """
    name, _, value = flag.removeprefix("--").partition("=")
    allowed = LINK_FLAGS.get(name)
    if allowed is None:
        return (
            f"compiler flag {name[:80]} is not one that a link or the browser may set: give it "
            "to the command line, with --compiler-flags or in a spec file"
        )
    if not allowed.takes(value):
        return f"compiler flag {name}={value[:40]} is not of its kind: use {allowed.values}"
    return None

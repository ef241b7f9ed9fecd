"""Flags of the TPU compiler: those of published training runs, and which a user may add."""

import re

_FLAG = re.compile(r"(--)?(xla_[a-z0-9_]+)=[A-Za-z0-9_.\-]+")
# Parts of the names of libtpu's flags that name files, or have them written: a link must do neither.
_FILES = frozenset(("cache", "dir", "dump", "dumping", "file", "filename", "files", "folder", "graph", "path", "profile", "profiler", "proto",
                    "protobuf", "recorder", "snapshots", "subdirectories", "url"))

# Flags of MaxText's published runs, which change the compiler's schedule. Source: MaxText/configs/v5e/*.sh, v5p/*.sh and
# benchmarks/xla_flags_library.py (AI-Hypercomputer/maxtext).
PUBLISHED_FLAGS = (
    "xla_tpu_enable_data_parallel_all_reduce_opt=true", "xla_tpu_data_parallel_opt_different_sized_ops=true",
    "xla_tpu_enable_async_collective_fusion=true", "xla_tpu_enable_async_collective_fusion_fuse_all_gather=true",
    "xla_tpu_enable_async_collective_fusion_multiple_steps=true", "xla_tpu_overlap_compute_collective_tc=true", "xla_enable_async_all_gather=true",
)
GENERATION_FLAGS = {
    "v4": ("xla_enable_async_collective_permute=true",),
    "v5p": ("xla_enable_async_collective_permute=true", "xla_tpu_enable_ag_backward_pipelining=true", "xla_tpu_megacore_fusion_allow_ags=false"),
    "v6e": ("xla_tpu_scoped_vmem_limit_kib=98304",),
    # training/ironwood/llama3.1-70b/8k-bf16-tpu7x-4x4x4/run_recipe.sh (AI-Hypercomputer/tpu-recipes): collectives on the SparseCores
    "tpu7x": (
        "xla_tpu_scoped_vmem_limit_kib=65536", "xla_tpu_bf16_emission_mode=NATIVE_EMISSION",
        "xla_tpu_enable_sparse_core_reduce_scatter_v2=true",
        "xla_tpu_enable_sparse_core_collective_offload_all_gather=true",
        "xla_tpu_enable_sparse_core_collective_offload_2d_all_gather=true",
        "xla_tpu_enable_sparse_core_collective_offload_3d_all_gather=true",
        "xla_tpu_enable_all_gather_offload_tracing=true",
        "xla_tpu_use_tc_device_shape_on_sc=true", "xla_sc_disable_megacore_partitioning=true",
        "xla_tpu_enable_async_collective_fusion_fuse_all_gather=false",
        "xla_tpu_prefer_async_allgather_to_allreduce=true",
        "xla_tpu_enable_sparse_core_collective_offload_all_reduce=true",
        "xla_tpu_enable_sparse_core_collective_offload_reduce_scatter=true",
        "xla_tpu_use_single_sparse_core_for_all_gather_offload=true",
    ),
}


def flag_refusal(flag: str) -> str | None:
    """Why a compiler flag is not taken; None where it is.

    >>> flag_refusal("xla_enable_async_all_gather=false"), flag_refusal("xla_jf_generate_cpu_profile_to=here")
    (None, 'reads or writes files')
    """
    match = _FLAG.fullmatch(flag)
    if match is None:
        return "is not a flag"
    return "reads or writes files" if match[2].endswith("_to") or _FILES.intersection(match[2].split("_")) else None

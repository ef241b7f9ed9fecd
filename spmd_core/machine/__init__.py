"""What a machine is: attached, simulated or absent."""

from spmd_core.machine import dumps, surroundings
from spmd_core.machine.absent import (
    ENVIRONMENT,
    GPU_OPTIONS,
    compiler_refusal,
    description,
    platform_of,
    plugin_version,
    split_over_slices,
)
from spmd_core.machine.chip import Capacity, Chip
from spmd_core.machine.chips import BY_DEVICE_KIND, CHIPS, TPUS, sheet_bytes
from spmd_core.machine.dumps import dump_folder, size_bytes
from spmd_core.machine.gpus import GPU_SHARE, GPUS, USUAL_SHARE, Gpu
from spmd_core.machine.hardware import Hardware, available_cores, read_hardware, spare_bytes
from spmd_core.machine.mesh_order import device_ids, listed, mesh_groups, mesh_places
from spmd_core.machine.targets import (
    USUAL_DEVICES,
    Target,
    accelerator_files,
    added_targets,
    default_target,
    kind_of,
    parse_target,
)
from spmd_core.machine.topologies import (
    Coordinates,
    get_topology,
    nearest_of_chips,
    nearest_topology,
)
from spmd_core.machine.topology import (
    Topology,
    absent_target,
    legal_shapes,
    shape_text,
    topology_of_chips,
)

__all__ = [
    "BY_DEVICE_KIND",
    "CHIPS",
    "ENVIRONMENT",
    "GPUS",
    "GPU_OPTIONS",
    "GPU_SHARE",
    "TPUS",
    "USUAL_DEVICES",
    "USUAL_SHARE",
    "Capacity",
    "Chip",
    "Coordinates",
    "Gpu",
    "Hardware",
    "Target",
    "Topology",
    "absent_target",
    "accelerator_files",
    "added_targets",
    "available_cores",
    "compiler_refusal",
    "default_target",
    "description",
    "device_ids",
    "dump_folder",
    "dumps",
    "get_topology",
    "kind_of",
    "legal_shapes",
    "listed",
    "mesh_groups",
    "mesh_places",
    "nearest_of_chips",
    "nearest_topology",
    "parse_target",
    "platform_of",
    "plugin_version",
    "read_hardware",
    "shape_text",
    "sheet_bytes",
    "size_bytes",
    "spare_bytes",
    "split_over_slices",
    "surroundings",
    "topology_of_chips",
]

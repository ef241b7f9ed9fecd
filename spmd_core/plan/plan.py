"""The plan of a training run on absent TPUs: topology, model, mesh, batch, remat and compiler flags, as one frozen value."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, ValidationError, model_validator

from spmd_core.errors import RequestError, refuse, shorten
from spmd_core.frozen import AsObject, Frozen, PairsOf
from spmd_core.machine.topologies import Topology, get_topology
from spmd_core.plan.models import VARIABLE, ModelSize, get_model

NAMES = ("input", "query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down", "attention")
AXES = ("data", "fsdp", "fsdp_transpose", "expert", "sequence", "tensor")
DATA_AXES = ("data", "fsdp", "fsdp_transpose")  # those that cut the batch
MAX_SEQUENCE = 2**20
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
    "tpu7x": (),
}


class Plan(Frozen):
    """What is compiled: one training step. `batch_per_device` counts sequences per chip; None for blocks means the generation's own."""

    version: Literal[1] = 1
    target: str
    model: str
    mesh: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf]
    batch_per_device: float = Field(gt=0, le=65536)
    sequence: StrictInt = Field(2048, ge=128, le=MAX_SEQUENCE)
    remat: Literal["none", "minimal", "full"] = "full"
    save: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()
    fused_qkv: bool = False
    fused_mlp: bool = False
    attention_blocks: StrictInt | None = Field(None, ge=128, le=8192)
    state_dtype: Literal["float32", "bfloat16"] = "float32"
    parameter_dtype: Literal["float32", "bfloat16"] = "float32"
    compiler_flags: tuple[str, ...] = ()
    device_order: Literal["topology", "plain"] = "topology"
    layers: StrictInt | None = Field(None, ge=1, le=1024)
    sizes: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf, AsObject] = ()  # sizes of the model that differ from the preset's

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        topology, model = get_topology(self.target), self.size
        self._check_mesh(topology)
        self._check_cuts(model)
        self._check_names()
        for field, value in self._canonical(topology, model).items():
            object.__setattr__(self, field, value)
        for flag in self.compiler_flags:
            if rule := flag_refusal(flag):
                raise refuse(f"compiler flag {shorten(flag)}", rule, "write for example xla_enable_async_all_gather=false")
        return self

    def _check_mesh(self, topology: Topology) -> None:
        names = [name for name, _ in self.mesh]
        for name in names:
            if name not in AXES:
                raise refuse(f"mesh axis {shorten(name)}", "is not one that a decoder is cut over", f"use {', '.join(AXES)}")
            if names.count(name) > 1:
                raise refuse(f"mesh axis {name!r}", "appears twice in the mesh", "give it once")
        if self.devices != topology.devices:
            raise refuse(f"mesh of {self.devices} devices", f"does not fill {topology.name} with its {topology.devices}",
                         f"make the axes multiply to {topology.devices}, for example fsdp={topology.devices}")
        if topology.slices > 1 and math.prod(size for _, size in self.mesh) % topology.slices:
            raise refuse(f"{topology.slices} slices", "do not divide over the mesh", f"put data={topology.slices} first")

    def _check_cuts(self, model: ModelSize) -> None:
        axes = self.axis_sizes
        rows = math.prod(axes.get(name, 1) for name in DATA_AXES)
        batch = self.batch_per_device * self.devices
        if abs(batch - self.batch) > 1e-6 or self.batch < 1 or self.batch % rows:
            better = rows * max(1, round(batch / rows)) / self.devices
            raise refuse(f"batch_per_device={self.batch_per_device:g}", f"makes {batch:g} sequences, which do not divide over {rows} shards",
                         f"use {better:g}")
        if self.sequence % (128 * axes.get("sequence", 1)):
            raise refuse(f"sequence={self.sequence}", f"does not divide into blocks of 128 over sequence={axes.get('sequence', 1)}",
                         f"use {128 * axes.get('sequence', 1) * max(1, self.sequence // (128 * axes.get('sequence', 1)))}")
        tensor = axes.get("tensor", 1)
        for what, size in (("heads", model.heads), ("mlp", model.mlp), ("embed", model.embed)):
            if size % tensor:
                raise refuse(f"tensor={tensor}", f"does not divide {what}={size} of {self.model}", f"use {math.gcd(size, tensor)}")
        if self.fused_qkv and model.kv_heads != model.heads:
            raise refuse("fused_qkv", f"needs as many key heads as heads, and {self.model} has {model.kv_heads} of {model.heads}", "leave it out")
        block = self.attention_block
        if self.sequence % min(block, self.sequence):
            raise refuse(f"attention_blocks={block}", f"does not divide sequence={self.sequence}", f"use {math.gcd(block, self.sequence)}")

    def _check_names(self) -> None:
        for field, names in (("save", self.save), ("offload", self.offload)):
            for name in names:
                if name not in NAMES:
                    raise refuse(f"{field} {shorten(name)}", "is not kept by a decoder's block", f"use {', '.join(NAMES)}")
        if both := set(self.save) & set(self.offload):
            raise refuse(f"{sorted(both)[0]!r}", "is both saved and offloaded", "choose one")
        if self.remat == "none" and (self.save or self.offload):
            raise refuse("remat none", "keeps everything, so that save and offload mean nothing", "use remat full")

    def _canonical(self, topology: Topology, model: ModelSize) -> dict[str, Any]:
        """Fields as one of all plans that mean the same writes them: equal programs have equal ids."""
        given = dict(self.sizes)
        layers = given.pop("layers", None)
        return {"target": topology.target, "model": model.name, "batch_per_device": self.batch / self.devices,
                "layers": self.layers or layers, "sizes": tuple((name, given[name]) for name in VARIABLE if name in given),
                "save": tuple(name for name in NAMES if name in self.save), "offload": tuple(name for name in NAMES if name in self.offload),
                "compiler_flags": tuple(flag.removeprefix("--") for flag in self.compiler_flags)}

    @property
    def size(self) -> ModelSize:
        """The model, with the sizes that the plan gives itself."""
        size = get_model(self.model)
        changes: dict[str, Any] = dict(self.sizes) | ({"layers": self.layers} if self.layers else {})
        return size.varied(**changes) if changes else size

    @property
    def topology(self) -> Topology:
        """Where it is to run."""
        return get_topology(self.target)

    @property
    def axis_sizes(self) -> dict[str, int]:
        """Mesh axis -> size, in order."""
        return dict(self.mesh)

    @property
    def devices(self) -> int:
        """Devices of the mesh."""
        return math.prod(size for _, size in self.mesh)

    @property
    def batch(self) -> int:
        """Sequences in a step."""
        return round(self.batch_per_device * self.devices)  # a share such as 1/192 is not exact

    @property
    def tokens(self) -> int:
        """Tokens in a step."""
        return self.batch * self.sequence

    @property
    def attention_block(self) -> int:
        """Block of the attention kernel: as asked, else that of the published runs (512; 2048 with a fused backward on v6e and later)."""
        return min(self.attention_blocks or (2048 if self.fused_attention_backward else 512), self.sequence)

    @property
    def fused_attention_backward(self) -> bool:
        """Whether the attention kernel's backward is one kernel, as in the published runs on v6e."""
        return get_topology(self.target).chip.matrix_unit == 256

    @property
    def flags(self) -> dict[str, str]:
        """Compiler flags: those of the published runs, then the plan's own."""
        generation = get_topology(self.target).chip.generation
        texts = (*PUBLISHED_FLAGS, *GENERATION_FLAGS.get(generation, ()), *self.compiler_flags)
        return {name: value for name, _, value in (text.removeprefix("--").partition("=") for text in texts)}

    @property
    def flops(self) -> int:
        """Model FLOPs of a step."""
        return self.size.train_flops(self.tokens, self.sequence)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, defaults filled in."""
        return self.model_dump(mode="json")

    @property
    def id(self) -> str:
        """Hash of the canonical form (16 hex digits)."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def flag_refusal(flag: str) -> str | None:
    """Why a compiler flag is not taken; None where it is.

    >>> flag_refusal("xla_enable_async_all_gather=false"), flag_refusal("xla_jf_generate_cpu_profile_to=here")
    (None, 'reads or writes files')
    """
    match = _FLAG.fullmatch(flag)
    if match is None:
        return "is not a flag"
    return "reads or writes files" if match[2].endswith("_to") or _FILES.intersection(match[2].split("_")) else None


def parse_plan(data: Any) -> Plan:
    """The plan that a JSON value describes; RequestError, in one sentence, where it describes none."""
    if not isinstance(data, Mapping):
        raise refuse(f"plan {shorten(data)}", "is not a JSON object", 'write for example {"target": "tpu:v5e:4x4", "model": "scaled:1", …}')
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, RequestError):
            raise RequestError(str(cause)) from None
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, str) and "[" not in part) or "plan"
        if first["type"] == "missing":
            raise refuse(f"plan without {place}", "is incomplete", f"add {place!r}") from None
        raise RequestError(f"{place}={shorten(first['input'])} is not valid: {first['msg'][0].lower()}{first['msg'][1:]}") from None


def parse_mesh(text: str) -> tuple[tuple[str, int], ...]:
    """`data=2,fsdp=16,tensor=4` as pairs, in order."""
    pairs = []
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not (len(name) <= 64 and size.isascii() and size.isdigit() and len(size) < 10 and int(size) >= 1):
            raise refuse(f"mesh {shorten(text)}", "is not a list of axes", "write for example fsdp=16,tensor=4")
        pairs.append((name, int(size)))
    return tuple(pairs)

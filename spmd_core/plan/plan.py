"""The plan of a training run on absent TPUs: topology, model, mesh, batch, remat and compiler
flags, as one frozen value.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from pydantic import ValidationInfo, field_validator, model_validator

from spmd_core.base import bytes_text, refuse, shorten
from spmd_core.machine import Topology, get_topology
from spmd_core.plan.blocks import (
    VMEM_FLAG,
    VMEM_LIMITS_KIB,
    Blocks,
    check_blocks,
    kernel_blocks,
    smaller_blocks,
    too_large,
)
from spmd_core.plan.fields import OF_MODEL, PLAN_FIELDS, PlanFields
from spmd_core.plan.flags import (
    GENERATION_FLAGS,
    GPU_FLAGS,
    LEAST_WITHOUT_MIB,
    PUBLISHED_FLAGS,
    RING_FLAG,
    WITHOUT_RINGS,
)
from spmd_core.plan.model_rules import (
    CONTEXT,
    DATA_AXES,
    LENGTH_AXES,
    OF_AXES,
    STAGE,
    VARIABLE,
    check_mesh,
    nearest_divisor,
)
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.models import get_model
from spmd_core.plan.schedules import SCHEDULES, check_schedule, microbatch_counts


def _pairs(value: Any) -> list[Any]:
    """A JSON object or a list of pairs as pairs; unchanged if it is neither, for pydantic to
    refuse.
    """
    listed = list(value.items()) if isinstance(value, Mapping) else value
    is_pairs = isinstance(listed, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in listed
    )
    return list(listed) if is_pairs else []


EXPERTS_COMPARED = ("v6e", "tpu7x")  # on which `bench.published_steps` has steps of experts
_DTYPES = {"float8": "float8_e4m3fn", "int8": "int8", "bfloat16": "bfloat16"}


_KEPT = {"remat", "save", "offload"}  # fields that no property which is kept depends on


class Precision(NamedTuple):
    """Dtypes by their names in JAX; fields are those of the program's `Decoder`."""

    matmul_dtype: str
    backward_dtype: str
    gathered_dtype: str
    static_scales: bool

    @property
    def scales_gathered(self) -> bool:
        """Returns True if weights are gathered in bfloat16 and then scaled to 8 bits."""
        return self.matmul_dtype != "bfloat16" == self.gathered_dtype


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """A key of plans that differ only in the arrays they save: one of them."""

    plan: "Plan"


AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")  # also a cell of a table: no formula


@lru_cache(maxsize=256)  # requested many times for each of a search's plans
def _sized(
    model: str,
    sizes: tuple[tuple[str, int], ...],
    layers: int | None,
    choices: tuple[tuple[str, Any], ...],
) -> ModelSize:
    """The model of that name with these sizes and choices, each (name, value)."""
    changes: dict[str, Any] = dict(sizes) | ({"layers": layers} if layers else {}) | dict(choices)
    return get_model(model).varied(**changes) if changes else get_model(model)


class Plan(PlanFields):
    """A training plan: one training step to compile. `batch_per_device` counts sequences per chip;
    None for blocks means the generation's default.

    Fields are canonical: plans of the same program are equal.
    """

    @model_validator(mode="before")
    @classmethod
    def _read_layers(cls, data: Any) -> Any:
        pairs = _pairs(data.get("sizes")) if isinstance(data, Mapping) else []
        named = [size for name, size in pairs if name == "layers"]
        if not named:
            return data
        layers = data.get("layers")
        return {
            **data,
            "layers": named[-1] if layers is None else layers,
            "sizes": [pair for pair in pairs if pair[0] != "layers"],
        }

    @model_validator(mode="before")
    @classmethod
    def _read_axes(cls, data: Any) -> Any:
        """Drops what means nothing on a mesh without its axis: a plan keeps it while its mesh is
        varied.
        """
        if not isinstance(data, Mapping):
            return data
        mesh = dict(_pairs(data.get("mesh")))
        idle = {name for axis, names in OF_AXES.items() if axis not in mesh for name in names}
        return {name: each for name, each in data.items() if name not in idle}

    @field_validator("batch_per_device")
    @classmethod
    def _share(cls, share: float, info: ValidationInfo) -> float:
        """The nearest share that gives an integer batch: 1/192 is not exact in floating point."""
        devices = math.prod(size for _, size in info.data.get("mesh", ()))
        batch = share * devices
        return round(batch) / devices if devices and abs(batch - round(batch)) <= 1e-6 else share

    @field_validator("layers")
    @classmethod
    def _other_layers(cls, layers: int | None, info: ValidationInfo) -> int | None:
        own = get_model(info.data["model"]).layers if "model" in info.data else None
        return None if layers == own else layers

    @field_validator("sizes")
    @classmethod
    def _other_sizes(
        cls, sizes: tuple[tuple[str, int], ...], info: ValidationInfo
    ) -> tuple[tuple[str, int], ...]:
        """Sizes in the model's order, without those equal to the model's."""
        if "model" not in info.data:
            return sizes
        own, given = get_model(info.data["model"]), dict(sizes)
        for name in given.keys() - {*VARIABLE}:
            rule = "is not one of a decoder's"
            raise refuse(f"size {shorten(name)}", rule, f"use {', '.join(VARIABLE)}")
        if given:
            own.varied(**given)  # refuses sizes that make no decoder
        usual = {name: getattr(own, name) for name in VARIABLE}
        usual["kv_heads"] = own.keys_of(given.get("heads", own.heads))
        return tuple(
            (name, given[name]) for name in VARIABLE if name in given and given[name] != usual[name]
        )

    @field_validator("*", mode="before")
    @classmethod
    def _take(cls, value: Any, info: ValidationInfo) -> Any:
        row = PLAN_FIELDS.get(info.field_name or "")
        return row.take(row.name, value) if row else value

    @field_validator(*PLAN_FIELDS)
    @classmethod
    def _without_usual(cls, value: Any, info: ValidationInfo) -> Any:
        """The default for a value that means the same beside the fields before it."""
        row, given = PLAN_FIELDS[info.field_name or ""], info.data
        if row.of_model and "model" in given:
            return None if value == getattr(get_model(given["model"]), row.of_model) else value
        known = row.usual is not None and given.keys() >= {"target", "model"}
        return row.value if row.usual and known and value == row.usual(given) else value

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        check_mesh(self.mesh, self.topology)
        self._check_attention(self.size)
        self._check_batch_and_mesh(self.size)
        self._check_weights(self.topology, self.size)
        self._check_context(self.size)
        check_blocks(self.kernel_blocks, self.attended, self.sequence)
        self._check_rows()
        self._check_parts(self.size)
        return self

    def _check_parts(self, model: ModelSize) -> None:
        if self.stages > 1:
            self._check_stages(model)
        if self.is_in_parts:
            schedule = SCHEDULES[self.schedule]
            check_schedule(schedule, self.stages, self.parts, self.repeats, self._sequences)

    def _check_stages(self, model: ModelSize) -> None:
        stages, runs = self.stages, self.stages * self.repeats
        near = model.fitting_stages(stages, self.devices, self.repeats)
        if near == stages:
            return
        rule = f"cuts {model.title} into stages of other kinds of layers"
        if model.dense_layers or model.mtp_layers:
            rule = f"needs layers that are all alike, and {model.title} has others"
        elif stages > model.layers or runs > model.most_runs(self.repeats):
            rule = f"makes {runs} runs of the {model.layers} layers of {model.title}"
            if near < 2 <= self.repeats:  # no pipeline has so many runs in a stage
                fix = f"use repeats={max(1, model.most_runs(2) // stages)} or fewer"
                raise refuse(f"repeats={self.repeats}", rule, fix)
        raise refuse(f"stage={stages}", rule, f"use stage={near}")

    def _check_attention(self, model: ModelSize) -> None:
        """RequestError where no kernel for GPUs has the model's attention, on whatever mesh."""
        if not self.topology.chip.is_gpu:
            return
        if model.sinks:
            rule = "has attention with sinks, which JAX's kernel for GPUs lacks"
            raise refuse(model.title, rule, "choose a TPU topology")
        chunks = [each for each in model.windows if each and each < self.sequence]
        if model.chunked and chunks:
            what = f"sequence={self.sequence} of {model.title}, beyond chunks of {chunks[0]},"
            raise refuse(what, "needs a kernel for TPUs", f"use sequence={chunks[0]}")

    def _check_rows(self) -> None:
        for name, row in PLAN_FIELDS.items():
            if getattr(self, name) != row.value:
                if rule := row.unfit(self.size):
                    raise refuse(name, rule, "leave it out")
                row.rule(self)

    def _check_batch_and_mesh(self, model: ModelSize) -> None:
        axes = self.axis_sizes
        rows = math.prod(axes.get(name, 1) for name in DATA_AXES)
        batch = self.batch_per_device * self.devices
        if abs(batch - self.batch) > 1e-6 or self.batch < 1 or self.batch % rows:
            better = rows * max(1, round(batch / rows)) / self.devices
            rule = (
                f"which do not divide over {rows} shards" if rows > 1 else "no whole number of them"
            )
            raise refuse(
                f"batch_per_device={self.batch_per_device:.12g}",
                f"makes {batch:.12g} sequences, {rule}",
                f"use {better:.12g}",
            )
        among = [f"{axis}={axes[axis]}" for axis in LENGTH_AXES if axis in axes]
        halves = CONTEXT in axes and self.is_balanced
        unit = 128 * self.length_shards * (1 + halves)
        if self.sequence % unit:
            below = self.sequence // unit * unit
            over = f" over {' by '.join(among)}{', in two parts each' * halves}" if among else ""
            raise refuse(
                f"sequence={self.sequence}",
                f"does not divide into blocks of 128{over}",
                f"use {' or '.join(str(each) for each in (below, below + unit) if each)}",
            )
        tensor = axes.get("tensor", 1)
        fits = math.gcd(model.heads, model.mlp, model.embed, self.devices)
        for what, size in (("heads", model.heads), ("mlp", model.mlp), ("embed", model.embed)):
            if size % tensor:
                rule = f"does not divide {what}={size} of {model.title}"
                raise refuse(f"tensor={tensor}", rule, f"use {nearest_divisor(fits, tensor)}")
        experts, among = model.experts, axes.get("expert", 1)
        if experts > 1 and experts % among:
            near = nearest_divisor(math.gcd(experts, self.devices), among)
            rule = f"does not divide experts={experts} of {model.title}"
            raise refuse(f"expert={among}", rule, f"use {near}")

    def _check_context(self, model: ModelSize) -> None:
        if (among := self.axis_sizes.get(CONTEXT, 1)) == 1:
            return
        if states := set(model.mixers) - {"attention", "none"}:
            rule = f"shards attention, and {model.title} has layers with a state ({min(states)})"
            raise refuse(f"{CONTEXT}={among}", rule, f"use {CONTEXT}=1, or sequence")
        if model.mtp_layers and self.is_balanced:
            rule = "in the balanced order has no next token beside each, for heads of later tokens"
            ring = "context_attention=all-gather and " * (self.context_attention == "ring")
            raise refuse(f"{CONTEXT}={among}", rule, f"use {ring}context_order=contiguous")
        if self.topology.chip.is_gpu and self.context_attention != "ulysses":
            what = f"context_attention={self.context_attention}"
            raise refuse(what, "is a kernel for TPUs", "use ulysses, or a TPU topology")

    def _check_weights(self, topology: Topology, model: ModelSize) -> None:
        """RequestError if one weight, which a matmul needs gathered over all axes except `tensor`,
        is larger than a device's memory.
        """
        capacity = topology.chip.device_hbm_bytes
        name, elements = model.largest_weight
        nbytes = 2 * elements // self.axis_sizes.get("tensor", 1)
        if self.sizes and nbytes > capacity:
            raise refuse(
                f"embed={model.embed} by {name}={getattr(model, name)}",
                f"makes a weight of {bytes_text(nbytes)} in bfloat16, more than the "
                f"{bytes_text(capacity)} of a {topology.chip.title}",
                "make one of them smaller, or tensor larger",
            )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "Plan":
        """A copy with other fields, without what was worked out of these."""
        if is_policy := (update or {}).keys() <= _KEPT:
            cached = _cached_names()
            if len(vars(self)) < len(cached) + len(_fields()):
                for name in cached - vars(self).keys():
                    getattr(self, name)
        copied = super().model_copy(update=update, deep=deep)
        if not is_policy:
            for name in vars(copied).keys() - _fields():
                del vars(copied)[name]
        return copied

    @cached_property
    def size(self) -> ModelSize:
        """The model with the plan's own sizes."""
        choices = tuple(
            [
                (to, value)
                for name, to in OF_MODEL.items()
                if (value := getattr(self, name)) is not None
            ]
        )
        return _sized(self.model, self.sizes, self.layers, choices)

    @cached_property
    def topology(self) -> Topology:
        """Where it is to run."""
        return get_topology(self.target)

    @cached_property
    def axis_sizes(self) -> Mapping[str, int]:
        """Mesh axis -> size, in order."""
        return dict(self.mesh)

    @cached_property
    def basis(self) -> Basis:
        """The same object for copies that differ only in the arrays they save."""
        return Basis(self)

    @cached_property
    def devices(self) -> int:
        """Devices of the mesh."""
        return math.prod(size for _, size in self.mesh)

    @property
    def stages(self) -> int:
        """Stages of a pipeline; 1 for none."""
        return self.axis_sizes.get(STAGE, 1)

    @cached_property
    def parts(self) -> int:
        """Microbatches: as given, else up to four for each stage of a pipeline."""
        if self.microbatches is not None or self.stages == 1:
            return self.microbatches or 1
        schedule, most = SCHEDULES[self.schedule], 4 * self.stages
        counts = microbatch_counts(schedule, self.stages, self.repeats, self._sequences)
        return max((count for count in counts if count <= most), default=1)

    @property
    def divides_into_parts(self) -> bool:
        """Returns True if microbatches divide the sequences of each shard of the batch."""
        return self.stages > 1 or self._sequences % self.parts == 0

    @cached_property
    def is_in_parts(self) -> bool:
        """Whether a step is more than one pass over one batch by all devices."""
        return self.stages > 1 or self.parts > 1

    @cached_property
    def _sequences(self) -> int:
        return self.batch // math.prod(self.axis_sizes.get(name, 1) for name in DATA_AXES)

    @cached_property
    def batch(self) -> int:
        """Sequences in a step."""
        return round(self.batch_per_device * self.devices)  # a share such as 1/192 is not exact

    @cached_property
    def tokens(self) -> int:
        """Tokens in a step."""
        return self.batch * self.sequence

    @cached_property
    def length_shards(self) -> int:
        """Devices among which a sequence is divided between the blocks."""
        return math.prod(self.axis_sizes.get(axis, 1) for axis in LENGTH_AXES)

    @cached_property
    def context_shards(self) -> int:
        """Devices among which a sequence is divided inside attention."""
        exchanged = self.context_attention == "ulysses"
        return 1 if exchanged else self.axis_sizes.get(CONTEXT, 1)

    @cached_property
    def exchanged_axes(self) -> tuple[str, ...]:
        """Axes along which attention has heads in place of tokens."""
        inside = () if self.context_attention == "ulysses" else (CONTEXT,)
        given = [axis for axis, size in self.mesh if axis in LENGTH_AXES and size > 1]
        return tuple(axis for axis in given if axis not in inside)

    @property
    def is_balanced(self) -> bool:
        """Whether a device has two parts of each sequence, an early and a late one."""
        return self.context_shards > 1 and self.context_order == "balanced"

    @cached_property
    def attended(self) -> tuple[int, int]:
        """Queries and keys of one call of attention, or of a part of it."""
        here = self.sequence // (self.context_shards * (1 + self.is_balanced))
        return here, here if self.context_attention == "ring" else self.sequence

    @cached_property
    def kernel_blocks(self) -> Blocks:
        """Blocks of the attention kernel: queries, keys, keys per matmul."""
        return kernel_blocks(self.attention_blocks, self.topology.chip.generation, self.attended)

    @property
    def kernel_refusal(self) -> str | None:
        """Why the attention kernel cannot be compiled with its blocks; None if the sizes do not
        rule it out.
        """
        return too_large(self.kernel_blocks, self._head_dim, self.kernel_kib)

    @property
    def with_fitting_blocks(self) -> "Plan":
        """The plan, with the nearest smaller blocks where its kernel cannot be compiled."""
        limit_kib = self.kernel_kib
        if self.kernel_refusal is None or limit_kib is None:
            return self
        smaller = smaller_blocks(self.kernel_blocks, self._head_dim, limit_kib * 1024)
        return self.model_copy(update={"attention_blocks": smaller})

    @property
    def _head_dim(self) -> int:
        return max(layer.head_dim for layer, _ in self.size.layer_counts)

    @property
    def kernel_kib(self) -> int | None:
        """KiB of vector memory that a kernel may take; None if unknown."""
        given = self.flags.get(VMEM_FLAG, "")
        generation = self.topology.chip.generation
        return int(given) if given.isdigit() else VMEM_LIMITS_KIB.get(generation)

    @property
    def beyond_context(self) -> str | None:
        """How far a sequence is beyond what the model sees; None where it is not, or not known."""
        sees = self.size.context
        if not 0 < sees < self.sequence:
            return None
        return f"{self.sequence:,} tokens are more than the {sees:,} that {self.size.title} sees"

    @property
    def little_compared(self) -> str | None:
        """With how few published steps the experts' time was compared; None without experts."""
        if self.size.experts == 1:
            return None
        if self.topology.chip.is_gpu:
            return (
                "experts on GPUs were compared with no published step: measure one before booking"
            )
        if self.dropless:
            what, steps = "dropless experts", "three published steps, all on TPU7x"
        elif self.axis_sizes.get("expert", 1) > 1:
            what, steps = "experts sharded over expert", "one published step, on v6e"
        else:
            return None
        return f"{what} were compared with {steps}: compile the plan before booking chips for it"

    @cached_property
    def visits(self) -> float:
        """Rows of the mlp for each token: of experts as many as it visits, with the free places."""
        size = self.size
        if size.experts == 1:
            return 1.0
        if not self.dropless:
            return size.experts_per_token * self.capacity_factor
        return size.experts_per_token * (
            self.imbalance if self.axis_sizes.get("expert", 1) > 1 else 1.0
        )

    @cached_property
    def expert_repeats(self) -> int:
        """How many devices do the same work of experts: with a capacity, slots are of complete
        sequences, so that those among which one is divided have all of them.
        """
        repeated = self.size.experts > 1 and not self.dropless
        return self.length_shards if repeated else 1

    @property
    def moment_dtypes(self) -> tuple[str, ...]:
        """Dtypes of the optimizer's moments, as many as it has, by their names in JAX."""
        named = self.state_dtype, self.second_moment_dtype or self.state_dtype
        both = tuple(_DTYPES.get(dtype, dtype) for dtype in named)
        return both[:1] if self.optimizer in ("momentum", "lion") else both

    @cached_property
    def precision(self) -> Precision:
        """Dtypes of the operands of the layers' matmuls, of their gradients, of gathered weights."""
        usual = "float8" if self.matmul_dtype == "float8" else "bfloat16"
        gathered = self.matmul_dtype if self.scales == "static" else "bfloat16"
        return Precision(
            _DTYPES[self.matmul_dtype],
            "float8_e5m2" if (self.backward_dtype or usual) == "float8" else "bfloat16",
            _DTYPES[self.gathered_dtype or gathered],
            self.scales == "static",
        )

    @cached_property
    def fused_attention_backward(self) -> bool:
        """Whether the attention kernel's backward is one kernel, as in most published runs on v6e."""
        usual = get_topology(self.target).chip.matrix_unit == 256
        return usual if self.attention_backward == "published" else not usual

    @property
    def flags(self) -> dict[str, str]:
        """Compiler flags: those of the published runs, then the plan's own."""
        generation = get_topology(self.target).chip.generation
        published = GPU_FLAGS if self.topology.chip.is_gpu else PUBLISHED_FLAGS
        texts = (*published, *GENERATION_FLAGS.get(generation, ()), *self.compiler_flags)
        return {
            name: value
            for name, _, value in (text.removeprefix("--").partition("=") for text in texts)
        }

    @cached_property
    def makes_rings(self) -> bool:
        """Whether the compiler may split a matmul, and pass its operand or sum around a ring."""
        return makes_rings(self.topology, self.compiler_flags)

    @property
    def without_rings(self) -> "Plan":
        """The plan with the flag that turns that off."""
        others = [flag for flag in self.compiler_flags if flag.partition("=")[0] != RING_FLAG]
        return self.model_copy(update={"compiler_flags": (*others, WITHOUT_RINGS)})

    @property
    def flops(self) -> int:
        """Model FLOPs of a step."""
        return self.size.train_flops(self.tokens, self.sequence) - self._spared_flops

    @property
    def _spared_flops(self) -> int:
        """Of those of all weights, what a step without the gradients of frozen ones does less."""
        size, rank = self.size, self.lora_rank
        return self.tokens * (2 * size.matmul_parameters - 6 * size.adapters(rank)) if rank else 0

    @property
    def causal_share(self) -> float:
        """Of these FLOPs those whose query may attend to its key: causal MFU over MFU."""
        causal = self.size.causal_flops(self.tokens, self.sequence) - self._spared_flops
        return causal / self.flops

    def to_json(self) -> dict[str, object]:
        """The JSON form, defaults filled in."""
        return self.model_dump(mode="json")


def makes_rings(topology: Topology, flags: Iterable[str]) -> bool:
    """Returns True if the compiler may split matmuls on a topology, under a plan's own flags."""
    if topology.chip.is_gpu:  # XLA makes none by default
        return False
    given = dict(flag.removeprefix("--").split("=", 1) for flag in flags).get(RING_FLAG, "")
    return not given.isdigit() or int(given) < LEAST_WITHOUT_MIB


@cache
def _fields() -> frozenset[str]:
    return frozenset(Plan.model_fields)


@cache
def _cached_names() -> frozenset[str]:
    cached = (name for name, each in vars(Plan).items() if isinstance(each, cached_property))
    return frozenset(cached)

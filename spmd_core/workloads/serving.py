"""The workloads of a decoder, which are only ever compiled: a training step, and a serving step of
a token of each request, or of a chunk of prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spmd_core.base import Frozen, refuse, shorten, validated
from spmd_core.fields import Choice, Integer, Text, reading
from spmd_core.machine import parse_target
from spmd_core.plan import (
    AXIS,
    MESH_AXES,
    PLAN_FIELDS,
    SERVED_DTYPES,
    VARIABLE,
    Plan,
    ServedPlan,
    fewer_microbatches,
)
from spmd_core.workloads.workload import Workload


def parse_plan(data: Any) -> Plan:
    """The plan that a JSON value describes; RequestError, in one sentence, where it describes none."""
    example = '{"target": "tpu:v5e:4x4", "model": "scaled:1", …}'
    return validated(Plan, data, "plan", example)


def changed_plan(plan: Plan, change: Mapping[str, Any]) -> Plan:
    """Returns a plan with fields of its JSON form replaced; where these leave microbatches that do not
    divide the batch, with fewer of them.

    Raises:
      RequestError: the change makes no plan.
    """
    mesh = dict(change.get("mesh", plan.mesh))
    batch = change.get("batch_per_device", plan.batch_per_device) * math.prod(mesh.values())
    fewer = fewer_microbatches(plan.microbatches, batch, mesh)
    return parse_plan(plan.to_json() | {"microbatches": fewer} | dict(change))


def parse_mesh(text: str, example: str = "fsdp=16,tensor=4") -> tuple[tuple[str, int], ...]:
    """`data=2,fsdp=16,tensor=4` as pairs, in order."""
    pairs = []
    for part in text.split(","):
        name, equals, size = part.strip().partition("=")
        if not equals or not AXIS.fullmatch(name):
            rule, fix = "is not a list of axes", f"write for example {example}"
            raise refuse(f"mesh {shorten(text)}", rule, fix)
        is_number = size.isascii() and size.isdigit() and len(size) < 10
        pairs += reading.read_sizes("mesh", {name: int(size) if is_number else size})
    return tuple(pairs)


NAME = "decoder"

# A screen's default: one or two minutes of one core. Fewer layers or tokens would hardly help.
DEFAULT_SPEC: dict[str, Any] = {
    "workload": NAME,
    "target": "tpu:v5e:4x4",
    "mesh": {"fsdp": 16},
    "dims": {"batch": 32, "sequence": 2048},
    "options": {"model": "scaled:1", "remat": "full"},
    "strategies": ["auto"],
}


def plan_of_fields(fields: Mapping[str, Any]) -> Plan:
    """The plan that fields of an experiment describe; RequestError if they are invalid."""
    target = parse_target(fields["target"])
    if not target.is_absent:
        raise refuse(
            f"target {target.text}",
            "cannot run a transformer's training step, which is only compiled",
            "use a topology such as tpu:v5e:4x4",
        )
    for field in ("sharding", "overrides", "memory"):
        if fields[field]:
            raise refuse(
                f"{field} of {NAME}",
                "follows from the names of its mesh axes",
                f"leave {field} out, and name axes such as fsdp and tensor",
            )
    sizes, devices = dict(fields["dims"]), math.prod(size for _, size in fields["mesh"])
    options, rows = dict(fields["options"]), PLAN_FIELDS.items()
    return parse_plan(
        {
            "target": target.text,
            "mesh": fields["mesh"],
            "sequence": sizes["sequence"],
            "batch_per_device": sizes["batch"] / devices,
            "layers": sizes.get("layers"),
            "sizes": {name: sizes[name] for name in VARIABLE if name in sizes and name != "layers"},
            "model": options.get("model", DECODER.options["model"].default),
            **{name: value for name, row in rows if (value := row.read(options)) != row.value},
        }
    )


def fields_of_plan(plan: Plan) -> dict[str, object]:
    """The fields of a plan's experiment; equal plans give equal fields."""
    given = dict(plan.sizes) | ({"layers": plan.layers} if plan.layers else {})
    dims = {"batch": plan.batch, "sequence": plan.sequence} | {
        name: given[name] for name in VARIABLE if name in given
    }
    return {"target": plan.target, "dims": tuple(dims.items()), "options": _options(plan)}


def _options(plan: Plan) -> tuple[tuple[str, Any], ...]:
    written = {"device_order": plan.device_order, "remat": plan.remat, "model": plan.model}
    values: dict[str, object] = {}
    for name, row in PLAN_FIELDS.items():
        if name not in written and (value := getattr(plan, name)) != row.value:
            values |= row.encode(value)
    kept = [(name, each) for name, each in values.items() if each != DECODER.options[name].default]
    return (*written.items(), *kept)


DECODER = Workload(
    name=NAME,
    title="Transformer training step",
    kind="plan",
    formula="gradients and AdamW of a decoder: embedding, scanned blocks, loss",
    dims=("batch", "sequence", *VARIABLE),
    defaults={"batch": 32, "sequence": 2048},
    operands=(),
    results=(),
    flops=lambda sizes: 0,
    optional_dims=VARIABLE,
    dtypes=("bfloat16",),
    strategies=("auto",),
    default_strategies=("auto",),
    read_plan=plan_of_fields,
    named_axes=MESH_AXES,
    per_device=("batch",),
    same_options=("model",),
    unit="step",
    batch_unit="sequences",
    stages=("trace", "lower", "partition", "optimize", "schedule", "code", "price"),
    canonical=lambda fields: fields_of_plan(plan_of_fields(fields)),
    options={
        "model": Text(default="scaled:1", later=False),
        **{
            name: option
            for row in PLAN_FIELDS.values()
            for name, option in row.options.items()
            if name != "device_order"  # which every workload has
        },
    },
)


STEP = "serving_step"
_DTYPES, _OWN = tuple(SERVED_DTYPES), ("weights_dtype", "kv_dtype", "expert")
# mesh axes along which devices may hold different experts
SPREADS = ((), ("tensor",), ("data",), ("data", "tensor"))


class ServedStep(Frozen):
    """A step of all replicas of a plan.

    Attributes:
      requests: sequences that the cache has room for, of all replicas.
      slots: tokens of each that the cache has room for.
      chunk: new tokens of each request: 1 in a decode step, more in a chunk of prefill.
    """

    plan: ServedPlan
    requests: int
    slots: int
    chunk: int = 1

    @property
    def tokens(self) -> int:
        """New tokens of all requests."""
        return self.requests * self.chunk

    @property
    def mesh(self) -> tuple[tuple[str, int], ...]:
        """The mesh of all replicas."""
        data, tensor = (self.plan.along(axis) for axis in ("data", "tensor"))
        return (("replica", self.plan.replicas), ("data", data), ("tensor", tensor))

    @property
    def spread(self) -> tuple[str, ...]:
        """Mesh axes along which devices hold different experts; RequestError for a part of an axis."""
        sizes, expert, size = dict(self.mesh), self.plan.along("expert"), self.plan.size
        counts = {axes: math.prod(sizes[axis] for axis in axes) for axes in SPREADS}
        for axes, count in counts.items():
            if count == expert and size.experts % expert == 0:
                return axes
        divisors = (each for each in dict.fromkeys(counts.values()) if size.experts % each == 0)
        listed = ", ".join(map(str, divisors))
        raise refuse(
            f"expert={expert}",
            "is no mesh axis of the program, or does not divide experts",
            f"use {listed}",
        )

    @property
    def kv_heads(self) -> int:
        """Key heads of the program: repeated, one for each device of `tensor`, where it has more."""
        size = self.plan.size
        return size.kv_heads if size.kv_rank else max(size.kv_heads, self.plan.along("tensor"))

    @property
    def group_rows(self) -> int:
        """Rows of a block of the experts' kernel: those of about two experts."""
        size = self.plan.size
        rows = self.tokens // self.plan.replicas * size.experts_per_token
        return min(512, max(128, rows // (2 * size.experts) // 128 * 128))

    @property
    def flops(self) -> int:
        """FLOPs of the step's matmuls, attention over all slots among them."""
        size = self.plan.size.varied(mtp_layers=0)
        table = size.embed * size.vocab
        pairs = size.layers * self.slots * size.heads * (size.head_dim + size.value_size)
        of_tokens = self.tokens * (size.matmul_parameters - table + pairs)
        return 2 * (of_tokens + self.requests * table)


def step_of_fields(fields: Mapping[str, Any]) -> ServedStep:
    """The step that fields of an experiment describe; RequestError if they are invalid."""
    target = parse_target(fields["target"])
    if not target.is_absent:
        rule, fix = "cannot run a step of serving, which is only compiled", "use tpu:v6e:2x4"
        raise refuse(f"target {target.text}", rule, fix)
    options, sizes, mesh = dict(fields["options"]), dict(fields["dims"]), dict(fields["mesh"])
    expert = options.get("expert", 1)
    kept = [(axis, size) for axis, size in mesh.items() if axis != "replica"]
    plan = ServedPlan(
        model=options["model"],
        target=target.text,
        mesh=(*kept, ("expert", expert)) if expert > 1 else tuple(kept),
        weights_dtype=options.get("weights_dtype", _DTYPES[0]),
        kv_dtype=options.get("kv_dtype", _DTYPES[0]),
    )
    plan.check()
    if more := plan.size.beyond_windows:
        rule = f"has {more}, which this program of a step does not"
        raise refuse(f"model {plan.size.title}", rule, "use a model whose layers are alike")
    if mesh.get("replica", 1) != plan.replicas:
        rule = f"is not what data and tensor leave of {plan.topology.name}"
        raise refuse(f"replica={mesh.get('replica', 1)}", rule, f"use {plan.replicas}")
    step = ServedStep(plan=plan, **sizes)
    shards = plan.replicas * plan.along("data")
    if step.requests % shards:
        rule, fix = f"do not divide over {shards} shards", max(1, step.requests // shards) * shards
        raise refuse(f"requests={step.requests}", rule, f"use {fix}")
    if step.chunk > step.slots:
        rule = "is more than the cache has room for"
        raise refuse(f"chunk={step.chunk}", rule, f"use at most slots={step.slots}")
    _ = step.spread
    return step


def fields_of_step(step: ServedStep) -> dict[str, Any]:
    """The fields of a step's experiment; equal steps give equal fields."""
    plan, usual = step.plan, _DTYPES[0]
    options: dict[str, object] = {"device_order": "topology", "model": plan.size.name}
    own = dict(zip(_OWN, (plan.weights_dtype, plan.kv_dtype, plan.along("expert")), strict=True))
    options |= {name: value for name, value in own.items() if value not in (usual, 1)}
    dims = {"requests": step.requests, "slots": step.slots, "chunk": step.chunk}
    return {
        "target": plan.target,
        "mesh": step.mesh,
        "dims": tuple(dims.items()),
        "options": tuple(options.items()),
    }


SERVING_STEP = Workload(
    name=STEP,
    title="XLA's program of a serving step",
    kind="serving",
    formula="the next token of each request, from new tokens and the cache of earlier ones",
    dims=("requests", "slots", "chunk"),
    defaults={"requests": 8, "slots": 2048, "chunk": 1},
    operands=(),
    results=(),
    flops=lambda sizes: 0,
    dtypes=("bfloat16",),
    strategies=("auto",),
    default_strategies=("auto",),
    read_served=step_of_fields,
    unit="step",
    batch_unit="requests",
    stages=("trace", "lower", "partition", "optimize", "schedule", "code", "price"),
    canonical=lambda fields: fields_of_step(step_of_fields(fields)),
    options={
        "model": Text(default="llama-3.1-8b", later=False),
        "weights_dtype": Choice(_DTYPES, later=True),
        "kv_dtype": Choice(_DTYPES, later=True),
        "expert": Integer(1, 1, 2**20),
    },
)

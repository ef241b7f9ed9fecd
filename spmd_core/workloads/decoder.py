"""The workload of a transformer's training step, which is only ever compiled, and its plan in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spmd_core.base import refuse, shorten, validated
from spmd_core.fields import Text, reading
from spmd_core.machine import parse_target
from spmd_core.plan import AXIS, MESH_AXES, PLAN_FIELDS, VARIABLE, Plan
from spmd_core.workloads.workload import Workload


def parse_plan(data: Any) -> Plan:
    """The plan that a JSON value describes; RequestError, in one sentence, where it describes none."""
    example = '{"target": "tpu:v5e:4x4", "model": "scaled:1", …}'
    return validated(Plan, data, "plan", example)


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

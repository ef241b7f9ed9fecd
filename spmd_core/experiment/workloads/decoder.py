"""The workload of a transformer's training step, which is only ever compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.experiment.plan.meshes import AXES
from spmd_core.experiment.plan.model_size import VARIABLE
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.plan.reading import parse_plan
from spmd_core.experiment.workloads.options import Choice, Flag, Integer, Text
from spmd_core.experiment.workloads.workload import Workload
from spmd_core.machine import parse_target

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


# Option values for choices of a model, and their meaning in a plan; "" is the model's own.
GATES: dict[str, bool | None] = {"": None, "gated": True, "ungated": False}
TABLES: dict[str, bool | None] = {"": None, "tied": True, "untied": False}
FACTORS = ("capacity_factor", "imbalance")  # of experts: a text, "" for the usual one
BACKWARD = ("published", "fused", "split")  # kernels of attention's gradients
BLOCKS = ("attention_blocks", "keys_block", "compute_block")  # of queries, keys, keys per matmul


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
    sizes, devices = dict(fields["dims"]), 1
    for _, size in fields["mesh"]:
        devices *= size
    option = DECODER.option_defaults | dict(fields["options"])
    return parse_plan(
        {
            "target": target.text,
            "mesh": fields["mesh"],
            "sequence": sizes["sequence"],
            "batch_per_device": sizes["batch"] / devices,
            "layers": sizes.get("layers"),
            "sizes": {name: sizes[name] for name in VARIABLE if name in sizes and name != "layers"},
            "save": _words(option["save"]),
            "offload": _words(option["offload"]),
            "attention_blocks": _blocks(option),
            "activation": option["activation"] or None,
            "second_moment_dtype": option["second_moment_dtype"] or None,
            "gated": _choice("gate", GATES, option["gate"]),
            "tied": _choice("tables", TABLES, option["tables"]),
            "compiler_flags": tuple(option["compiler_flags"].split()),
            **{name: _factor(name, option[name]) for name in FACTORS if option[name]},
            **{name: option[name] for name in _SAME},
        }
    )


def fields_of_plan(plan: Plan) -> dict[str, object]:
    """The fields of a plan's experiment; equal plans give equal fields."""
    given = dict(plan.sizes) | ({"layers": plan.layers} if plan.layers else {})
    dims = {"batch": plan.batch, "sequence": plan.sequence} | {
        name: given[name] for name in VARIABLE if name in given
    }
    return {"target": plan.target, "dims": tuple(dims.items()), "options": _options(plan)}


_SAME = (
    "model",
    "remat",
    "device_order",
    "fused_qkv",
    "fused_mlp",
    "state_dtype",
    "parameter_dtype",
    "dropless",
    "attention_backward",
)  # options that a plan has under the same name and in the same form


def _choice(name: str, words: Mapping[str, bool | None], word: str) -> bool | None:
    if word not in words:
        raise refuse(
            f"{name}={shorten(word)}", "is not a choice", f"use {' or '.join(filter(None, words))}"
        )
    return words[word]


def _factor(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise refuse(
            f"{name}={shorten(text)}", "is no factor", "use a number such as 1.25"
        ) from None


def _word(words: Mapping[str, bool | None], value: bool | None) -> str:
    return next(word for word, meant in words.items() if meant is value)


def _blocks(option: Mapping[str, Any]) -> int | tuple[int, int, int] | None:
    """The kernel's blocks: one number, or three if the keys have their own; None: the chip's
    default.
    """
    queries, keys, part = (option[name] for name in BLOCKS)
    if not queries and (keys or part):
        raise refuse(
            f"keys_block={keys}" if keys else f"compute_block={part}",
            "has no block of queries beside it",
            "give attention_blocks too",
        )
    return (queries, keys or queries, part or keys or queries) if queries else None


def _block_options(plan: Plan) -> dict[str, int]:
    blocks = plan.attention_blocks
    queries, keys, part = blocks if isinstance(blocks, tuple) else (blocks or 0,) * 3
    return {
        "attention_blocks": queries,
        "keys_block": keys if keys != queries else 0,
        "compute_block": part if part != keys else 0,
    }


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _options(plan: Plan) -> tuple[tuple[str, Any], ...]:
    """Options in the order of an experiment, without defaults."""
    values: dict[str, object] = {name: getattr(plan, name) for name in _SAME} | {
        "save": ",".join(plan.save),
        "offload": ",".join(plan.offload),
        "second_moment_dtype": plan.second_moment_dtype or "",
        "activation": plan.activation or "",
        "gate": _word(GATES, plan.gated),
        "tables": _word(TABLES, plan.tied),
        **{
            name: "" if value == Plan.model_fields[name].default else f"{value:g}"
            for name in FACTORS
            for value in [getattr(plan, name)]
        },
        **_block_options(plan),
        "compiler_flags": " ".join(plan.compiler_flags),
    }
    written = ("device_order", "remat", "model")  # whatever their value
    defaults = DECODER.option_defaults
    later = [
        name for name in DECODER.options if name not in written and values[name] != defaults[name]
    ]
    return tuple((name, values[name]) for name in (*written, *later))


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
    named_axes=AXES,
    per_device=("batch",),
    same_options=("model",),
    unit="step",
    batch_unit="sequences",
    stages=("trace", "lower", "partition", "optimize", "schedule", "code", "price"),
    canonical=lambda fields: fields_of_plan(plan_of_fields(fields)),
    options={
        "remat": Choice(("full", "minimal", "none")),
        "model": Text("scaled:1", later=False),
        "save": Text(),
        "offload": Text(),
        "fused_qkv": Flag(),
        "fused_mlp": Flag(),
        "attention_blocks": Integer(0, 0, 8192),
        "state_dtype": Text("float32"),
        "parameter_dtype": Text("float32"),
        "compiler_flags": Text(),
        "keys_block": Integer(0, 0, 8192),
        "compute_block": Integer(0, 0, 8192),
        "second_moment_dtype": Text(),
        "activation": Text(),
        "gate": Text(),
        "tables": Text(),
        "dropless": Flag(),
        "capacity_factor": Text(),
        "imbalance": Text(),
        "attention_backward": Choice(BACKWARD),
    },
)

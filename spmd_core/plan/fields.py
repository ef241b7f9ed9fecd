"""The table of a training plan's fields: one row each, read by link, command line, search, screen
and words.

To add an option of a plan, add its row: a value of the program's `Decoder` of the same name is set
from it. `docs/extending.md` has an example.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt

from spmd_core.base import AsObject, Frozen, PairsOf, refuse
from spmd_core.fields import Choice, Integer, Number, Switch, Words, fields_of
from spmd_core.machine import get_topology
from spmd_core.plan.blocks import Blocks, BlocksField
from spmd_core.plan.flags import WITHOUT_RINGS, flag_refusal
from spmd_core.plan.model_rules import CONTEXT, GATHERED_AXES, LENGTH_AXES, STAGE, nearest_divisor
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.models import get_model
from spmd_core.plan.schedules import MOST_MICROBATCHES, SCHEDULES

NAMES = ("input", "query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down", "attention")
MAX_SEQUENCE = 2**20
_Dtype = Literal["float32", "bfloat16"]
_StateDtype = Literal["float32", "bfloat16", "float8"]


def remat_words(remat: str, save: Sequence[str], offload: Sequence[str]) -> str:
    """Returns what the forward pass saves and offloads by name, else the rematerialization.

    >>> remat_words("full", (), ("input", "query", "key", "value"))
    'offload input, qkv'
    >>> remat_words("minimal", ("attention",), ()), remat_words("full", (), ())
    ('minimal; save attention', 'full')
    """
    parts = [] if remat == "full" and (save or offload) else [remat]
    parts += [
        f"{way} {_short(names)}" for way, names in (("save", save), ("offload", offload)) if names
    ]
    return "; ".join(parts)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Returns the schedule, microbatches and collective matmuls among fields of a plan.

    >>> option_words({"microbatches": 4, "compiler_flags": (WITHOUT_RINGS,)})
    ['4 microbatches', 'no collective matmuls']
    """
    words = [str(options["schedule"])] if "schedule" in options else []
    if options.get("microbatches"):
        words.append(f"{options['microbatches']} microbatches")
    return [
        *words,
        *["no collective matmuls"] * (WITHOUT_RINGS in options.get("compiler_flags", ())),
    ]


def _short(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text.replace("query, key, value", "qkv").replace("mlp_up, mlp_gate", "mlp")


def named_count(names: Sequence[str]) -> int:
    """Returns how many names `remat_words` has of saved arrays.

    >>> named_count(("query", "key", "value", "out"))
    2
    """
    return _short(names).count(",") + bool(names)


def _not_saved(name: str) -> str | None:
    return None if name in NAMES else "is not saved by a decoder's block"


def _refused(
    when: Callable[[Any], bool], value: str, rule: str = "means nothing", fix: str = "leave it out"
) -> Callable[[Any], None]:
    """Returns the rule of a row that is refused `when` a plan is so; texts may name the plan's fields."""

    def check(plan: Any) -> None:
        if when(plan):
            raise refuse(*(text.format(plan=plan) for text in (value, rule, fix)))

    return check


def _check_saved(plan: Any) -> None:
    if both := set(plan.save) & set(plan.offload):
        raise refuse(f"{sorted(both)[0]!r}", "is both saved and offloaded", "choose one")
    if plan.remat == "none" and (plan.save or plan.offload):
        rule = "keeps everything, so that save and offload mean nothing"
        raise refuse("remat none", rule, "use remat full")


def _unequal_heads(size: ModelSize) -> str:
    if size.kv_rank:
        return f"is not of latent attention, which {size.title} has"
    if size.kv_heads == size.heads:
        return ""
    has = f"{size.title} has {size.kv_heads} of {size.heads}"
    return f"needs as many key heads as heads, and {has}"


def _no_experts(size: ModelSize) -> str:
    return "" if size.experts > 1 else "of a model without experts means nothing"


def _check_gathered(plan: Any) -> None:
    label, dtype = f"gathered_dtype={plan.gathered_dtype}", plan.matmul_dtype
    if plan.gathered_dtype not in ("bfloat16", dtype):
        rule = f"is neither bfloat16 nor the {dtype} of its matmuls"
        raise refuse(label, rule, f"use {dtype}")
    if plan.gathered_dtype != "bfloat16" and plan.scales == "dynamic":
        rule = "needs a scale that is known before a weight is gathered"
        raise refuse(label, rule, "use scales=static")


def _check_fsdp_on_experts(plan: Any) -> None:
    axes, experts = plan.axis_sizes, plan.size.experts
    if not plan.dropless:
        rule = "is of experts that drop no token"
        raise refuse("fsdp_on_experts", rule, "use dropless, or leave it out")
    for axis in ("expert", "tensor", *LENGTH_AXES):
        if axes.get(axis, 1) > 1:
            rule = f"is not beside {axis}={axes[axis]}"
            raise refuse("fsdp_on_experts", rule, f"use {axis}=1, or leave it out")
    among = axes.get("fsdp", 1) * axes.get("fsdp_transpose", 1)
    if experts % among:
        rule = f"does not divide experts={experts} of {plan.size.title}"
        near = nearest_divisor(math.gcd(experts, plan.devices), among)
        raise refuse(f"fsdp={among} with fsdp_on_experts", rule, f"use fsdp={near}")


def _check_adapters(plan: Any) -> None:
    size, label = plan.size, f"lora_rank={plan.lora_rank}"
    kinds = {*size.mixers} - {"attention"}
    if size.experts > 1 or size.kv_rank or size.mtp_layers or kinds:
        rule = f"needs dense layers with attention alone, and {size.title} has others"
        raise refuse(label, rule, "leave it out")
    for holds, what, fix in (
        (STAGE in plan.axis_sizes, f"{STAGE}={plan.stages}", f"use {STAGE}=1"),
        (plan.fused_qkv or plan.fused_mlp, "fused matmuls", "leave these out"),
        (plan.matmul_dtype != "bfloat16", f"matmul_dtype={plan.matmul_dtype}", "use bfloat16"),
    ):
        if holds:
            raise refuse(label, f"is not beside {what}", fix)


def _check_logit_parts(plan: Any) -> None:
    rows, parts = plan.sequence // plan.length_shards, plan.logit_parts
    if rows % parts:
        rule = f"does not divide the {rows} tokens of a sequence on a device"
        raise refuse(f"logit_parts={parts}", rule, f"use {nearest_divisor(rows, parts)}")


def _check_context(plan: Any) -> None:
    if plan.context_attention == "ring" and (any(plan.size.windows) or plan.size.sinks):
        rule = f"has neither windows nor sinks, which {plan.size.title} has"
        raise refuse("context_attention=ring", rule, "use all-gather")
    both = math.prod(plan.axis_sizes.get(axis, 1) for axis in ("tensor", "sequence"))
    heads, among = plan.size.heads, plan.axis_sizes[CONTEXT]
    if plan.context_attention == "ulysses" and heads % (both * among):
        rule = f"does not divide the {heads // both} heads of a device of {plan.size.title}"
        near = nearest_divisor(math.gcd(heads // both, plan.devices), among)
        other = "" if plan.topology.chip.is_gpu else ", or all-gather"
        raise refuse(f"{CONTEXT}={among} of ulysses", rule, f"use {CONTEXT}={near}{other}")


def _check_sharded_optimizer(plan: Any) -> None:
    label, among, embed = "shard_optimizer_over_data", plan.axis_sizes["data"], plan.size.embed
    for holds, what, fix in (
        (plan.optimizer == "muon", "muon, whose matrices are complete", "use adamw"),
        (plan.lora_rank, f"frozen weights (lora_rank={plan.lora_rank})", "leave one of them out"),
    ):
        if holds:
            raise refuse(label, f"is not beside {what}", fix)
    shards = math.prod(plan.axis_sizes.get(axis, 1) for axis in GATHERED_AXES)
    if embed % (among * shards):
        rule = f"does not divide embed={embed} of {plan.size.title} over {among * shards} shards"
        near = nearest_divisor(math.gcd(max(1, embed // shards), plan.devices), among)
        other = f"use data={near}, or " * (embed % (near * shards) == 0)
        raise refuse(f"{label} with data={among}", rule, f"{other}leave it out")


def _published_backward(given: Mapping[str, Any]) -> str:
    is_wide = get_topology(given["target"]).chip.matrix_unit == 256
    return "fused" if is_wide else "split"


class PlanFields(Frozen):
    """What a plan is made of: topology, model, mesh and batch, then the rows of the table."""

    version: Literal[1] = 1
    target: Annotated[str, AfterValidator(lambda text: get_topology(text).target)]
    model: Annotated[str, AfterValidator(lambda name: get_model(name).name)]
    mesh: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf]
    batch_per_device: float = Field(gt=0, le=65536)
    sequence: StrictInt = Field(2048, ge=128, le=MAX_SEQUENCE)
    layers: StrictInt | None = Field(None, ge=1, le=1024)  # None: the model's own
    # sizes that differ from the model's own, layers left out
    sizes: Annotated[tuple[tuple[str, StrictInt], ...], PairsOf, AsObject] = ()
    remat: Annotated[
        Literal["full", "minimal", "none"],
        Choice(
            group="Memory",
            label="Rematerialization",
            help="what the backward pass computes again instead of saving it",
            metavar="POLICY",
            titles={
                "none": "none: save everything",
                "minimal": "minimal: save projections",
                "full": "full: block inputs, others by name",
            },
            always=True,
            searched=True,
        ),
    ] = "full"
    device_order: Annotated[
        Literal["topology", "plain"],
        Choice(
            group="Pipeline and compiler",
            label="Device order",
            help="topology: axes are where jax.make_mesh puts them; plain: as jax.devices() lists "
            "them",
            metavar="ORDER",
        ),
    ] = "topology"
    save: Annotated[
        tuple[str, ...],
        Words(
            NAMES,
            group="Memory",
            refusal=_not_saved,
            label="Saved on the device",
            help="saved as well, by name",
            metavar="NAMES",
            searched=True,
            rule=_check_saved,
        ),
    ] = ()
    offload: Annotated[
        tuple[str, ...],
        Words(
            NAMES,
            group="Memory",
            refusal=_not_saved,
            label="Offloaded to the host",
            help="moved to host memory in the forward pass, and back",
            metavar="NAMES",
            searched=True,
            rule=_check_saved,
        ),
    ] = ()
    fused_qkv: Annotated[
        bool,
        Switch(
            group="Model and optimizer",
            label="One matmul for query, key and value",
            unfit=_unequal_heads,
        ),
    ] = False
    fused_mlp: Annotated[
        bool,
        Switch(
            group="Model and optimizer",
            label="One matmul for gate and up",
            unfit=lambda size: (
                ""
                if size.gated
                else f"is one matmul for gate and up, and {size.title} here has no gate"
            ),
        ),
    ] = False
    attention_blocks: Annotated[
        int | Blocks | None,
        BlocksField(
            group="Attention",
            help="blocks of the attention kernel: queries, keys, keys per matmul; or one number "
            "for all",
            metavar="Q,KV,COMPUTE",
            line="attention blocks of {}",
        ),
    ] = None
    attention_backward: Annotated[
        Literal["published", "fused", "split"],
        Choice(
            group="Attention",
            label="Attention backward",
            help="kernels of the gradients of attention",
            metavar="KERNELS",
            titles={
                "published": "as published for the chip",
                "fused": "one kernel",
                "split": "two kernels",
            },
            line="{} attention backward",
            usual=_published_backward,
        ),
    ] = "published"
    state_dtype: Annotated[
        _StateDtype,
        Choice(
            group="Precision",
            label="Optimizer state",
            help="of the optimizer's moments; float8 with a scale for each row",
            metavar="DTYPE",
        ),
    ] = "float32"
    second_moment_dtype: Annotated[
        _StateDtype | None,
        Choice(
            group="Precision",
            label="Second moment",
            help="of the optimizer's second moment alone",
            metavar="DTYPE",
            titles={"": "as the optimizer state"},
            usual=lambda given: given.get("state_dtype"),
        ),
    ] = None
    parameter_dtype: Annotated[
        _Dtype,
        Choice(group="Precision", label="Parameters", help="of the parameters", metavar="DTYPE"),
    ] = "float32"
    compiler_flags: Annotated[
        tuple[str, ...],
        Words(
            group="Pipeline and compiler",
            separator=" ",
            refusal=flag_refusal,
            label="Compiler flags",
            help="added to those of the published runs",
            metavar="xla_enable_async_all_gather=false",
            line="{}",
        ),
    ] = ()
    activation: Annotated[
        Literal["relu", "gelu", "silu"] | None,
        Choice(
            group="Model and optimizer",
            label="Activation",
            help="of the mlp",
            of_model="activation",
        ),
    ] = None
    gated: Annotated[
        bool | None,
        Choice(
            group="Model and optimizer",
            option="gate",
            line="{}",
            meanings={"gated": True, "ungated": False},
            label="Mlp",
            help="an mlp of three matmuls, or of two, whatever the model has",
            of_model="gated",
        ),
    ] = None
    tied: Annotated[
        bool | None,
        Choice(
            group="Model and optimizer",
            option="tables",
            line="{}",
            meanings={"tied": True, "untied": False},
            label="Vocabulary tables",
            help="one vocabulary table, or two, whatever the model has",
            of_model="tied",
        ),
    ] = None
    mtp_layers: Annotated[
        int | None,
        Integer(
            group="Model and optimizer",
            low=1,
            high=8,
            placeholder="as the model",
            line="{} heads of later tokens",
            label="Heads of later tokens",
            help="heads that predict a later token (MTP), each with one more layer",
            metavar="N",
            of_model="mtp_layers",
        ),
    ] = None
    dropless: Annotated[
        bool,
        Switch(
            group="Experts",
            label="Experts drop no token",
            help="experts take every token, by a grouped matmul",
            line="dropless experts",
            unfit=_no_experts,
            rule=_refused(
                lambda plan: plan.topology.chip.is_gpu,
                "dropless",
                "is a kernel for TPUs",
                "choose a TPU topology, or leave it out",
            ),
        ),
    ] = False
    capacity_factor: Annotated[
        float,
        Number(
            1,
            64,
            group="Experts",
            label="Capacity factor",
            help="rows that an expert takes, over an even share",
            metavar="FACTOR",
            unfit=_no_experts,
            rule=_refused(
                lambda plan: plan.dropless, "capacity_factor of experts that drop no token"
            ),
        ),
    ] = 1.25
    imbalance: Annotated[
        float,
        Number(
            1,
            64,
            group="Experts",
            label="Imbalance, dropless",
            help="dropless: rows that a device takes, over an even share",
            metavar="FACTOR",
            unfit=_no_experts,
            rule=_refused(lambda plan: not plan.dropless, "imbalance of experts that drop tokens"),
        ),
    ] = 1.0
    fsdp_on_experts: Annotated[
        bool,
        Switch(
            group="Experts",
            label="Experts' weights over fsdp by experts",
            help="fsdp shards the experts' dim of their weights (MaxText's fsdp_shard_on_exp)",
            unfit=_no_experts,
            rule=_check_fsdp_on_experts,
        ),
    ] = False
    matmul_dtype: Annotated[
        Literal["bfloat16", "float8", "int8"],
        Choice(
            group="Precision",
            label="Matmuls",
            help="of the operands of the layers' matmuls: float8 is MaxText's fp8 and fp8_full",
            metavar="DTYPE",
        ),
    ] = "bfloat16"
    backward_dtype: Annotated[
        Literal["bfloat16", "float8"] | None,
        Choice(
            group="Precision",
            label="Matmuls, backward",
            help="of the gradients that matmuls take",
            metavar="DTYPE",
            titles={"": "float8 beside float8"},
            usual=lambda given: "float8" if given.get("matmul_dtype") == "float8" else "bfloat16",
            rule=_refused(
                lambda plan: plan.matmul_dtype == "bfloat16",
                "backward_dtype={plan.backward_dtype}",
                "of matmuls in bfloat16 means nothing",
                "use matmul_dtype=float8",
            ),
        ),
    ] = None
    scales: Annotated[
        Literal["dynamic", "static"],
        Choice(
            group="Precision",
            label="Scales",
            help="of operands in 8 bits: by their largest value, or known before (on TPUs not of "
            "gradients)",
            metavar="SCALES",
            line="{} scales",
            rule=_refused(
                lambda plan: plan.matmul_dtype == "bfloat16",
                "scales of matmuls in bfloat16",
                "mean nothing",
                "use matmul_dtype=float8",
            ),
        ),
    ] = "dynamic"
    gathered_dtype: Annotated[
        Literal["bfloat16", "float8", "int8"] | None,
        Choice(
            group="Precision",
            label="Gathered weights",
            help="of weights on their way to a matmul; static scales: that of the matmuls",
            metavar="DTYPE",
            titles={"": "as scales allow"},
            usual=lambda given: (
                given.get("matmul_dtype") if given.get("scales") == "static" else "bfloat16"
            ),
            rule=_check_gathered,
        ),
    ] = None
    microbatches: Annotated[
        int | None,
        Integer(
            group="Memory",
            low=1,
            high=MOST_MICROBATCHES,
            placeholder="one, or up to four a stage",
            line="{} microbatches",
            label="Microbatches",
            help="parts of a batch, one after the other: gradients are added up, or they pass the "
            "stages of a pipeline",
            metavar="N",
            usual=lambda given: None if STAGE in dict(given["mesh"]) else 1,
        ),
    ] = None
    schedule: Annotated[
        Literal["1f1b", "gpipe", "interleaved", "zb-h1", "circular"],
        Choice(
            group="Pipeline and compiler",
            label="Pipeline schedule",
            help="of a mesh with the axis stage: the order in which stages work on microbatches",
            metavar="SCHEDULE",
            titles={name: each.title for name, each in SCHEDULES.items()},
            line="{} schedule",
        ),
    ] = "1f1b"
    repeats: Annotated[
        int,
        Integer(
            1,
            1,
            64,
            group="Pipeline and compiler",
            label="Runs of layers in each stage",
            help="interleaved and circular pipelines: how often a microbatch passes each stage",
            metavar="N",
            line="{} runs of layers a stage",
        ),
    ] = 1
    optimizer: Annotated[
        Literal["adamw", "momentum", "lion", "adafactor", "muon"],
        Choice(
            group="Model and optimizer",
            label="Optimizer",
            help="AdamW has two moments, SGD with momentum and Lion one, Adafactor those of rows and "
            "columns; Muon has one of hidden matrices, which are gathered or exchanged",
            metavar="OPTIMIZER",
            titles={
                "adamw": "AdamW",
                "momentum": "SGD with momentum",
                "lion": "Lion",
                "adafactor": "Adafactor",
                "muon": "Muon, AdamW for the rest",
            },
            line="{} optimizer",
            rule=_refused(
                lambda plan: plan.second_moment_dtype and plan.optimizer in ("momentum", "lion"),
                "second_moment_dtype",
                "means nothing to {plan.optimizer}, which has one moment",
            ),
        ),
    ] = "adamw"
    context_attention: Annotated[
        Literal["all-gather", "ring", "ulysses"],
        Choice(
            group="Attention",
            label="Attention over context",
            help="of a mesh with the axis context: keys and values are gathered, pass around a "
            "ring, or heads are exchanged for tokens",
            metavar="KIND",
            titles={
                "all-gather": "all-gather of keys and values",
                "ring": "ring of keys and values",
                "ulysses": "all-to-all over heads (Ulysses)",
            },
            line="{} over context",
            rule=_check_context,
        ),
    ] = "all-gather"
    context_order: Annotated[
        Literal["balanced", "contiguous"],
        Choice(
            group="Attention",
            label="Order of tokens over context",
            help="balanced: a device has an early part of each sequence and the late one that "
            "mirrors it, so that all attend to as many keys",
            metavar="ORDER",
            line="{} order over context",
            rule=_refused(
                lambda plan: plan.context_attention != "all-gather",
                "context_order={plan.context_order}",
                "means nothing to {plan.context_attention}",
            ),
        ),
    ] = "balanced"
    logit_parts: Annotated[
        int,
        Integer(
            1,
            1,
            64,
            group="Memory",
            label="Parts of the logits",
            help="of each sequence, one after the other: its logits are not all in memory, and are "
            "computed again for their gradients",
            metavar="N",
            line="logits in {} parts",
            rule=_check_logit_parts,
        ),
    ] = 1
    lora_rank: Annotated[
        int | None,
        Integer(
            group="Model and optimizer",
            low=1,
            high=1024,
            placeholder="all weights are trained",
            line="LoRA of rank {}",
            label="Rank of adapters (LoRA)",
            help="each matrix of a layer is frozen in bfloat16, beside two narrow ones that are "
            "trained; tables and norms are frozen too",
            metavar="RANK",
            rule=_check_adapters,
        ),
    ] = None
    shard_optimizer_over_data: Annotated[
        bool,
        Switch(
            group="Memory",
            label="Optimizer sharded over data",
            help="ZeRO-1: parameters and moments are sharded over data, too; weights are gathered "
            "once a step",
            line="optimizer sharded over data",
            rule=_check_sharded_optimizer,
        ),
    ] = False
    # Add a plan option above this line.


PLAN_FIELDS = fields_of(PlanFields)
OF_MODEL = {name: row.of_model for name, row in PLAN_FIELDS.items() if row.of_model}

"""The program text of a transformer's training step: its files merged into one, with the plan's
configuration and mesh.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from spmd_core.base import parsed
from spmd_core.machine import Topology
from spmd_core.plan import ModelSize, Plan, group_rows
from spmd_core.script.parts import merged_imports, placed_devices, spaced
from spmd_core.workloads import ServedStep

_SHARED = (
    "decoder_parts",
    "decoder_precision",
    "decoder_experts",
    "decoder_flash",
    "decoder_state",
    "decoder_config",
    "decoder_context",
    "decoder",
)  # in order of their imports


_TRAINED, _SERVED = (*_SHARED, "decoder_step"), (*_SHARED, "decoder_serving")
_DTYPES = {"bf16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8"}


def decoder_text(plan: Plan) -> str:
    """A module that defines `mesh` and `lower()`, which gives the step lowered for it."""
    if plan.stages > 1:
        return "# A pipeline is estimated from its plan: no program of it is written or compiled.\n"
    is_plain = plan.device_order == "plain" or plan.topology.chip.is_gpu
    lower = [
        f'    """The step over {plan.batch} sequences of {plan.sequence} tokens, lowered."""',
        f"    return lower_train_step(CONFIG, mesh, {plan.batch}, {plan.sequence})",
    ]
    return _text(
        _TRAINED, configuration(plan), mesh_lines(plan.mesh, plan.topology, is_plain), lower
    )


def serving_text(step: ServedStep) -> str:
    """The same of a step of serving."""
    plan, chunk = step.plan, step.chunk
    each = "one new token" if chunk == 1 else f"{chunk} new tokens"
    cache = f"Cache({step.requests}, {step.slots}, {_DTYPES[plan.kv_dtype]!r})"
    lower = [
        f'    """The step over {step.requests} requests, {each} of each, lowered."""',
        f"    return lower_serving_step(CONFIG, mesh, {cache}, {chunk}, {step.spread})",
    ]
    mesh = mesh_lines(step.mesh, plan.topology, plan.topology.chip.is_gpu)
    return _text(_SERVED, served_configuration(step), mesh, lower)


def _text(
    files: tuple[str, ...], config: Mapping[str, object], mesh: list[str], lower: list[str]
) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in config.items())
    is_plain = "np.array" in mesh[0]
    lines = [
        *_imports(files, is_plain),
        "",
        *_body(files),
        "",
        "",
        f"CONFIG = Decoder({arguments})",
    ]
    lines += [*mesh, "", "", "def lower():", *lower]
    return "\n".join(spaced(lines)) + "\n"


def configuration(plan: Plan) -> dict[str, object]:
    """Arguments of the decoder's configuration that differ from their defaults."""
    given = {name: getattr(plan, name) for name in _fields() if hasattr(plan, name)}
    given |= sizes_of(plan.size) | {
        "group_rows": group_rows(plan) if plan.dropless else 512,
        "attention_blocks": plan.kernel_blocks,
        "gpu": plan.topology.chip.is_gpu,
        **plan.precision._asdict(),
    }
    return _without_defaults(given)


def served_configuration(step: ServedStep) -> dict[str, object]:
    """The same of a step of serving."""
    plan, size = step.plan, step.plan.size
    given = sizes_of(size) | {
        "kv_heads": step.kv_heads,
        "mtp_layers": 0,
        "dropless": size.experts > 1,
        "group_rows": step.group_rows,
        "gpu": plan.topology.chip.is_gpu,
        "parameter_dtype": _DTYPES[plan.weights_dtype],
    }
    return _without_defaults(given)


def _without_defaults(given: Mapping[str, object]) -> dict[str, object]:
    return {
        name: given[name]
        for name, default in _fields().items()
        if name in given and (default is None or given[name] != default[0])
    }


def sizes_of(size: ModelSize) -> dict[str, object]:
    """Sizes and choices: those of most layers, and of the others by stages in so far as they differ."""
    usual = _of_layer(max(size.layer_counts, key=lambda each: each[1])[0])
    stages = () if len({*size.kinds}) == 1 else _stages(size, usual)
    return usual | {"layers": size.layers, "mtp_layers": size.mtp_layers, "stages": stages}


def _of_layer(layer: ModelSize) -> dict[str, object]:
    own = asdict(layer)
    kind = {"mixer": layer.mixers[0], "window": layer.windows[0]}
    kind |= {"has_mlp": layer.mlps[0] != "none", "shared_kv": layer.full_shared_kv}
    return {name: value for name, value in (own | kind).items() if name in _fields()}


def _stages(size: ModelSize, usual: Mapping[str, object]) -> tuple[tuple[object, int], ...]:
    return tuple(
        (
            tuple(
                {name: value for name, value in own.items() if value != usual[name]}
                for own in (_of_layer(size.layer(kind)) for kind in block)
            ),
            times,
        )
        for block, times in size.stages
    )


def mesh_lines(mesh: tuple[tuple[str, int], ...], topology: Topology, is_plain: bool) -> list[str]:
    """The lines that make `mesh` over all devices of the topology, slices outermost; plain: in the order in which they are listed, as GPUs always are."""
    sizes, names = tuple(size for _, size in mesh), tuple(name for name, _ in mesh)
    placed = (
        f"np.array(jax.devices()).reshape({sizes})" if is_plain else placed_devices(sizes, topology)
    )
    return [
        f"placed_devices = {placed}",
        f"mesh = Mesh(placed_devices, {names}, axis_types=(AxisType.Auto,) * {len(names)})",
    ]


@cache
def _sources(files: tuple[str, ...] = _SHARED) -> tuple[str, ...]:
    return tuple(
        (resources.files("spmd_core.script.programs") / f"{name}.py").read_text("utf-8")
        for name in files
    )


@cache
def _fields() -> Mapping[str, tuple[Any] | None]:
    classes = [
        node
        for node in parsed(_sources()[_SHARED.index("decoder_config")]).body
        if isinstance(node, ast.ClassDef) and node.name == "Decoder"
    ]
    return {
        statement.target.id: None
        if statement.value is None
        else (ast.literal_eval(statement.value),)
        for statement in classes[0].body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


@cache
def _imports(files: tuple[str, ...], is_plain: bool) -> Sequence[str]:
    """Import lines of all files and of the mesh, each once, without imports between these files."""
    extra = f"{'import numpy as np' if is_plain else 'from jax.experimental import mesh_utils'}\nfrom jax.sharding import AxisType"
    return merged_imports(
        node
        for source in (*_sources(files), extra)
        for node in parsed(source).body
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("spmd_core")
    )


@cache
def _body(files: tuple[str, ...]) -> Sequence[str]:
    lines: list[str] = []
    for source in _sources(files):
        last = max(
            node.end_lineno or 0
            for node in parsed(source).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        )
        lines += ["", "", *source.splitlines()[last:]]
    return lines

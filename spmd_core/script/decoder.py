"""The program text of a transformer's training step: its files merged into one, with the plan's
configuration and mesh.
"""

import ast
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from spmd_core.base import parsed
from spmd_core.experiment import Plan, group_rows, merged_imports
from spmd_core.script.imports import spaced
from spmd_core.script.parts import placed_devices

_FILES = (
    "decoder_parts",
    "decoder_precision",
    "decoder_experts",
    "decoder_flash",
    "decoder_config",
    "decoder",
    "decoder_step",
)  # in order of their imports


def decoder_text(plan: Plan) -> str:
    """A module that defines `mesh` and `lower()`, which gives the step lowered for it."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in configuration(plan).items())
    lines = [
        *_imports(_is_plain(plan)),
        "",
        *_body(),
        "",
        "",
        f"CONFIG = Decoder({arguments})",
        *mesh_lines(plan),
        "",
        "",
        "def lower():",
        f'    """The step over {plan.batch} sequences of {plan.sequence} tokens, lowered."""',
        f"    return lower_train_step(CONFIG, mesh, {plan.batch}, {plan.sequence})",
    ]
    return "\n".join(spaced(lines)) + "\n"


def configuration(plan: Plan) -> dict[str, object]:
    """Arguments of the decoder's configuration that differ from their defaults."""
    size, fields = plan.size, _fields()
    given = {name: getattr(plan, name) for name in fields if hasattr(plan, name)}
    given |= asdict(size) | {
        "windows": size.layer_windows[: len(size.windows)],
        "group_rows": group_rows(plan) if plan.dropless else 512,
        "attention_blocks": plan.kernel_blocks,
        "gpu": plan.topology.chip.is_gpu,
        **plan.precision._asdict(),
    }
    return {
        name: given[name]
        for name, default in fields.items()
        if name in given and (default is None or given[name] != default[0])
    }


def mesh_lines(plan: Plan) -> list[str]:
    """The lines that make `mesh` over all devices of the topology, slices outermost."""
    sizes, names = tuple(size for _, size in plan.mesh), tuple(name for name, _ in plan.mesh)
    placed = (
        f"np.array(jax.devices()).reshape({sizes})"
        if _is_plain(plan)
        else placed_devices(sizes, plan.topology)
    )
    return [
        f"placed_devices = {placed}",
        f"mesh = Mesh(placed_devices, {names}, axis_types=(AxisType.Auto,) * {len(names)})",
    ]


def _is_plain(plan: Plan) -> bool:
    """Whether a mesh takes its devices as they are listed, as GPUs always are."""
    return plan.device_order == "plain" or plan.topology.chip.is_gpu


@cache
def _sources() -> tuple[str, ...]:
    return tuple(
        (resources.files("spmd_core.script.programs") / f"{name}.py").read_text("utf-8")
        for name in _FILES
    )


@cache
def _fields() -> dict[str, tuple[Any] | None]:
    """Fields of the configuration, each with its default; None where it has none."""
    classes = [
        node
        for node in parsed(_sources()[_FILES.index("decoder_config")]).body
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
def _imports(is_plain: bool) -> list[str]:
    """Import lines of all files and of the mesh, each once, without imports between these files."""
    extra = f"{'import numpy as np' if is_plain else 'from jax.experimental import mesh_utils'}\nfrom jax.sharding import AxisType"
    return merged_imports(
        node
        for source in (*_sources(), extra)
        for node in parsed(source).body
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("spmd_core")
    )


@cache
def _body() -> list[str]:
    """The text after the imports of each file."""
    lines: list[str] = []
    for source in _sources():
        last = max(
            node.end_lineno or 0
            for node in parsed(source).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        )
        lines += ["", "", *source.splitlines()[last:]]
    return lines

"""Reads the collectives of a compiled step: each with its line, function, scope and element type."""

import re
from collections.abc import Sequence

from spmd_core.engine.exported.module import is_own_file
from spmd_core.facts import Collective
from spmd_core.program import Instruction, Module, Site, merged_names, sites, source_frame
from spmd_core.results import StepCollective

_DTYPES = {"pred": "bool", "bf16": "bfloat16"}
_PREFIXES = {"f": "float", "s": "int", "u": "uint", "c": "complex"}
FUNCTION = re.compile(r"<locals>\.")
# of an operation's name: what JAX traced through, not what its author named
_TRACED = re.compile(
    r"(jit|pjit|jvp|transpose|vmap|remat|checkpoint|rematted_computation|custom_\w+|closed_call|"
    r"core_call|while|body|cond|scan|shard_map|branch_\d+_fun)(\(.*\))?$|$"
)


def files_of(module: Module) -> tuple[str, ...]:
    """The source files that a step's author wrote; all of them where they are of installed
    libraries alone.
    """
    every = dict.fromkeys(
        frame.file
        for computation in module.computations
        for each in computation.instructions
        for frame in each.frames
    )
    return tuple(filter(is_own_file, every)) or tuple(every)


def step_collectives(
    module: Module, collectives: Sequence[Collective], files: tuple[str, ...]
) -> tuple[StepCollective, ...]:
    """The collectives of a module, of which `collectives` has reasons and cost; `source` is with
    the full path of the file.
    """
    by_name = {site.start.outer.name: site for site in sites(module)}
    return tuple(_described(by_name[each.name or ""], each, module, files) for each in collectives)


def _described(
    site: Site, each: Collective, module: Module, files: tuple[str, ...]
) -> StepCollective:
    frame = source_frame(site, module, files)
    return StepCollective(
        kind=each.kind,
        asked=each.asked,
        axes=each.axes,
        count=each.count,
        bytes=each.bytes,
        bytes_total=each.bytes_total,
        dtype=_dtype(site.start.inner),
        source=f"{frame.file}:{frame.line}" if frame else None,
        function=FUNCTION.sub("", frame.function) if frame else "",
        scope=scope_of(each.op),
        reason=each.reason,
        origin=each.origin,
        against=each.against,
        no_origin=each.no_origin,
        exposed_s=each.exposed_total_s,
        warning=each.warning,
    )


def scope_of(op: str | None) -> str:
    """The scopes of an operation's name: of `jax.named_scope`, modules and `jax.jit`'s functions.

    >>> scope_of("jit(step)/transpose(jvp(block))/attention/dot_general")
    'block/attention'
    """
    first = next(iter(merged_names(op or "")), "")
    return "/".join(name for part in first.split("/")[1:-1] for name in _named(part))


def _named(part: str) -> list[str]:
    inner = part
    while match := re.fullmatch(r"(?:jvp|transpose|vmap)\((.*)\)", inner):
        inner = match[1]
    return [] if _TRACED.match(inner) else [inner]


def _dtype(instruction: Instruction) -> str:
    """The element type, as NumPy names it, of the largest array of a collective."""
    arrays = instruction.arrays
    element = max(arrays, key=lambda array: array.bytes).element if arrays else "token"
    if element in _DTYPES or len(element) < 2 or not element[1:].isdigit():
        return _DTYPES.get(element, element.replace("f8", "float8_") if element[:2] == "f8" else element)  # fmt: skip
    return f"{_PREFIXES.get(element[0], element[0])}{element[1:]}"

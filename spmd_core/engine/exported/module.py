"""The module of an exported program as text: read, written, with short paths, and on another mesh."""

import re
from pathlib import PurePath

from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

_FILE = re.compile(r'(loc\(")((?:[^"\\]|\\.)*)(":\d)')


def printed(module: ir.Module) -> str:
    """A module as text, with its locations."""
    return module.operation.get_asm(enable_debug_info=True)


def parsed(text: str) -> ir.Module:
    """The module of a text, in the context at hand."""
    return ir.Module.parse(text)


def serialized(module: ir.Module) -> bytes:
    """A module as a portable artifact, as `jax.export` writes it."""
    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    return _jax.mlir.serialize_portable_artifact(module, version, True)


def with_short_paths(text: str) -> str:
    """The last two parts of each source file's path: the others name a machine and its users."""
    return _FILE.sub(lambda found: f"{found[1]}{_short(found[2])}{found[3]}", text)


def _short(path: str) -> str:
    parts = PurePath(path.replace("\\\\", "/")).parts
    return "/".join(part for part in parts[-2:] if part != "/")

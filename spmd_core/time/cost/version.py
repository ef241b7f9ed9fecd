"""What a prediction was made by: versions of jax and libtpu, and the hash of the cost model."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

# What a prediction depends on besides the compiler: how modules are read and priced, and the
# programs that are compiled.
_SOURCES = tuple(
    f"{room}/*.py"
    for room in (
        "program/hlo",
        "program/communication",
        "time/cost",
        "experiment/plan",
        "script/programs",
        "script",
        "machine",
    )
)


def versions() -> dict[str, str | None]:
    """What a prediction is made with; a stored one stands for a new one where these are the same.
    None: not installed.
    """
    return {
        **{name: _version(name) for name in ("jax", "jaxlib", "libtpu")},
        "cost_model": cost_version(),
    }


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def cost_version() -> str:
    """Hash of the sources that a prediction depends on (12 hex digits)."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]

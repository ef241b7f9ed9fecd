"""Compiled steps that are kept: a test that runs again compiles nothing."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from spmd_core.base import default_data_folder, package_version
from spmd_core.results import CompiledStep

MOST = 400  # answers that a folder keeps
_CORE = Path(__file__).resolve().parents[2]
_PACKAGES = ("jax", "jaxlib", "libtpu", "spmd-lab")
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


def kept_answer(key: Callable[[], bytes], compiled: Callable[[], CompiledStep]) -> CompiledStep:
    """Returns the compiled step that is kept for a key, else compiles it and keeps it.

    Args:
        key: returns the StableHLO of the step, its target and whatever else a compile depends on;
            versions are added.
        compiled: compiles the step.
    """
    try:
        folder = default_data_folder() / "answers"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return compiled()  # without a home folder, or with one that cannot be written
    path = folder / f"{_hash(key())}.json"
    with contextlib.suppress(OSError, ValueError):
        return CompiledStep.model_validate_json(path.read_bytes())
    step = compiled()
    with contextlib.suppress(OSError):
        _write(path, step.model_dump_json().encode())
    return step


def _hash(key: bytes) -> str:
    made = sha256(key)
    for part in _versions():
        made.update(b"\0" + part.encode())
    return made.hexdigest()


def _versions() -> Iterable[str]:
    """What an answer depends on besides its program; in a clone of this project its sources too."""
    yield from (f"{name} {package_version(name)}" for name in _PACKAGES)
    yield from (f"{name} {os.environ.get(name)}" for name in _FLAGS)
    yield str(max(path.stat().st_mtime_ns for path in _CORE.rglob("*.py")))


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)
    kept = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    for each in kept[:-MOST]:
        each.unlink(missing_ok=True)

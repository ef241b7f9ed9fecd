"""Another Python with another JAX, where the checks made an environment of one."""

import os
import subprocess
from pathlib import Path


def newer_python() -> str | None:
    """The interpreter that SPMD_LAB_NEWER_PYTHON names, if it has jax; None elsewhere."""
    named = os.environ.get("SPMD_LAB_NEWER_PYTHON")
    if not named or not Path(named).exists():
        return None
    found = subprocess.run([named, "-c", "import jax"], capture_output=True)
    return named if found.returncode == 0 else None

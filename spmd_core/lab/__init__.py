"""Submit, queue, follow, keep, cancel: one object behind the screens and the command line."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spmd_core.lab import doctor, examples
    from spmd_core.lab.offered import (
        COMMAND_LINE,
        VIEWER,
        Asker,
        Batch,
        Imported,
        Lab,
        Remedies,
        Room,
        Searches,
        StoredSearch,
        role_of,
        simulated_devices,
        why,
        worker_environment,
    )

__all__ = [
    "COMMAND_LINE",
    "VIEWER",
    "Asker",
    "Batch",
    "Imported",
    "Lab",
    "Remedies",
    "Room",
    "Searches",
    "StoredSearch",
    "doctor",
    "examples",
    "role_of",
    "simulated_devices",
    "why",
    "worker_environment",
]


def __getattr__(name: str) -> Any:
    """Load the names above on first use: importing them takes longer than starting Dask's client."""
    if name not in __all__ or name in ("doctor", "examples"):  # Python finds modules itself
        raise AttributeError(name)
    from spmd_core.lab import offered

    return getattr(offered, name)

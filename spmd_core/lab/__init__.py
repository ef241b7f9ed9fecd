"""Submit, queue, follow, keep, cancel: one object behind the screens and the command line."""

from spmd_core.lab import doctor
from spmd_core.lab.batch import Batch, why
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.limits import COMMAND_LINE, Asker, Room
from spmd_core.lab.store.remedies import Remedies
from spmd_core.lab.store.searches import Searches, StoredSearch

__all__ = [
    "COMMAND_LINE",
    "Asker",
    "Batch",
    "Lab",
    "Remedies",
    "Room",
    "Searches",
    "StoredSearch",
    "doctor",
    "why",
]

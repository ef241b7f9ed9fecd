"""What the face of the lab offers, loaded together."""

from spmd_core.lab.archive.archives import Imported
from spmd_core.lab.batch import Batch, why
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.asker import VIEWER, role_of
from spmd_core.lab.store.limits import COMMAND_LINE, Asker, Room
from spmd_core.lab.store.searches import Searches, StoredSearch
from spmd_core.lab.store.stored_remedies import Remedies

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
    "role_of",
    "why",
]

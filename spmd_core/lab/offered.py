"""What the face of the lab offers, loaded together; its `__all__` is the list."""

from spmd_core.lab.archive.archives import Imported
from spmd_core.lab.batch import Batch, why
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.limits import COMMAND_LINE, VIEWER, Asker, Room, role_of
from spmd_core.lab.store.searches import Remedies, Searches, StoredSearch
from spmd_core.lab.supervisor.environment import simulated_devices, worker_environment

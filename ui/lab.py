"""The handle to the Lab; the only importer of it in the user interface."""

from spmd_core.errors import RequestError
from spmd_core.lab import Lab
from spmd_core.runs.states import RunStatus


def lab() -> Lab:
    """The Lab of this process and data folder; StorageError where the folder cannot be used."""
    return Lab.open()


def find(run: str) -> RunStatus | None:
    """A run as it stands; None where this machine has none of that id."""
    try:
        return lab().status(run)
    except RequestError:
        return None

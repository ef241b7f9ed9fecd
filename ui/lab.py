"""The handle to the Lab; the only importer of it in the user interface."""

from spmd_core.lab import Lab


def lab() -> Lab:
    """The Lab of this process and data folder; StorageError where the folder cannot be used."""
    return Lab.open()

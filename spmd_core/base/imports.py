"""What a process of ours does once its imports are done."""

import gc


def imported() -> None:
    """Collect garbage from here on, where `spmd_core/__init__` put it off. What was imported is
    left out of every collection.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

"""What Python's garbage collector need not look through after every rerun."""

import gc
import sys

_GROWTH = 50  # modules; a few that come late are not worth another look at the heap
_seen = 0


def leave_imports_out() -> None:
    """Freeze what is alive once the imports are done, and again after many more.

    Streamlit collects all garbage after every rerun, which walks every object of every imported
    module: half of a rerun's time.
    What is frozen is not walked. It is still freed when nothing refers to it; only cycles that
    exist now would stay, a few times a process.
    """
    global _seen
    if len(sys.modules) > _seen + _GROWTH:
        _seen = len(sys.modules)
        gc.collect()
        gc.freeze()

"""SPMD Lab's core: experiments as values, and the worker processes that run them."""

import gc
import sys


def _is_own_process() -> bool:
    """Returns True while `python -m` is on its way to a module of this package."""
    words = sys.orig_argv
    if sys.argv[:1] != ["-m"] or "-m" not in words[:-1]:
        return False
    return words[words.index("-m") + 1].partition(".")[0] == __name__


if _is_own_process():
    # Imports leave no garbage, and collections are a fifth of their time: `base.imported` allows
    # them again. A process of somebody else keeps its collector as it is.
    gc.disable()

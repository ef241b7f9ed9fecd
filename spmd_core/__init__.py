"""SPMD Lab's core: experiments as values, and the worker processes that run them."""

import gc
import sys

if sys.argv[:1] == ["-m"]:  # Python is on its way to a module of ours that is a process
    # Imports leave no garbage, and collections are a fifth of their time: `base.imported` allows
    # them again.
    gc.disable()

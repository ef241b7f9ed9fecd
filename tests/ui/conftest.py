import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_read_before():
    """Screens keep what they read of a run by its id, and each test has a store of its own."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ui."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

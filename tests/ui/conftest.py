from types import SimpleNamespace

import pytest

from spmd_core.lab import Lab
from tests.ui import forget


@pytest.fixture(autouse=True)
def nothing_read_before():
    """Screens keep what they read of a run by its id, and each test has a store of its own."""
    forget()


@pytest.fixture
def lab(data_folder, monkeypatch):
    """A Lab that does not work its queue, so that what is queued stays so; the screens use it."""
    lab = Lab.open(serve=False)
    monkeypatch.setattr("spmd_lab.ui.lab.Lab", SimpleNamespace(open=lambda *_: lab))
    return lab

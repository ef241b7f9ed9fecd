"""A Lab whose worker is the stand-in engine, with short limits."""

from dataclasses import replace

import pytest

from spmd_core.lab import Lab
from tests.labs import HASTY, STANDIN


@pytest.fixture
def standin_engine(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))


@pytest.fixture
def open_lab(data_folder):
    return lambda **changes: Lab.open(data_folder, settings=replace(HASTY, **changes))


@pytest.fixture
def lab(open_lab):
    return open_lab()

"""Programs, which are partitioned once for all tests of the folder: half of what these would take."""

import pytest

from spmd_core.lab.supervisor.partitioning import Partitioning
from tests.labs import partitioned_once


@pytest.fixture
def partitions_anew():
    """For a test of what is shown while a process is at work."""


@pytest.fixture(autouse=True)
def _partitioned_once(request, monkeypatch):
    if "partitions_anew" not in request.fixturenames:
        monkeypatch.setattr(Partitioning, "_answer", partitioned_once)

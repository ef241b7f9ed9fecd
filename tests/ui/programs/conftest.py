"""Programs, which are partitioned once for all tests of the folder: half of what these would take."""

import pytest

from spmd_core.lab.supervisor.partitioning import Partitioning
from spmd_lab.ui.programs import constrain
from tests.labs import partitioned_once


@pytest.fixture
def partitions_anew():
    """For a test of what is shown while a process is at work."""


@pytest.fixture
def recompiles():
    """For a test of the compile that follows a change of a compiled program."""


@pytest.fixture(autouse=True)
def _not_recompiled(request, monkeypatch):
    if "recompiles" not in request.fixturenames:
        monkeypatch.setattr(constrain, "RECOMPILE_S", 0.0)


@pytest.fixture(autouse=True)
def _partitioned_once(request, monkeypatch):
    if "partitions_anew" not in request.fixturenames:
        monkeypatch.setattr(Partitioning, "_answer", partitioned_once)

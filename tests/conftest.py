"""The test environment: 8 simulated CPU devices, a data folder of its own, and nothing left behind."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from spmd_core.worker.environment import simulated_devices

# Set before any test imports jax: in this process, and in what is started from it.
os.environ.update(simulated_devices(8, os.cpu_count() or 1))
# Programs are small and run a few times: LLVM's optimizations are a quarter of what the tests of
# programs take.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["SPMD_LAB_TARGET"] = "cpu:8"
# a test that asks for no folder of its own never sees the user's
os.environ["SPMD_LAB_DATA"] = tempfile.mkdtemp(prefix="spmd-lab-tests-")

# A background job of a shell has its SIGINT ignored, and whatever it starts inherits that: some
# tests interrupt what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a shared machine is slow at times; the same examples each time
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")

# Tests that share what is slow to start, in the order in which they begin: dashboard and browser,
# and the Lab of all recipes.
TOGETHER = ("browser", "script", "workloads", "recipes", "commands", "worker", "engine")


# Half of the browser's files, by the time that they take: each half has a dashboard of its own.
ANOTHER_DASHBOARD = ("test_running.py", "test_predict.py", "test_widths.py", "test_training.py",
                     "test_programs.py")


def group(path: Path) -> str:
    """The tests that stay in one process with those of a file."""
    folder = path.relative_to(Path(__file__).parent).parts[0]
    if folder == "browser" and path.name in ANOTHER_DASHBOARD:
        return "another browser"
    return folder if folder in ("browser", "recipes") else str(path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put each test in the group that one process runs: its file's, or its folder's where files
    share a fixture.
    """
    def place(item):
        room = item.path.relative_to(Path(__file__).parent).parts[0]
        return TOGETHER.index(room) if room in TOGETHER else len(TOGETHER)

    items.sort(key=place)  # a stable sort: within a folder as collected
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item.path)))


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A data folder for one test, also seen by the processes that it starts."""
    folder = tmp_path / "data"
    monkeypatch.setenv("SPMD_LAB_DATA", str(folder))
    return folder

"""The test environment: 8 simulated CPU devices, a data folder of its own, and nothing left behind."""

import gc
import importlib
import logging
import os
import signal
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

from spmd_core.lab.supervisor.environment import simulated_devices
from tests import forked, processes

# Screens and programs make many values and little garbage: a tenth of the tests' time went into
# looking for it.
gc.set_threshold(100_000, 10, 10)

# Set before any test imports jax: in this process, and in what is started from it.
os.environ.update(simulated_devices(8, os.cpu_count() or 1))
# Programs are small and run a few times: LLVM's optimizations are a quarter of what the tests of
# programs take, its several modules for a program a tenth.
flags = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if version("jaxlib").startswith("0.10."):  # its other emitters compile twice as long; later: alone
    flags.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(flags)
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's products are small: its other threads spin
os.environ["SPMD_LAB_TARGET"] = "cpu:8"
os.environ["SPMD_LAB_EXAMPLES"] = "off"


def own_folder() -> None:
    """Gives this process a data folder: a test that asks for none never sees the user's, nor that
    of another process of the tests.
    """
    os.environ["SPMD_LAB_DATA"] = tempfile.mkdtemp(prefix="spmd-lab-tests-")


own_folder()

# A background job of a shell has its SIGINT ignored, and whatever it starts inherits that: some
# tests interrupt what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a shared machine is slow at times; the same examples each time
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci")

forked.install()

# It says of each screen of a test, for each value of it, that no viewer has opened it.
logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").disabled = True

# The folders whose files take longest, in the order in which they begin, so that no process is left
# with one of them at the end; of two folders the files share what is slow to start.
FIRST = ("browser", "golden", "house", "own", "commands", "script", "recipes", "lab", "engine")


# Tests that read the syntax tree of every file: 5 CPU s in each process that has one of them
TREES = {
    f"tests/{name}.py"
    for name in (
        *(f"house/test_{of}" for of in ("check", "docs", "layers", "names", "shape", "units")),
        *("time/test_one_owner", "words/test_voice"),
    )
}


def group(nodeid: str) -> str:
    """The tests that stay in one process with this one: its file's, or its folder's where files
    share a fixture.
    """
    file = nodeid.partition("::")[0]
    _, folder, *_ = Path(file).parts
    if file in TREES:
        return "trees"
    # half of what all renderers take; searches are shown there too
    if "test_golden.py" in file and ("screen" in nodeid or "search" in nodeid):
        return "screens"
    return folder if folder in ("browser", "recipes") else file


def pytest_addoption(parser):
    """`-n 4`: in how many processes."""
    group = parser.getgroup("processes")
    group._addoption("-n", "--processes", type=int, default=0, help="of the tests; 0: this one")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Several processes take a group at a time."""
    option = session.config.option
    if option.processes < 2 or option.collectonly or session.testsfailed:
        return None
    forked.learn()
    return processes.run(session, option.processes, group, own_folder)


@cache
def _marks(folder: Path) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a folder and of those above it."""
    if folder == Path(__file__).parent:
        return ()
    own: object = ()
    if (folder / "__init__.py").exists():
        name = ".".join(folder.relative_to(Path(__file__).parents[1]).parts)
        own = getattr(importlib.import_module(name), "pytestmark", ())
    return (*(own if isinstance(own, list | tuple) else [own]), *_marks(folder.parent))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What takes longest comes first. A mark in a folder's `__init__` is one of all of its tests."""
    for item in items:
        for mark in _marks(item.path.parent):
            item.add_marker(mark)

    def place(item):
        room = item.path.relative_to(Path(__file__).parent).parts[0]
        return FIRST.index(room) if room in FIRST else len(FIRST)

    items.sort(key=place)  # a stable sort: within a folder as collected


def pytest_collection_finish():
    """Leave what was imported and collected out of every collection of garbage."""
    gc.freeze()


def pytest_unconfigure():
    """End what forks for this process."""
    forked.end()


@pytest.fixture(autouse=True)
def _main():
    """A screen is the main module once a test has run it, and would be run by each process that
    `multiprocessing` starts.
    """
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


class _Here:
    """Reads files in this process, by the function of the process that else does."""

    def prepare(self):
        """There is no process to start."""

    def ask(self, question, seconds, most_bytes):
        from spmd_core.base import ChildAnswer, RequestError
        from spmd_core.engine.exported import describe

        try:
            text = describe.described_file(*map(Path, question))
        except RequestError as error:
            text = f"!{error}"
        return ChildAnswer(text, 0, "")


@pytest.fixture
def read_here(monkeypatch):
    """A process for each file, which imports JAX, takes longer than what most tests ask of it."""
    monkeypatch.setattr("spmd_core.workloads.exported.programs._parser", _Here())


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A data folder for one test, also seen by the processes that it starts; the Labs that were
    opened in the test's folder are closed at the end.
    """
    folder = tmp_path / "data"
    monkeypatch.setenv("SPMD_LAB_DATA", str(folder))
    yield folder
    from spmd_core.lab.lab import _open_labs  # not needed to collect

    for opened in [lab for at, lab in _open_labs.items() if at.is_relative_to(tmp_path)]:
        opened.close()

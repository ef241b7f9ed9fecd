"""The data folder of stored runs that the goldens are rendered from."""

import contextlib
import io
import lzma
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import spmd_lab.ui.lab
from spmd_core.lab import Lab
from spmd_core.lab.supervisor.partitioning import Partitioning
from tests.golden.runs import PACKED
from tests.labs import partitioned_once
from tests.ui import forget

_ENVIRONMENT = {
    "TZ": "UTC",
    "SPMD_LAB_TARGET": "cpu:8",
    "SPMD_LAB_EXAMPLES": "off",
    "SPMD_LAB_WORKLOADS": "",
}
_CORES = 2  # of the machine whose runs are stored: estimates of simulated devices depend on it
# A run is shown ten times, a load served and a model searched in each form of an answer, a program
# partitioned in each folder: each is worked out once.
_RESULTS = 1000
_serving = import_module("spmd_core.search.serving")
_simulate = cache(_serving.simulate)
_models = import_module("spmd_core.search.models")
_every = _models.candidates
_found = cache(lambda question: tuple(_every(question)))


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Lab]:
    """A Lab on the stored runs that works no queue, in an environment that is the same anywhere."""
    folder.mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=io.BytesIO(_packed())) as archive:
        archive.extractall(folder, filter="data")
    (folder / "lab.sqlite3").chmod(0o600)
    with (
        mock.patch.dict(os.environ, _ENVIRONMENT | {"SPMD_LAB_DATA": str(folder)}),
        mock.patch("os.sched_getaffinity", lambda _: set(range(_CORES)), create=True),
        mock.patch("spmd_core.lab.lab.RESULTS_KEPT", _RESULTS),
        mock.patch.object(_serving, "simulate", _simulate),
        mock.patch.object(_models, "candidates", lambda question, *_: _found(question)),
        mock.patch.object(Partitioning, "_answer", partitioned_once),
        mock.patch.object(Lab, "what_if_now", Lab.what_if),  # waits for the compiler
        mock.patch.object(Lab, "is_partitioned", lambda *_, **__: True),  # nobody edits
    ):
        time.tzset()
        forget()
        lab = Lab.open(folder, serve=False)
        try:
            with mock.patch.object(spmd_lab.ui.lab, "Lab", SimpleNamespace(open=lambda *_: lab)):
                yield lab
        finally:
            _join_searches()
            lab.close()
            forget()
    time.tzset()


@cache
def _packed() -> bytes:
    return lzma.decompress(PACKED.read_bytes())


def _join_searches() -> None:
    """Wait for threads of searches, which store their answer after they say that they are over."""
    for thread in threading.enumerate():
        if thread.name.startswith("search "):
            thread.join(120)


@contextlib.contextmanager
def apart() -> Iterator[Lab]:
    """A Lab on a folder of its own with the stored runs, for what is stored beside them."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        opened(Path(temporary) / "data") as lab,
    ):
        yield lab

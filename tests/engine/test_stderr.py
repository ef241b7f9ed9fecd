import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest

from spmd_core.engine.stderr import captured, compiler_warnings

pytestmark = pytest.mark.this_python

LOG = (
    "W1120 10:29:05.477391   24790 spmd_partitioner.cc:656] [SPMD] Involuntary full "
    "rematerialization. The compiler cannot go from {a} to {b}.\n"
)


@contextmanager
def redirected(kind):
    """Descriptor 2 as the worker has it (a regular file), or as a terminal would be; what came out
    there is in the list at the end.

    Not a fixture: between setting up and the test, pytest redirects the descriptor itself.
    """
    saved, out = os.dup(2), []
    with tempfile.TemporaryFile("w+b") as file:
        reading, writing = os.pipe()
        os.dup2(file.fileno() if kind == "file" else writing, 2)
        os.close(writing)
        try:
            yield out
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        out.append(
            os.pread(file.fileno(), 10_000, 0) if kind == "file" else os.read(reading, 10_000)
        )
        os.close(reading)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_a_library_writes_is_caught_and_passed_through(kind):
    with redirected(kind) as out:
        os.write(2, b"before\n")
        with captured() as log:
            os.write(2, LOG.encode())
            subprocess.run(
                [sys.executable, "-c", "import os; os.write(2, b'from a child\\n')"], check=True
            )
        os.write(2, b"after\n")
    assert log == [LOG + "from a child\n"]
    assert out == [b"before\n" + LOG.encode() + b"from a child\nafter\n"]


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_an_exception_passes_and_the_text_is_kept(kind):
    with redirected(kind) as out, pytest.raises(ValueError, match="inside"), captured() as log:
        os.write(2, b"last words\n")
        raise ValueError("inside")
    assert log == ["last words\n"]
    assert out == [b"last words\n"]


def test_a_known_warning_is_led_by_a_sentence_and_each_is_told_once():
    rematerialization, other = compiler_warnings(
        LOG + LOG + "\n2025-11-20 10:00:00.5: W external/xla/some.cc:12] Something odd\n"
    )
    assert rematerialization == (
        "The compiler found no efficient way from one sharding to another and replicates the "
        "array (involuntary full rematerialization): "
        "[SPMD] Involuntary full rematerialization. The compiler cannot go from {a} to {b}."
    )
    assert other == "Something odd"


def test_start_up_chatter_is_no_warning():
    assert (
        compiler_warnings(
            "WARNING: All log messages before absl::InitializeLog() is called are written to "
            "STDERR\n\n"
        )
        == ()
    )


def test_a_long_warning_is_shortened():
    (warning,) = compiler_warnings("x" * 5000)
    assert len(warning) == 600
    assert warning.endswith("…")

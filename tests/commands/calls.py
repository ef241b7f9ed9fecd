"""Commands as a shell calls them, and what they say: in a process of their own, or in this one, which
spares the start of each and of its worker.
"""

import io
import subprocess
import sys
from unittest import mock

from spmd_core import __main__ as command_line
from tests.labs import ROOT

Done = subprocess.CompletedProcess[str]


def call(*words: str, stdin: str | bytes = b"", timeout: float = 120) -> Done:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "spmd_core", *words],
        cwd=ROOT,
        input=given,
        capture_output=True,
        timeout=timeout,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def told(*words: str, stdin: str | bytes = "") -> Done:
    """The same of a command called here; its Lab, and the worker with it, are there for the next."""
    content = stdin.encode() if isinstance(stdin, str) else stdin
    given, out, err = (
        io.TextIOWrapper(io.BytesIO(each), "utf-8", newline="") for each in (content, b"", b"")
    )
    with mock.patch.multiple(sys, stdin=given, stdout=out, stderr=err):
        code = command_line.main(words)
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(words, code, *said)

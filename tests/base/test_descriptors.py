"""Descriptors: the limit is raised as far as allowed, what is left is counted, and one beyond 1,024
can be waited for.
"""

import os
import socket
import subprocess
import sys

from spmd_core.base import descriptors

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from spmd_core.base import descriptors
{rest}
"""


def limited(soft: int, hard: int, rest: str) -> str:
    script = LIMITED.format(soft=soft, hard=hard, rest=rest)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout


def test_the_soft_limit_is_raised_to_the_hard_one_and_no_further():
    read = "descriptors.raise_limit(); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert limited(64, 500, read) == "500 500\n"
    assert limited(500, 500, read) == "500 500\n"


def test_what_is_left_falls_with_each_open_file_to_nothing():
    count = """
import os
before = descriptors.left()
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
print(before - descriptors.left())
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    print(descriptors.left())
"""
    assert limited(100, 100, count) == "20\n0\n"


def test_a_source_beyond_1024_can_be_waited_for():
    wait = """
import os, socket
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
ours, theirs = socket.socketpair()
out, into = os.pipe()
assert ours.fileno() > 1024
print(descriptors.readable([ours, out], 0))
theirs.send(b"x")
print(descriptors.readable([ours, out], None) == [ours])
theirs.close()
os.write(into, b"x")
print(descriptors.readable([ours, out], 1.0) == [ours, out])
"""
    assert limited(4096, 4096, wait) == "[]\nTrue\nTrue\n"


def test_a_wait_that_is_over_finds_nothing():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert descriptors.readable([ours], 0.05) == []
        theirs.close()
        assert descriptors.readable([ours], None) == [ours], "its end is read as well"
    out, into = os.pipe()
    os.close(into)
    assert descriptors.readable([out], None) == [out]
    os.close(out)

"""Processes of ours, forked from one that has imported what they do: JAX and the wings take a second of
a core each time, and a check starts five hundred. `python -m tests.forked` is that one.

The first of a module is started. What is forked is of a process that began with the same environment;
variables that are read when they are used may differ. It is a child of this process as any other,
by Linux' subreaper, with the descriptors, folder and session of a `Popen`.
"""

import array
import contextlib
import ctypes
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = ("spmd_core", "tests.called")
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_OF_THE_MOMENT = ("SPMD_LAB_", "PYTEST_", "STANDIN_", "HOME", "XDG_", "LIBTPU_", "ALLOW_MULTIPLE_")
_READ_BYTES = 2**20
# Beside the module: what it imports once it has something to do
_LATER = {
    "spmd_core.worker": ("engine.devices", "engine.measured.run", "engine.absent.run"),
    "spmd_core.worker.partitioning": ("engine.partitioned",),
    "spmd_core": ("commands.run", "lab.lab"),
    "tests.called": ("lab.lab",),
}
_ALONE = ("spmd_core.engine.self_test",)  # which is seldom started


class Forked(subprocess.Popen):
    """A `Popen` that forks where it may, and otherwise starts the program."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        environ = {**os.environ} if env is None else dict(env)
        module = None if preexec_fn or not close_fds else _module(args)
        if module and (forks := _forks(module, environ)):
            with contextlib.suppress(OSError):  # the process that forks has ended
                self._forked_by(forks, args, pass_fds, cwd, environ, *rest)
                return
        given = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env)
        super()._execute_child(*given, *rest)

    def _forked_by(self, forks, args, pass_fds, cwd, environ, *rest):
        sys.audit("subprocess.Popen", "forked", args, cwd, environ)
        (_, _, _, *pipes), session = rest[:9], rest[-2]
        read, _, _, write, _, errors = pipes
        given = [each if each != -1 else at for at, each in enumerate((read, write, errors))]
        words = {"argv": args[args.index("-m") + 1 :], "cwd": os.fspath(cwd or os.getcwd())}
        words |= {"env": environ, "session": session, "is_safe": "-P" in args}
        self.pid = forks.fork(words | {"fds": [0, 1, 2, *pass_fds]}, [*given, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _module(args: Any) -> str | None:
    """The module of ours that a command line runs."""
    if isinstance(args, list) and args[0] == sys.executable and "-m" in args[1:3]:
        module = args[args.index("-m") + 1]
        return module if module.startswith(OURS) and module not in _ALONE else None
    return None


_guard = threading.Lock()
_started: Counter[str] = Counter()
_all: dict[tuple, "Forks"] = {}
_hashes: list[tuple[list[str], str]] = []  # of the program's sources, by patterns of their names


def _forks(module: str, environ: dict[str, str]) -> "Forks | None":
    """The process that forks these; None for the first of a module."""
    lasting = {name: environ[name] for name in environ if not name.startswith(_OF_THE_MOMENT)}
    key = (module, *sorted(lasting.items()), environ.get("STANDIN_LONG"))
    with _guard:
        _started[module] += 1
        if key not in _all and _started[module] > 1:
            _all[key] = Forks(module, environ)
        return _all.get(key)


class Forks:
    """A process that has imported a module, and forks on request."""

    def __init__(self, module: str, environ: dict[str, str]) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # the stand-in's `sitecustomize` knows a worker by the words `-m spmd_core.worker`
            code = "import sys; sys.path.insert(0, sys.argv[1]); from tests import forked; forked.serve()"
            self._process = _Popen(
                [
                    sys.executable,
                    "-c",
                    code,
                    str(ROOT),
                    str(theirs.fileno()),
                    "-m",
                    module,
                    json.dumps(_hashes),
                ],
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )

    def fork(self, words: dict[str, Any], descriptors: list[int]) -> int:
        """A new process with these descriptors; its number."""
        text = json.dumps(words).encode()
        with _guard:
            return self._forked(text, descriptors)

    def end(self) -> None:
        """Let it end, and wait."""
        self._channel.close()
        self._process.wait()

    def _forked(self, text: bytes, descriptors: list[int]) -> int:
        self._channel.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])  # fmt: skip
        if not (answer := self._channel.recv(64)):
            raise OSError("the process that forks has ended")
        return int(answer)


_Popen = subprocess.Popen


def install() -> None:
    """Let every `Popen` of this process be one of these, on Linux."""
    if sys.platform == "linux":
        subprocess.Popen = Forked  # type: ignore[misc]


def learn() -> None:
    """Work out once what each process that predicts would: hashes of the program's sources take a
    second of a core. What was forked from this one knows them, and so do those that it starts.
    """
    from spmd_core.time.cost import version

    version.versions()
    for each in (version._SOURCES, version._PROGRAMS):
        _hashes.append(([*each], version.hash_of(version._ROOT, each)))


def _take(hashes: list[tuple[list[str], str]]) -> None:
    version: Any = sys.modules.get("spmd_core.time.cost.version")
    if version and hashes:
        known = {tuple(patterns): value for patterns, value in hashes}
        version.hash_of = lambda root, patterns: known[patterns]


def end() -> None:
    """End all that fork for this process."""
    while _all:
        _all.popitem()[1].end()


def serve() -> None:
    """Import, then fork for each request; returns in what was forked, once it is over."""
    number, module = int(sys.argv[2]), sys.argv[4]
    channel = socket.socket(fileno=number)
    found = find_spec(module)
    is_package = found is not None and found.submodule_search_locations is not None
    main = f"{module}.__main__" if is_package else module
    importlib.import_module(main)
    for name in _LATER.get(module, ()):
        folder, _, last = f"spmd_core.{name}".rpartition(".")
        # by `from`, since the stand-in's are no modules
        exec(f"from {folder} import {last}")
    _take(json.loads(sys.argv[5]))
    while True:
        text, descriptors, _, _ = socket.recv_fds(channel, _READ_BYTES, 64)
        if not text:
            os._exit(0)
        words = json.loads(text)
        if not (between := os.fork()):
            between = os.getpid()
            if os.fork():
                os._exit(0)
            break
        os.waitpid(between, 0)
        for each in descriptors:
            os.close(each)
    while os.getppid() == between:
        time.sleep(0.0002)
    if words["session"]:
        os.setsid()
    channel.send(str(os.getpid()).encode())
    _become(words, descriptors)
    del sys.modules[main]  # it is run anew
    runpy.run_module(words["argv"][0], run_name="__main__", alter_sys=True)


def _become(words: dict[str, Any], descriptors: list[int]) -> None:
    """Take the descriptors, variables, folder and arguments of a new process."""
    top = max(*words["fds"], *descriptors) + 1
    held = [os.dup2(each, top + at) for at, each in enumerate(descriptors)]
    for each, target in zip(held, words["fds"], strict=True):
        os.dup2(each, target)
    low = 3
    for target in sorted({*words["fds"]} - {0, 1, 2}):
        os.closerange(low, target)
        low = target + 1
    os.closerange(low, 65_536)
    os.environ.clear()
    os.environ.update(words["env"])
    os.chdir(words["cwd"])
    time.tzset()
    sys.path.remove(str(ROOT))
    if not words["is_safe"]:
        sys.path[0] = os.getcwd()
    else:
        sys.path.remove("")
    sys.argv = words["argv"]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)

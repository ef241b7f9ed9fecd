"""Processes with simulated devices, in which marked tests run: one for each number of devices."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

_FORCED = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
# Options by which a run chooses its tests, hands them out or reports: the child has one test.
_OTHERWISE: dict[str, Any] = {
    "basetemp": None,
    "collectonly": False,
    "deselect": None,
    "dist": "no",
    "failedfirst": False,
    "htmlpath": None,
    "keyword": "",
    "lf": False,
    "markexpr": "",
    "maxfail": 0,
    "newfirst": False,
    "no_cov": True,
    "numprocesses": None,
    "stepwise": False,
    "tx": [],
    "usepdb": False,
    "xmlpath": None,
}
_TAIL = 1500  # characters of what a child printed last


def has_devices(count: int) -> bool:
    """Whether this process has that many simulated devices, by its environment: JAX is not loaded."""
    forced = _FORCED.search(os.environ.get("XLA_FLAGS", ""))
    number = forced[1] if forced else os.environ.get("JAX_NUM_CPU_DEVICES")
    return number == str(count) and os.environ.get("JAX_PLATFORMS", "cpu") == "cpu"


class Children:
    """The children of one pytest process, by their number of devices."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._by_count: dict[int, _Child] = {}

    def reports(self, item: pytest.Item, count: int) -> Iterator[pytest.TestReport]:
        """Run a test in the child with `count` devices, which collects it itself."""
        if (child := self._by_count.get(count)) is None or not child.is_alive():
            if child is not None:
                child.end()
            child = self._by_count[count] = _Child(self._config, count)
        name = "::".join([str(item.path), *item.nodeid.split("::")[1:]])
        hook, is_reported = self._config.hook, False
        for data in child.run(name):
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            is_reported |= report.when == "call" or report.outcome != "passed"
            yield report
        if not is_reported:
            yield pytest.TestReport(
                nodeid=item.nodeid,
                location=item.location,
                keywords={},
                outcome="failed",
                longrepr=f"the process with {count} devices ended {child.ending()}",
                when="call",
            )

    def end(self) -> None:
        """End the processes."""
        for child in self._by_count.values():
            child.end()


class _Child:
    """A process of `python -m spmd_lab.pytest_child`: it reads the names of tests, and writes their
    reports.
    """

    def __init__(self, config: pytest.Config, count: int) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        (theirs, names), (reports, answers) = os.pipe(), os.pipe()
        command = ["-m", "spmd_lab.pytest_child", str(theirs), str(answers)]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=_environment(count),
            pass_fds=(theirs, answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(theirs)
        os.close(answers)
        self._names, self._reports = open(names, "w"), open(reports)  # noqa: SIM115
        self._send(_set_up(config))

    def _send(self, value: Any) -> None:
        print(json.dumps(value), file=self._names, flush=True)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, name: str) -> Iterator[Any]:
        try:
            self._send(name)
        except BrokenPipeError:
            return
        for line in self._reports:
            if (data := json.loads(line)) is None:
                return
            yield data

    def ending(self) -> str:
        """How it ended, with the tail of what it printed."""
        status = self._process.wait()
        self._log.seek(0)
        return f"with status {status}:\n{self._log.read().decode(errors='replace')[-_TAIL:]}"

    def end(self) -> None:
        for stream in (self._names, self._reports):
            stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _environment(count: int) -> dict[str, str]:
    from spmd_core.lab import simulated_devices

    flags = _FORCED.sub("", os.environ.get("XLA_FLAGS", ""))
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    devices = simulated_devices(count, os.cpu_count() or 1)
    return {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, **devices}


def _set_up(config: pytest.Config) -> dict[str, Any]:
    given = vars(config.option)
    options = {name: value for name, value in given.items() if _is_plain(value)}
    plugins = [*options.get("plugins", ()), "no:terminal", "no:cacheprovider"]
    own = {name: value for name, value in _OTHERWISE.items() if name in given}
    args = ["--rootdir", str(config.rootpath), *config.args]
    args = [*(("-c", str(config.inipath)) if config.inipath else ()), *args]
    return {"args": args, "options": {**options, **own, "plugins": plugins}}


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True

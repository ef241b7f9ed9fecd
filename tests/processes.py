"""Tests in several processes, forked from the one that has imported and collected them: `-n 4`.

A group of tests (tests/conftest.py) stays in one process. Each process takes the next group once it
is done with one, and sends its reports to the first, which prints and counts them.
"""

import os
import pickle
import selectors
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_NUMBER = struct.Struct("!I")


def run(
    session: pytest.Session,
    count: int,
    group: Callable[[str], str],
    begin: Callable[[], None] = lambda: None,
) -> bool:
    """Run what was collected in `count` processes, each of which calls `begin` first. A test of a
    process that ends early has failed, and so have those of its group that it did not begin.
    """
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    assert not (bridge and bridge.backends_are_initialized()), (
        "a module of the tests starts JAX's devices as it is imported: a process with their threads "
        "cannot be forked. Make arrays in the test, or of NumPy"
    )
    groups: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        groups.setdefault(group(item.nodeid), []).append(item)
    queue, end = os.pipe()  # numbers of groups, each read by one process
    os.write(end, b"".join(map(_NUMBER.pack, range(len(groups)))))
    os.close(end)
    work = list(groups.values())
    started = [_Process(session, number, work, queue, begin) for number in range(count)]
    try:
        _follow(session, started)
        while read := os.read(queue, _NUMBER.size):  # all of them have ended early
            for item in work[_NUMBER.unpack(read)[0]]:
                session.config.hook.pytest_runtest_logreport(report=_lost(item))
    finally:
        os.close(queue)
        for each in started:
            each.end()
    return True


def _lost(item: pytest.Item) -> pytest.TestReport:
    """The failure of a test whose process ended before it was done."""
    why = f"its process ended before it had done {item.nodeid}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")


def _follow(session: pytest.Session, running: list["_Process"]) -> None:
    """Report what processes send, until all are done."""
    with selectors.DefaultSelector() as selector:
        for each in running:
            selector.register(each.reports, selectors.EVENT_READ, each)
        while selector.get_map():
            for key, _ in selector.select():
                process: _Process = key.data
                if not (reports := process.received()):
                    selector.unregister(process.reports)
                for report in reports or process.lost():
                    session.config.hook.pytest_runtest_logreport(report=report)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)


class _Process:
    """A process that was forked from this one, as this one sees it."""

    def __init__(self, session, number: int, groups: list[list[pytest.Item]], queue, begin):
        self.number, self._config = number, session.config
        self._left: dict[str, pytest.Item] = {}  # of the group that it is at work on
        self._groups, self._rest, self._is_done = groups, b"", False
        self.reports, sent = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if not (pid := os.fork()):
            os.close(self.reports)
            _work(session, number, groups, queue, sent, begin)
        self.pid = pid
        os.close(sent)

    def received(self) -> list[Any]:
        """The reports that have arrived; none where it has ended."""
        reports: list[Any] = []
        while not (reports or self._is_done) and (read := os.read(self.reports, 2**20)):
            self._rest += read
            reports = list(self._complete())
        return reports

    def _complete(self) -> Iterator[Any]:
        while len(self._rest) >= _NUMBER.size:
            (length,) = _NUMBER.unpack_from(self._rest)
            if len(self._rest) < (after := _NUMBER.size + length):
                return
            data, self._rest = pickle.loads(self._rest[_NUMBER.size : after]), self._rest[after:]
            if data is None:
                self._is_done = True
                return
            if isinstance(data, int):
                self._left = {item.nodeid: item for item in self._groups[data]}
                continue
            hook = self._config.hook.pytest_report_from_serializable
            report = hook(config=self._config, data=data)
            if report.when == "teardown":
                self._left.pop(report.nodeid, None)
            report.process = self.number
            yield report

    def lost(self) -> Iterator[pytest.TestReport]:
        """Failures of the tests that it had not yet done when it ended."""
        return map(_lost, self._left.values())

    def end(self) -> None:
        """Wait for its end; where tests are left early, interrupt it."""
        os.close(self.reports)
        if self._left:
            os.kill(self.pid, signal.SIGINT)
        os.waitpid(self.pid, 0)


class _Sender:
    """Sends reports to the first process."""

    def __init__(self, config: pytest.Config, sent: int) -> None:
        self._config, self._sent = config, sent

    def send(self, data: object) -> None:
        text = pickle.dumps(data)
        text = _NUMBER.pack(len(text)) + text
        while text:
            text = text[os.write(self._sent, text) :]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send what a part of a test came to."""
        hook = self._config.hook.pytest_report_to_serializable
        self.send(hook(config=self._config, report=report))


def _work(session: pytest.Session, number: int, groups, queue, sent: int, begin) -> None:
    """Run groups until there are none; does not return."""
    config = session.config
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    sender = _Sender(config, sent)
    try:
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(sender)
        capture.stop_global_capturing()  # its files are those of all processes
        capture.start_global_capturing()
        factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"process{number}"
        factory._basetemp.mkdir()
        begin()
        while read := os.read(queue, _NUMBER.size):
            sender.send(*_NUMBER.unpack(read))
            items = groups[_NUMBER.unpack(read)[0]]
            for item, after in zip(items, [*items[1:], None], strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        sender.send(None)
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
    except BaseException:
        capture.stop_global_capturing()
        traceback.print_exc()
    finally:
        os._exit(0)

"""A pytest process that runs the tests that another one names: `python -m spmd_lab.pytest_child
NAMES REPORTS`, two descriptors of JSON lines.
"""

import json
import select
import sys
from io import FileIO
from typing import Any, TextIO

import pytest

IDLE_S = 120.0  # without a test, after which it ends


class _Runner:
    def __init__(self, config: pytest.Config, names: FileIO, reports: TextIO) -> None:
        self._config, self._names, self._reports = config, names, reports

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Collect nothing yet."""
        session.items, session.testscollected = [], 0
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run tests until there are no more names, or none came for a while."""
        while select.select([self._names], [], [], IDLE_S)[0] and (line := self._names.readline()):
            for item in session.perform_collect([json.loads(line)]):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            self._send(None)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        hook = self._config.hook
        self._send(hook.pytest_report_to_serializable(config=self._config, report=report))

    def _send(self, value: Any) -> None:
        print(json.dumps(value, default=str), file=self._reports, flush=True)


def main() -> None:
    """Run the tests that are named."""
    # without a buffer: `select` knows nothing of a name that waits in one
    names = open(int(sys.argv[1]), "rb", buffering=0)  # noqa: SIM115
    reports = open(int(sys.argv[2]), "w")  # noqa: SIM115
    given = json.loads(names.readline())
    config = pytest.Config.fromdictargs(given["options"], given["args"])
    config.pluginmanager.register(_Runner(config, names, reports))
    config.hook.pytest_cmdline_main(config=config)


if __name__ == "__main__":
    main()

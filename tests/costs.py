"""What tests cost: CPU seconds, those of the processes that they started, seconds in which neither
worked, and how many processes of which kind. A run with `-p tests.costs` prints them by folder, the
files that cost most, and when each process of the tests had nothing left to do.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

_started: Counter[str] = Counter()
_begun: dict[str, tuple[float, float, float, Counter[str]]] = {}
_files: dict[str, Counter[str]] = defaultdict(Counter)
_last: dict[str, float] = {}


def _heard(event, values):
    if event == "subprocess.Popen" and values[1]:
        kind = Path(os.fsdecode(values[1][0])).name
        _started["python" if kind.startswith("python") else kind] += 1


sys.addaudithook(_heard)


def _now() -> tuple[float, float, float, Counter[str]]:
    user, system, users, systems, _ = os.times()
    return user + system, users + systems, time.monotonic(), Counter(_started)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid):
    """A test begins, in the process that runs it."""
    _begun[nodeid] = _now()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Its last report takes along what it cost: `user_properties` are sent to the first process."""
    if call.when == "teardown" and item.nodeid in _begun:
        here, children, clock, started = _begun.pop(item.nodeid)
        now = _now()
        spent = {"here": now[0] - here, "children": now[1] - children}
        spent["idle"] = max(now[2] - clock - sum(spent.values()), 0.0)
        item.user_properties.append(("costs", spent | dict(now[3] - started)))
    return (yield)


def pytest_runtest_logreport(report):
    """Add up what a test cost."""
    if report.when == "teardown" and (costs := dict(report.user_properties).get("costs")):
        _files[report.nodeid.partition("::")[0]].update({"tests": 1, **costs})
        node = getattr(report, "node", None)
        _last[node.gateway.id if node else "here"] = time.monotonic()


def _line(name: str, costs: Counter[str]) -> str:
    times = ", ".join(f"{costs[each]:.0f} s {each}" for each in ("here", "children", "idle"))
    kinds = sorted(set(costs) - {"here", "children", "idle", "tests"})
    return f"{name}: {costs['tests']} tests, {times}" + "".join(
        f", {costs[each]} {each}" for each in kinds
    )


def pytest_terminal_summary(terminalreporter):
    """Print the sums."""
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for file, costs in _files.items():
        folders[Path(file).parts[1]].update(costs)
    for title, sums in (("folders", folders), ("files", _files)):
        terminalreporter.section(f"costs of {title}")
        for name in sorted(sums, key=lambda each: -sums[each]["here"] - sums[each]["children"]):
            if title == "folders" or sums[name]["here"] + sums[name]["children"] > 3:
                terminalreporter.write_line(_line(name, sums[name]))
    if _last:
        end = max(_last.values())
        early = ", ".join(f"{name} {end - at:.0f} s" for name, at in sorted(_last.items()))
        terminalreporter.write_line(f"before the end had nothing left to do: {early}")

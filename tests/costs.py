"""What tests cost: CPU seconds, those of the processes that they started, seconds in which neither
worked, and how many processes of which kind. A browser's own are not counted: they take 4 s a test.
A run with `-p tests.costs` prints them by folder, the files and tests that cost most, and when each
process of the tests had nothing left to do.
"""

import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

LEAST_S = 3.0  # of a file, and of a test
_started: Counter[str] = Counter()
_begun: dict[str, tuple[float, float, float, Counter[str]]] = {}
_tests: dict[str, Counter[str]] = {}
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
        _tests[report.nodeid] = Counter({"tests": 1, **costs})
        _last[str(getattr(report, "process", "here"))] = time.monotonic()


def _spent(costs: Counter[str]) -> float:
    return costs["here"] + costs["children"]


def _line(name: str, costs: Counter[str]) -> str:
    times = ", ".join(f"{costs[each]:.0f} s {each}" for each in ("here", "children", "idle"))
    kinds = sorted(set(costs) - {"here", "children", "idle", "tests"})
    return f"{name}: {costs['tests']} tests, {times}" + "".join(
        f", {costs[each]} {each}" for each in kinds
    )


def pytest_terminal_summary(terminalreporter):
    """Print the sums."""
    sums: dict[str, dict[str, Counter[str]]] = {"folders": {}, "files": {}, "tests": _tests}
    for name, costs in _tests.items():
        file = name.partition("::")[0]
        for title, key in (("folders", Path(file).parts[1]), ("files", file)):
            sums[title].setdefault(key, Counter()).update(costs)
    for title, found in sums.items():
        terminalreporter.section(f"costs of {title}")
        for name in sorted(found, key=lambda each: -_spent(found[each])):
            if title == "folders" or _spent(found[name]) > LEAST_S:
                terminalreporter.write_line(_line(name, found[name]))
    if _last:
        end = max(_last.values())
        early = ", ".join(f"{name} {end - at:.0f} s" for name, at in sorted(_last.items()))
        terminalreporter.write_line(f"before the end had nothing left to do: {early}")

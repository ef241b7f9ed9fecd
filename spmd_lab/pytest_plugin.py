"""The pytest plugin: the fixture `spmd`, goldens, and tests on more devices than are here.

JAX and the core load when the fixture is used, not before.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spmd_core.own import Spmd

MARK = "spmd(devices=N): runs the test in a process with N simulated devices"
SLOW = "slow: compiles for a target that is not attached"
_CHILDREN = pytest.StashKey[Any]()
_TARGETS = ("tpu:", "gpu:")
_NOTE = "spmd"  # the name of a property of a test's report


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--spmd-update`."""
    parser.getgroup("spmd-lab").addoption(
        "--spmd-update", action="store_true", help="write the goldens of `spmd` tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line("markers", MARK)
    config.addinivalue_line("markers", SLOW)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as slow whose source names a target."""
    for item in items:
        code = getattr(getattr(item, "function", None), "__code__", None)
        if code is not None and "spmd" in getattr(item, "fixturenames", ()):
            names = (each for each in code.co_consts if isinstance(each, str))
            if any(name.startswith(_TARGETS) for name in names):
                item.add_marker("slow")


@pytest.fixture
def spmd(request: pytest.FixtureRequest) -> "Spmd":
    """Expectations of steps: `spmd.expect(step)(*args).has_no("all-gather", over="tensor")`."""
    from spmd_core.own import Spmd, goldens_of

    properties = request.node.user_properties
    return Spmd(
        goldens_of(
            request.node.path,
            request.node.nodeid,
            request.config.option.spmd_update,
            lambda words: properties.append((_NOTE, words)),
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with `@pytest.mark.spmd(devices=8)` in a process that has so many devices."""
    mark = item.get_closest_marker("spmd")
    if mark is None or "devices" not in mark.kwargs:
        return None
    from spmd_lab.pytest_children import Children, has_devices

    count = mark.kwargs["devices"]
    if has_devices(count):
        return None
    children = item.config.stash.setdefault(_CHILDREN, Children(item.config))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in children.reports(item, count):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the processes that were started."""
    if (children := session.config.stash.get(_CHILDREN, None)) is not None:
        children.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
    """End the traceback of a refusal at its caller's line, unless pytest has `--full-trace`; add to
    a failure for lack of devices how a test has more.
    """
    if call.excinfo is not None and not item.config.option.fulltrace:
        _end_at_caller(call.excinfo.value)
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if "spmd" in getattr(item, "fixturenames", ()) and "umber of devices" in str(error):
        report.sections.append(("spmd", _MORE_DEVICES))
    return report


def _end_at_caller(error: BaseException) -> None:
    base = sys.modules.get("spmd_core.base")  # not loaded: it is none of its refusals
    if base is None or not isinstance(error, base.LabError):
        return
    error.__cause__, error.__suppress_context__ = None, True
    last, each = None, error.__traceback__
    while each is not None:
        if str(each.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _OWN:
            last = each
        each = each.tb_next
    if last is not None:
        last.tb_next = None


_OWN = ("spmd_core", "spmd_lab")
_MORE_DEVICES = (
    "A test has more devices than are here in three ways: mark it `@pytest.mark.spmd(devices=8)`; "
    "pass arguments over a `jax.sharding.AbstractMesh`; or give the mesh axes of size 1, and their "
    "sizes by `spmd.expect(step, mesh={…})`."
)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the goldens that were written, and what was renamed since."""
    notes = dict.fromkeys(_notes(terminalreporter))
    if notes:
        terminalreporter.section("spmd")
        for words in notes:
            terminalreporter.write_line(words)


def _notes(terminalreporter: Any) -> Iterator[str]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, words in getattr(report, "user_properties", ()):
                if name == _NOTE:
                    yield words

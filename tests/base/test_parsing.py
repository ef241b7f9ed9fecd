"""Sources are parsed by one thread at a time: CPython 3.11 is not safe there."""

import ast
import gc
import sys
import threading

import pytest

from spmd_core.base import parsed
from tests.layers import ROOT, source_files

SOURCE = "\n".join(f"def f{n}(x):\n    return [x + {n} * (y - 1) for y in x]" for n in range(200))


@pytest.fixture
def interrupted():
    """Threads change within a parse: each collection of garbage runs Python code."""
    every, threshold = sys.getswitchinterval(), gc.get_threshold()

    def collected(*_: object) -> None:
        sum(range(50))

    gc.callbacks.append(collected)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(every)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(collected)


def failures(parse) -> list[str]:
    failed = []

    def often() -> None:
        for _ in range(20):
            try:
                parse(SOURCE)
            except SystemError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_several_threads_parse_without_failure(interrupted):
    assert failures(parsed) == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="CPython 3.12 counts for each thread")
def test_without_the_lock_they_fail(interrupted):
    assert any(
        "recursion depth mismatch" in each for _ in range(10) for each in failures(ast.parse)
    )


def test_nothing_else_parses():
    """Nor does Streamlit, whose magic parses each screen."""
    others = [
        str(path.relative_to(ROOT))
        for path in source_files()
        if "ast.parse(" in path.read_text("utf-8") and path.name != "parsing.py"
    ]
    assert others == []
    assert "magicEnabled = false" in (ROOT / ".streamlit" / "config.toml").read_text("utf-8")

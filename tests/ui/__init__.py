"""Screens as a link opens them, without a browser, and what is read on them."""

import re
import sys
from collections.abc import Callable
from functools import cache

from streamlit.components.v2 import manifest_scanner
from streamlit.elements.widgets import button
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, app_test, local_script_runner

from tests.labs import ROOT

# Each AppTest asks every installed package for components: half of what a screen takes.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
# A server compiles each page once; an AppTest compiles its pages at each run.
app_test.ScriptCache = local_script_runner.ScriptCache = cache(ScriptCache)
# Twenty links of the menu ask for it; this folder's is absolute.
button.get_main_script_directory = cache(button.get_main_script_directory)  # type: ignore[attr-defined]


def _wait(runner, timeout: float = 3) -> None:
    """Waits for the end of a screen's thread. AppTest looks a thousand times a second, and keeps
    the screen from its work each time.
    """
    runner._script_thread.join(timeout)
    if not runner.script_stopped():
        runner.request_stop()
        runner.join()
        raise RuntimeError(f"AppTest script run timed out after {timeout}(s)")


local_script_runner.require_widgets_deltas = _wait


def forget() -> None:
    """Screens keep what they read of a run by its id."""
    for clear in _clears(tuple(each for each in [*sys.modules] if each.startswith("spmd_lab.ui."))):
        clear()


@cache
def _clears(modules: tuple[str, ...]) -> list[Callable[[], None]]:
    """Returns the functions that clear the caches of these modules: a screen has thousands of names."""
    return [
        value.cache_clear
        for name in modules
        for value in vars(sys.modules[name]).values()
        if hasattr(value, "cache_clear") and value.__module__.startswith("spmd_lab")
    ]


def opened(page: str | None = None, **query: str | list[str]) -> AppTest:
    """The screen of a page (None: the first one) with these fields in its address."""
    screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
    if page:
        screen.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        screen.query_params[name] = value
    screen.run()
    assert not screen.exception
    return screen


def said(screen: AppTest) -> str:
    """Everything that a reader reads, without the escapes of Markdown."""
    assert not screen.exception
    parts = (*screen.markdown, *screen.caption, *screen.subheader)
    notes = (*screen.info, *screen.warning, *screen.error)
    return read("\n".join(part.value for part in (*parts, *notes)))


def read(markdown: str) -> str:
    """Markdown as it is read: without escapes, and names without their markers."""
    chip = r":gray-background\[(?::color\[.\]\{[^}]*\}\xa0)*(.*?)(?<!\\)\]"
    return re.sub(chip, lambda at: at[1].replace("\xa0", " "), markdown).replace("\\", "")


def errors(screen: AppTest) -> str:
    """The errors that it shows."""
    assert not screen.exception
    return " ".join(error.value.replace("\\", "") for error in screen.error)

"""What holds the screens up: the handle to the Lab, the menu's pages, and the settings of the
server.
"""

import sys
import tomllib
from pathlib import Path

import streamlit as st
from streamlit.testing.v1 import AppTest

from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.shell import PAGES

ROOT = Path(__file__).resolve().parents[2]


def test_a_viewer_who_clears_the_caches_leaves_the_lab_alone(data_folder):
    first = lab()
    st.cache_resource.clear()
    st.cache_data.clear()
    assert lab() is first
    assert find("20200101-000000-abcdef") is None


def test_every_screen_is_in_the_menu():
    scripts = {str(path.relative_to(ROOT)) for path in (ROOT / "pages").glob("*.py")}
    assert {script for script, _, _ in PAGES.values()} == scripts | {"home.py"}


def test_screens_have_no_functions_and_stay_short():
    for script, _, _ in PAGES.values():
        text = (ROOT / script).read_text()
        assert text.count("\n") < 120
        assert not any(
            line.lstrip().startswith(("def ", "class ", "async def ")) for line in text.splitlines()
        ), script


def test_the_server_is_closed_to_others_by_default():
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    server = settings["server"]
    assert server["address"] == "127.0.0.1"
    assert server["enableXsrfProtection"] is server["enableCORS"] is True
    assert server["enableStaticServing"] is server["showEmailPrompt"] is False
    assert server["fileWatcherType"] == "none"
    assert settings["browser"]["gatherUsageStats"] is False
    assert settings["client"]["showSidebarNavigation"] is False


class OldPython(tuple):
    """`sys.version_info` as Python 3.10 has it."""

    major, minor, micro, releaselevel, serial = 3, 10, 13, "final", 0


def test_an_old_python_is_told_so_on_screen(monkeypatch):
    for name in [
        name for name in sys.modules if name == "spmd_lab.ui" or name.startswith("spmd_lab.ui.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    screen = AppTest.from_file("../../home.py", default_timeout=30)
    monkeypatch.setattr(sys, "version_info", OldPython((3, 10, 13, "final", 0)))
    screen.run()
    monkeypatch.undo()
    assert [error.value[:67] for error in screen.error] == [
        "SPMD Lab needs Python 3.11 or newer, and this is 3.10: get one with"
    ]
    assert not screen.exception

"""An update under a running server is noticed, and each screen and failure says to start again."""

import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from spmd_lab.ui.entrance import version
from spmd_lab.ui.entrance.version import START_AGAIN, Source
from tests.ui import opened


@pytest.fixture
def root(tmp_path):
    for name in (
        "app.py",
        "home.py",
        "pages/search.py",
        "spmd_lab/ui/lab.py",
        "spmd_core/lab/store/store.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    return tmp_path


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "2\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda root: _append(root / "home.py"),
        lambda root: _append(root / "spmd_core/lab/store/store.py"),
        lambda root: (root / "spmd_lab/ui/new.py").write_text(""),
        lambda root: (root / "pages/search.py").unlink(),
        lambda root: (root / "spmd_lab/ui/lab.py").rename(root / "spmd_lab/ui/labs.py"),
    ],
)
def test_an_update_is_noticed(root, change):
    source = Source(root)
    assert not source.has_changed(now=True)
    change(root)
    assert source.has_changed(now=True) and source.has_changed()


def test_a_file_that_was_only_touched_or_put_back_is_none(root):
    source = Source(root)
    os.utime(root / "home.py", (1, 1))
    (root / "notes.txt").touch()
    assert not source.has_changed(now=True)
    _append(root / "home.py")
    assert source.has_changed(now=True)
    (root / "home.py").write_text("1\n")
    assert not source.has_changed(now=True)


def test_files_are_looked_at_now_and_then(root, monkeypatch):
    source = Source(root)
    _append(root / "home.py")
    assert not source.has_changed(), "a look of a moment ago counts"
    monkeypatch.setattr(version.time, "monotonic", lambda: 1e12)
    assert source.has_changed()


def test_each_screen_and_failure_says_so(data_folder, monkeypatch):
    class Changed:
        def has_changed(self, now=False):
            return True

    monkeypatch.setattr(version, "source", Changed())
    for screen in (None, "history", "recipes"):
        assert START_AGAIN in [warning.value for warning in opened(screen).warning]

    def failure():
        from app import reported

        assert reported(ImportError("cannot import name 'new' from 'spmd_lab.ui.lab'"))

    page = AppTest.from_function(failure).run()
    assert [error.value for error in page.error] == [START_AGAIN]

"""Files that commands write: what may be replaced, and what is refused before anything runs."""

import os

import pytest

from spmd_core.base import RequestError
from spmd_core.commands.output import check_output, write_output


def refused(path, force=False):
    with pytest.raises(RequestError) as raised:
        check_output("--trace", str(path), force)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_new_file_is_written_whole_and_ours_may_be_replaced(tmp_path):
    file = tmp_path / "t.json"
    for text in ('{"displayTimeUnit":"ms","traceEvents":[]}', '{"displayTimeUnit":"ms"}'):
        check_output("--trace", str(file), force=False)
        write_output("--trace", str(file), text)
        assert file.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["t.json"]


def test_what_somebody_else_wrote_is_replaced_only_by_force(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert "holds something else: name a new file, or add --force" in refused(file)
    check_output("--trace", str(file), force=True)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_plain_file_is_never_written(tmp_path, force):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "loop", "pipe", "."):
        assert "is not a plain file: name a new file" in refused(tmp_path / name, force)
    assert "is not a plain file" in refused("/dev/full", force)
    assert "names no file: name one" in refused("-", force)
    for path in (tmp_path / ("x" * 300), tmp_path / "no" / "t.json", f"{tmp_path}/\0"):
        assert "cannot be written (" in refused(path, force)
    assert (tmp_path / "target").read_text() == "mine"


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "t.json"
    file.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RequestError, match="cannot be written \\(no space left on device\\)"):
        write_output("--trace", str(file), "new")
    assert file.read_text() == "old" and len(list(tmp_path.iterdir())) == 1

"""The test command: tests that fail beside the others alone do not fail the check."""

import subprocess
import sys

from tests import check


def test_few_tests_that_pass_alone_do_not_fail_the_check_and_many_do(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    command = (sys.executable, "-m", "pytest", "-n", "0", "-o", f"{check.CACHE}kept")
    beside = tmp_path / "beside"
    for count in (check.MOST_ALONE, check.MOST_ALONE + 1):
        beside.touch()
        (tmp_path / "test_it.py").write_text(
            "import pathlib, pytest\n"
            f"@pytest.mark.parametrize('number', range({count}))\n"
            "def test_it(number):\n    assert not pathlib.Path('beside').exists()\n"
        )
        assert subprocess.run(command, cwd=tmp_path).returncode
        if count == check.MOST_ALONE:
            assert not check.pass_alone(command), "they fail alone too"
        beside.unlink()
        assert check.pass_alone(command) == (count == check.MOST_ALONE)
    assert not check.pass_alone((sys.executable, "-m", "pyright"))

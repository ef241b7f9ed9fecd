"""Which sources a table of shardings quotes."""

from spmd_core.engine.lower import execute
from spmd_core.engine.shardings import source_lines


def test_a_name_of_an_exported_program_quotes_no_file_below_the_folder(tmp_path, monkeypatch):
    secret = tmp_path / ".streamlit" / "secrets.toml"
    secret.parent.mkdir()
    secret.write_text('cookie_secret = "hidden"\n')
    monkeypatch.chdir(tmp_path)
    assert source_lines(".streamlit/secrets.toml") == []
    assert source_lines("../secrets.toml") == []


def test_a_composed_program_and_a_file_of_ones_own_are_quoted(tmp_path):
    execute("x = 1\n", "composed.py")
    assert source_lines("composed.py") == ["x = 1\n"]
    own = tmp_path / "own.py"
    own.write_text("y = 2\n")
    assert source_lines(str(own)) == ["y = 2\n"]

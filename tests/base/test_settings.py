"""Where the data folder is, as the environment says."""

from pathlib import Path

import pytest

from spmd_core.base import RequestError, default_data_folder, own_path


def test_a_home_that_nobody_knows_ends_in_a_sentence(monkeypatch):
    """Containers run programs as users without a name."""

    def unknown(*_):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("platformdirs.user_data_dir", unknown)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(RequestError, match="is in a home folder that is not known here: set SPMD"):
        default_data_folder({})


def test_a_home_is_that_of_the_user(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert own_path("SPMD_LAB_DATA", "~/data") == Path("/home/ann/data")
    with pytest.raises(RequestError, match=r"SPMD_LAB_DATA='~nobody-here/x' is in a home folder"):
        own_path("SPMD_LAB_DATA", "~nobody-here/x")

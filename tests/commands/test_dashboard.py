"""The screens as an installed wheel serves them: from any folder, on 127.0.0.1 alone."""

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest

from spmd_core.base import RequestError
from spmd_core.commands.owner import dashboard

ROOT = Path(__file__).resolve().parents[2]
PACKED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The folders of a wheel, as pyproject.toml packs them."""
    site = tmp_path / "site"
    for name in PACKED["wheel"]["packages"]:
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    for source, target in PACKED["wheel"]["force-include"].items():
        (site / target).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, site / target)
    monkeypatch.setattr(dashboard, "ROOT", site)
    return site


def test_secrets_are_never_sought_in_the_installed_package(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = dashboard.command(8740)
    sought = [words[at + 1] for at, word in enumerate(words) if word == "--secrets.files"]
    assert sought == [
        str(Path.home() / ".streamlit/secrets.toml"),
        str(tmp_path / ".streamlit/secrets.toml"),
    ]
    assert words[-2:] == ["--server.port", "8740"]


def test_a_clone_serves_its_own_screens_as_ever():
    assert dashboard.command()[1:] == ["-m", "streamlit", "run", str(ROOT / "app.py")]


def test_it_listens_on_this_machine_alone_from_any_folder(installed, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    port = _free_port()
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); sys.argv[0] = 'spmd-lab'\n"
        "from spmd_core.__main__ import main; main(sys.argv[1:])"
    )
    environ = os.environ | {"PYTHONPATH": str(installed), "SPMD_LAB_DATA": str(tmp_path / "data")}
    words = [sys.executable, "-c", program, "dashboard", "--port", str(port)]
    with subprocess.Popen(
        words, cwd=elsewhere, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            assert _text(f"http://127.0.0.1:{port}/_stcore/health") == "ok"
            assert _listening(port) == {"0100007F"}  # 127.0.0.1, as Linux writes it
            assert not (elsewhere / ".streamlit").exists()
        finally:
            server.terminate()
            server.wait(20)


def test_without_streamlit_a_sentence_names_the_extra(monkeypatch):
    monkeypatch.setattr(dashboard, "package_version", lambda name: None)
    with pytest.raises(RequestError, match=r"pip install 'spmd-lab\[dashboard\]'"):
        dashboard.main(None)  # pyright: ignore[reportArgumentType]


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _text(url):
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def _listening(port):
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        row[1].split(":")[0]
        for row in rows
        if row[3] == "0A" and int(row[1].split(":")[1], 16) == port
    }

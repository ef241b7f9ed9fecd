"""Serves the screens: of a clone, or of an installed wheel, from any folder."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from spmd_core.base import package_version, refuse

ROOT = Path(__file__).resolve().parents[3]
ARGUMENTS = {
    "--port": {"type": int, "metavar": "N", "help": "the port that it listens on (default 8501)"},
}


def main(arguments: Namespace) -> int:
    """Become the process that serves them."""
    if package_version("streamlit") is None:
        fix = "run `pip install 'spmd-lab[dashboard]'`, with the file or URL that you installed"
        raise refuse("the dashboard", "needs Streamlit, which is not installed", fix)
    sys.stdout.flush()
    os.execv(sys.executable, command(arguments.port))


def command(port: int | None = None) -> list[str]:
    """The command that serves the screens. Its configuration, 127.0.0.1 among it, is beside app.py."""
    app = next(at for at in (ROOT / "app.py", ROOT / "spmd_lab/served/app.py") if at.exists())
    words = [sys.executable, "-m", "streamlit", "run", str(app)]
    if app.parent != ROOT:  # an installed package is no place for secrets
        for folder in (Path.home(), Path.cwd()):
            words += ["--secrets.files", str(folder / ".streamlit" / "secrets.toml")]
    return [*words, *(["--server.port", str(port)] if port else [])]

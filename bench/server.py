"""A dashboard to measure and test: the real `streamlit run app.py` on a data folder of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Debian's; none is downloaded. The one that has no window takes a sixth less of a core.
BROWSERS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
CHROMIUM = next((each for each in BROWSERS if each.exists()), BROWSERS[0])


class Server:
    """One Streamlit process; a restart keeps the port and the data folder."""

    def __init__(self, folder: Path, *options: str, script: str = "app.py"):
        self.folder, self.options, self.script = folder, options, script
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environ = {
            **os.environ,
            "SPMD_LAB_DATA": str(self.folder / "data"),
            "SPMD_LAB_TARGET": "cpu:8",
        }
        command = [
            sys.executable,
            "-m",
            "streamlit",
            "run",
            self.script,
            "--server.port",
            str(self.port),
            *self.options,
        ]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 180
        while not self._healthy():
            assert time.monotonic() < deadline and self.process.poll() is None, self.log[-4000:]
            time.sleep(0.05)

    def stop(self) -> None:
        """End it as a user does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def kill(self) -> None:
        """End it as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def restart(self) -> None:
        """Stop it and start it on the same port and folder."""
        self.stop()
        self.start()

    @property
    def log(self) -> str:
        """What it has written."""
        return (self.folder / "server.log").read_text()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            with error:
                return error.code in (401, 503)  # there, and closed
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

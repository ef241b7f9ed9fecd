"""A dashboard to test with: the real `streamlit run app.py` on a data folder of its own, and pages
of a real browser on it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from playwright.sync_api import Error, Page, expect

ROOT = Path(__file__).resolve().parents[2]
SCRIPT_DONE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
PATIENCE_MS = 90_000  # a machine with other work beside takes many times as long


class Server:
    """One Streamlit process; a restart keeps the port and the data folder."""

    def __init__(self, folder: Path, *options: str, script: str = "app.py"):
        self.folder, self.options, self.script = folder, options, script
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
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
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def log(self) -> str:
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


def settled(page: Page) -> Page:
    """The page, once its script has run to the end."""
    page.wait_for_selector(SCRIPT_DONE, timeout=PATIENCE_MS)
    return page


def visit(page: Page, url: str) -> Page:
    """Open an address and wait until the screen is drawn."""
    page.goto(url)
    # what a screen draws last
    page.get_by_role("button", name="Share").wait_for(timeout=PATIENCE_MS)
    return settled(page)


def answered(page: Page, timeout_s: float = 60.0) -> str:
    """The headline of the finished run that the page shows, once everything below it is drawn."""
    page.get_by_role("tab", name="Machine").wait_for(timeout=timeout_s * 1000)
    page.get_by_test_id("stTabs").get_by_test_id("stCode").first.wait_for()
    settled(page)
    return page.locator(".st-key-answer h3").inner_text()


def press_cancel(page: Page) -> None:
    """Press Cancel on a screen that follows a run, again while the run goes on, as a user does.

    Each look draws the button anew: on a busy machine the mouse would wait for it to stand still,
    and
    a press between two looks can be lost.
    """
    button = page.get_by_role("button", name="Cancel")
    button.first.wait_for()
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while button.count() and time.monotonic() < deadline:
        with contextlib.suppress(Error):  # it has just gone
            button.first.evaluate("button => button.click()", timeout=5_000)
        with contextlib.suppress(Error):
            button.first.wait_for(state="detached", timeout=10_000)


def fields_say(page: Page, **values: str) -> None:
    """The fields of these labels come to hold these values; `_` stands for a space."""
    for label, value in values.items():
        expect(page.get_by_label(label.replace("_", " "), exact=True).first).to_have_value(value)


def screen_text(page: Page) -> str:
    """What the user reads in the main part, with spaces as they are on screen."""
    return page.get_by_test_id("stMain").inner_text().replace("\u00a0", " ")

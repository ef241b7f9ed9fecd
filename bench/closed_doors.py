"""Twelve states in which somebody may leave secrets.toml behind, at the start of a dashboard and
while it runs: whether a member gets anything but a sentence. With a stand-in for Authlib.

    python -m bench.closed_doors [--json]
"""

import asyncio
import os
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import websockets

from bench.dashboard import viewer
from bench.figures import Asked, Figures, measure
from bench.login_states import ANN, CLOSED, leave, set_up, signed
from bench.server import Server

PATHS = ("/", "/history", "/compare?experiment=1.abc", "/_stcore/health", "/media/a.csv")


def answer(server: Server, path: str) -> tuple[int, str]:
    """Status and text of a path."""
    try:
        with urllib.request.urlopen(server.url + path, timeout=60) as found:
            return found.status, found.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode("utf-8", "replace")


def is_closed(server: Server, words: str) -> bool:
    """Whether each path answers with the sentence that has these words, and no session opens."""
    for path in PATHS:
        status, text = answer(server, path)
        if status != 503 or words not in text or text.count("\n") != 1:
            return False
    return not asyncio.run(opens(server))


async def opens(server: Server) -> bool:
    """Whether a session of a member opens, and its screen is drawn."""
    try:
        async with viewer(server, "", "", login=signed(age_s=0)) as session:
            await session.rerun()
            return True
    except (websockets.exceptions.WebSocketException, OSError):
        return False


async def ends(server: Server, secrets: Path, state: str) -> bool:
    """Whether a session that is open ends with its next request."""
    async with viewer(server, "", "", login=signed(age_s=0)) as session:
        await session.rerun()
        leave(secrets, CLOSED[state][0])
        try:
            await session.rerun()
        except websockets.exceptions.ConnectionClosed:
            return True
        return False


def standin(folder: Path) -> None:
    """Packages by the names of those that a login needs."""
    for name in ("authlib", "httpx"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('__version__ = "1.6.0"\n')


def main(asked: Asked, figures: Figures) -> None:
    started, running, ended = [], [], []
    with tempfile.TemporaryDirectory(prefix="spmd-lab-doors-") as name:
        folder, secrets = Path(name), Path(name) / "secrets.toml"
        standin(folder / "packages")
        os.environ["PYTHONPATH"] = str(folder / "packages")
        os.environ["SPMD_LAB_MEMBERS"] = str(ANN["email"])
        server = Server(folder, "--secrets.files", str(secrets))
        set_up(secrets)
        server.start()
        time.sleep(1.0)  # a login of the second in which it was set up would be over
        figures.add("a login that works is served", asyncio.run(opens(server)), least=1)
        for state, (_, words) in CLOSED.items():
            set_up(secrets)
            if asyncio.run(ends(server, secrets, state)):
                ended.append(state)
            if is_closed(server, words):
                running.append(state)
        server.stop()
        for state, (make, words) in CLOSED.items():
            leave(secrets, make)
            server.start()
            if is_closed(server, words):
                started.append(state)
            server.stop()
    for what, found in (
        ("states closed at start", started),
        ("states closed while it runs", running),
        ("open sessions that end", ended),
    ):
        note = ", ".join(sorted(CLOSED.keys() - set(found)))
        figures.add(what, len(found), f"of {len(CLOSED)}", least=len(CLOSED), note=note)


if __name__ == "__main__":
    measure(main, __doc__)

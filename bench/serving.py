"""The recipe of docs/serving.md with a real Caddy: two dashboards over one data folder, what passes
through the proxy, what happens when one of them is killed; and with `--viewers` the load.

    python -m bench.serving [--viewers 100,250] [--rounds 10] [--json]
"""

import asyncio
import http.client
import os
import re
import secrets
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import websockets
from playwright.sync_api import sync_playwright

from bench.browser import PATIENCE_MS, visit
from bench.dashboard import PATIENCE_S, Viewer, viewer
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, ROOT, Server
from spmd_core.lab import Lab, examples

PROCESSES, COOKIE, REST_S, TAKEN_OVER_S = 2, "spmd_lab", 1.0, 30.0
MOST_P50_MS = {100: 2000.0}


def caddyfile(ports: list[int], port: int) -> str:
    """The Caddyfile of the documentation, on a port of this machine."""
    text = (ROOT / "docs/serving.md").read_text("utf-8")
    found = re.search(r"```\n(lab\.example\.com \{.*?)```", text, re.DOTALL)
    assert found, "docs/serving.md has no Caddyfile"
    upstreams = " ".join(f"127.0.0.1:{each}" for each in ports)
    config = found[1].replace("lab.example.com", f"http://127.0.0.1:{port}")
    config = config.replace("127.0.0.1:8501 127.0.0.1:8502", upstreams)
    return "{\n    admin off\n    auto_https off\n}\n" + config


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, list[Server]]]:
    """The port of a Caddy, and the dashboards behind it; their folder has the first results."""
    os.environ |= {
        "SPMD_LAB_PROXY": "127.0.0.1",
        "STREAMLIT_SERVER_COOKIE_SECRET": secrets.token_hex(32),
    }
    servers = [Server(folder) for _ in range(PROCESSES)]
    for server in servers:
        server.start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "Caddyfile"
    config.write_text(caddyfile([each.port for each in servers], port), "utf-8")
    command = ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]
    environ = os.environ | {"HOME": str(folder)}
    with (folder / "caddy.log").open("wb") as log:
        caddy = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
    try:
        deadline = time.monotonic() + 30
        while not cookie_of(port):
            assert time.monotonic() < deadline, (folder / "caddy.log").read_text()[-2000:]
            time.sleep(0.2)
        yield port, servers
    finally:
        caddy.terminate()
        caddy.wait(30)
        for server in servers:
            if server.process and server.process.poll() is None:
                server.stop()


def cookie_of(port: int, sent: str = "") -> str:
    """The proxy's cookie that a new visitor gets, or who sent one keeps; empty without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Cookie": f"{COOKIE}={sent}"} if sent else {}
        connection.request("GET", "/_stcore/health", headers=headers)
        answer = connection.getresponse()
        answer.read()
        set_ = answer.getheader("Set-Cookie") or ""
        named = re.search(rf"{COOKIE}=([^;]+)", set_)
        return (named[1] if named else sent) if answer.status == 200 else ""
    except OSError:
        return ""
    finally:
        connection.close()


def in_a_browser(port: int, folder: Path, figures: Figures) -> None:
    """Open, upload and download through the proxy."""
    lab = Lab.open(folder / "other", serve=False)
    runs = lab.archives.take_examples()
    archive = folder / "handed.spmdlab"
    with archive.open("wb") as file:
        lab.archives.export(runs[:2], file)
    lab.close()
    url = f"http://127.0.0.1:{port}"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        visit(page, f"{url}/r/{examples.run_ids()[0]}")
        figures.add("short links that open no run", float("/compare" not in page.url), most=0)
        visit(page, f"{url}/history?runs={runs[0]}")
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Report").first.click()
        size = Path(downloading.value.path()).stat().st_size
        figures.add("a report through the proxy", size / 1024, "KiB", least=10)
        page.get_by_role("button", name="Import").click()
        page.locator('input[type="file"]').set_input_files(str(archive))
        taken = page.get_by_text(re.compile("2 here before|2 imported"))
        taken.or_(page.get_by_text("Nothing was imported")).first.wait_for()
        figures.add("archives that passed the proxy", taken.count(), least=1)
        browser.close()


def after_a_kill(port: int, servers: list[Server], folder: Path, figures: Figures) -> None:
    """Kill the process that works the queue: who takes over, and whether visitors are served. Each
    process opens the folder for its first visitor.
    """
    for server in servers:
        asyncio.run(first_visit(server))
    lab = Lab.open(folder / "data", serve=False)
    pids = {server.process.pid: server for server in servers if server.process}
    holder = _holder(lab, set(pids))
    pids.pop(holder).kill()
    begun = time.monotonic()
    after = _holder(lab, set(pids))
    lab.close()
    figures.add("the queue is taken over after", time.monotonic() - begun, "s", most=TAKEN_OVER_S)
    figures.add("dashboards that took it over", float(after in pids), least=1)
    served_after = sum(bool(cookie_of(port)) for _ in range(10))
    figures.add("of 10 visitors after that, served", served_after, least=10)


async def first_visit(server: Server) -> None:
    """Open Overview at one of the processes."""
    async with viewer(server, "", "") as session:
        await session.rerun()


def _holder(lab: Lab, among: set[int]) -> int:
    deadline = time.monotonic() + TAKEN_OVER_S
    while (holder := lab.queue_holder or 0) not in among and time.monotonic() < deadline:
        time.sleep(0.2)
    return holder


async def one_viewer(port: int, query: str, rounds: int) -> list[float]:
    """Seconds of each rerun of one viewer, who takes the proxy's cookie first."""
    cookie = await asyncio.to_thread(cookie_of, port)
    async with websockets.connect(
        f"ws://127.0.0.1:{port}/_stcore/stream",
        subprotocols=["streamlit"],  # type: ignore[list-item]
        additional_headers={"Cookie": f"{COOKIE}={cookie}"},
        max_size=None,
        open_timeout=PATIENCE_S,
        ping_interval=None,
    ) as connection:
        session, taken = Viewer(connection, "compare", query), []
        await session.rerun()
        for _ in range(rounds):
            await asyncio.sleep(REST_S)
            begun = time.perf_counter()
            await session.rerun()
            taken.append(time.perf_counter() - begun)
        return taken


async def crowd(port: int, query: str, viewers: int, rounds: int) -> tuple[list[float], int]:
    """Seconds of every rerun of so many viewers, sorted, and how many of them failed."""
    each = await asyncio.gather(
        *(one_viewer(port, query, rounds) for _ in range(viewers)), return_exceptions=True
    )
    errors = sum(isinstance(taken, BaseException) for taken in each)
    return sorted(second for taken in each if isinstance(taken, list) for second in taken), errors


def main(options: Asked, figures: Figures) -> None:
    if shutil.which("caddy") is None:
        raise SystemExit("needs Caddy: apt-get install caddy")
    with tempfile.TemporaryDirectory(prefix="spmd-lab-served-") as name:
        folder = Path(name)
        Lab.open(folder / "data", serve=False).archives.take_examples()
        Lab.open(folder / "data", serve=False).close()
        with served(folder) as (port, servers):
            query = f"run={examples.run_ids()[0]}"
            for viewers in [int(each) for each in options.viewers.split(",") if each]:
                taken, errors = asyncio.run(crowd(port, query, viewers, options.rounds))
                p50 = 1e3 * statistics.median(taken) if taken else float("nan")
                most = MOST_P50_MS.get(viewers)
                figures.add(
                    f"{viewers} viewers on {PROCESSES} processes, p50", p50, "ms", most=most
                )
                figures.add(f"{viewers} viewers, errors", errors, most=0)
            if not options.viewers:
                cookies = {cookie_of(port) for _ in range(20)}
                figures.add("processes that 20 visitors got", len(cookies), least=PROCESSES)
                moved = sum(cookie_of(port, each) != each for each in cookies for _ in range(10))
                figures.add("visitors that were moved", moved, most=0)
                in_a_browser(port, folder, figures)
                after_a_kill(port, servers, folder, figures)


if __name__ == "__main__":
    measure(main, __doc__, viewers="", rounds=10)

"""A dashboard with 1,024 file descriptors and no more: what 128 closed tabs keep, how tabs beyond
the limit are refused, and whether the queue works on beside them and beside half-sent requests.

    python -m bench.few_descriptors [--json]
"""

import asyncio
import os
import resource
import socket
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import websockets

from bench.dashboard import LAYER, asking, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab

LIMIT = 1024
CLOSED = 128
LET_GO_S = 40.0
RUN_S = 300


def opened(server: Server) -> int:
    """Descriptors that the server has open."""
    assert server.process is not None
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def soft_limit(server: Server) -> int:
    assert server.process is not None
    return resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0]


async def open_tabs(server: Server, most: int, tabs: AsyncExitStack) -> int:
    """Open tabs until one is refused; how many are open."""
    for count in range(most):
        try:
            tab = await tabs.enter_async_context(viewer(server, "", ""))
            await tab.rerun()
        except (websockets.exceptions.WebSocketException, OSError):
            return count
    return most


def page(server: Server) -> tuple[int, str]:
    """Status and text of the page of a new tab."""
    request = urllib.request.Request(server.url, headers={"Accept": "text/html"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def run_state(lab: Lab, again: int) -> str:
    """How a run ends that the server is to work now."""
    run = lab.submit(parse_experiment(LAYER | {"timing": {"samples": 3 + again}}))
    return lab.wait(run, RUN_S).state


async def closed_tabs(server: Server) -> None:
    async with AsyncExitStack() as tabs:
        await open_tabs(server, CLOSED, tabs)


async def full(server: Server, figures: Figures, lab: Lab) -> None:
    async with AsyncExitStack() as tabs:
        count = await open_tabs(server, LIMIT, tabs)
        status, words = await asyncio.to_thread(page, server)
        figures.add(
            "tabs open when one was refused", count, f"of {LIMIT}", least=150, most=LIMIT - 1
        )
        figures.add("status of a further page", status, least=503, most=503, note=words.strip())
        state = await asyncio.to_thread(run_state, lab, 1)
        figures.add("a run beside these tabs succeeded", state == "succeeded", least=1, note=state)


def half_sent(server: Server, figures: Figures, lab: Lab) -> None:
    """As many half-sent requests as descriptors, and a run beside them."""
    with ExitStack() as kept:
        for _ in range(LIMIT):
            sent = kept.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            sent.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        time.sleep(1.0)
        figures.add("descriptors left beside them", LIMIT - opened(server), least=50)
        state = run_state(lab, 2)
        figures.add("a run beside half-sent requests succeeded", state == "succeeded", least=1)
        time.sleep(LET_GO_S)
        figures.add("status of a page after 40 s", page(server)[0], least=200, most=200)


def main(asked: Asked, figures: Figures) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory(prefix="spmd-lab-descriptors-") as name:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
        server = Server(Path(name))
        server.start()
        figures.add("soft limit of 1,024, raised to", soft_limit(server), least=min(hard, 65_536))
        server.stop()
        server.start()
        assert server.process is not None
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * LIMIT), hard))
        with asking(server) as lab:
            assert run_state(lab, 0) == "succeeded"
            time.sleep(LET_GO_S)
            before = opened(server)
            asyncio.run(closed_tabs(server))
            figures.add("kept by 128 closed tabs at once", opened(server) - before, "descriptors")
            time.sleep(LET_GO_S)
            kept = opened(server) - before
            figures.add("kept by 128 closed tabs after 40 s", kept, "descriptors", most=10)
            asyncio.run(full(server, figures, lab))
            time.sleep(LET_GO_S)
            half_sent(server, figures, lab)
        server.stop()
        figures.add("tracebacks in its log", server.log.count("Traceback"), most=0)


if __name__ == "__main__":
    measure(main, __doc__)

"""A real browser whose DNS answers 127.0.0.1 for a foreign name is shown the refusal, not a screen."""

import contextlib

import pytest
from playwright.sync_api import Page
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app import MOST_RECEIVED_BYTES
from bench.server import CHROMIUM, Server

RULES = "MAP evil.example 127.0.0.1, MAP lab.example.com 127.0.0.1"


@pytest.fixture
def resolved(page):
    """A page of a browser whose DNS gives it these names."""
    args = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules={RULES}"]
    browser = page.context.browser.browser_type.launch(executable_path=CHROMIUM, args=args)
    yield browser.new_page()
    browser.close()


def opened(page: Page, port: int, name: str, path: str = "/"):
    """Status and text of a page, and whether its script can open the screens' connection."""
    answer = page.goto(f"http://{name}:{port}{path}")
    assert answer is not None
    opens = page.evaluate(
        """() => new Promise(done => {
            const socket = new WebSocket(`ws://${location.host}/_stcore/stream`, ["streamlit"]);
            socket.onopen = () => done(true);
            socket.onerror = () => done(false);
        })"""
    )
    return answer.status, answer.text(), opens


def test_a_message_that_no_screen_sends_is_not_received(server):
    """It is refused by its length, before anything of it is read or a login is checked."""
    address = f"ws://127.0.0.1:{server.port}/_stcore/stream"
    for size, refused in ((MOST_RECEIVED_BYTES + 1, True), (MOST_RECEIVED_BYTES, False)):
        with connect(address, origin=server.url, subprotocols=["streamlit"]) as socket:
            with contextlib.suppress(ConnectionClosed, TimeoutError):
                socket.send(bytes(size))
                while True:
                    socket.recv(timeout=5)
            # without a close frame where the server ends before all of it is sent
            assert (socket.close_code in (1009, 1006)) == refused


def test_a_rebound_page_is_refused_and_a_listed_name_is_served(tmp_path, resolved):
    server = Server(tmp_path, "--server.allowedHosts", "lab.example.com")
    server.start()
    try:
        status, text, opens = opened(resolved, server.port, "evil.example", "/compare")
        assert (status, opens) == (403, False)
        assert text.startswith("Host evil.example is no name of this dashboard")
        # from the one page that is served under any name, the connection is refused as well
        health = opened(resolved, server.port, "evil.example", "/_stcore/health")
        assert health == (200, "ok", False)
        for name in ("lab.example.com", "localhost", "127.0.0.1"):
            status, _, opens = opened(resolved, server.port, name)
            assert (status, opens) == (200, True), name
    finally:
        server.stop()

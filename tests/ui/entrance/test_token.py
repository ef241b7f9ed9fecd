"""The token: asked for on every path, exchanged for a cookie once, and never part of an address."""

import pytest

from spmd_lab.ui.entrance import cookies as tokens
from spmd_lab.ui.entrance.gate import Gate
from tests.ui.entrance.test_gate import finished, served

TOKEN = "a_token-of_24_characters"


@pytest.fixture
def gate(data_folder, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_TOKEN", TOKEN)
    return Gate(served)


def asked(gate, path="/", query="", cookie="", kind="http"):
    """What is sent first in answer to a request."""
    sent = []
    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"cookie", cookie.encode())] if cookie else [],
        "server": ("127.0.0.1", 8501),
    }

    async def receive():
        if kind == "websocket" and not sent:
            return {"type": "websocket.connect"}
        return {"type": f"{kind}.disconnect"}

    async def send(message):
        sent.append(message)

    finished(gate(scope, receive, send))
    return sent[0]


def headers(message):
    return {name.decode(): value.decode() for name, value in message["headers"]}


@pytest.mark.parametrize(
    "path", ["/", "/compare", "/_stcore/health", "/media/a.csv", "/static/x.js"]
)
@pytest.mark.parametrize(
    "query", ["", "token=", "token=wrong", "experiment=1.abc", "Token=" + TOKEN]
)
def test_nothing_is_served_without_it(gate, path, query):
    assert asked(gate, path, query)["status"] == 401
    assert asked(gate, path, query, kind="websocket")["type"] == "websocket.close"


def test_it_is_exchanged_for_a_cookie_and_leaves_the_address(gate):
    answer = asked(gate, "/compare", f"experiment=1.a-b&token={TOKEN}&run=x%20y")
    found = headers(answer)
    assert answer["status"] == 303 and found["location"] == "/compare?experiment=1.a-b&run=x+y"
    cookie, *flags = found["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(flags)
    assert TOKEN not in cookie and cookie.startswith("spmd_lab_8501=")
    assert asked(gate, "/compare", "experiment=1.a-b", cookie)["status"] == 200
    assert asked(gate, cookie=cookie, kind="websocket")["type"] == "websocket.accept"
    again = asked(gate, "/", f"token={TOKEN}", cookie)
    assert again["status"] == 303 and headers(again)["location"] == "/"


def test_a_cookie_of_another_token_is_none(gate, monkeypatch):
    cookie = headers(asked(gate, "/", f"token={TOKEN}"))["set-cookie"].split("; ")[0]
    monkeypatch.setenv("SPMD_LAB_TOKEN", TOKEN[::-1])
    assert asked(gate, "/", cookie=cookie)["status"] == 401


@pytest.mark.parametrize("path", ["//evil.example", "///evil.example/x", "/\\evil.example"])
def test_the_way_back_leads_to_no_other_host(gate, path):
    location = headers(asked(gate, path, f"token={TOKEN}"))["location"]
    assert location.startswith("/evil.example")


def test_a_token_that_is_easily_guessed_closes_and_is_not_quoted(gate, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_TOKEN", "short")
    sent = asked(gate)
    assert sent["status"] == 503


def test_a_copied_link_has_none(data_folder, monkeypatch):
    monkeypatch.setattr("spmd_lab.ui.links.st.query_params", {"token": TOKEN, "tab": "machine"})
    from spmd_lab.ui import links

    assert links._page_path("history") == "/history?tab=machine"
    assert tokens.PARAMETER == "token"

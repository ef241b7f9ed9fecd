"""Nothing but a sentence is served in any state of secrets.toml that a login may be left in: on each
path, and on a connection that is open already.
"""

import shutil

import pytest
import streamlit as st

from bench.login_states import CLOSED, cookie_header, leave, set_up, signed
from spmd_core.base import descriptors, login
from spmd_lab.ui.entrance import door
from spmd_lab.ui.entrance.gate import Gate
from tests.loops import finished


@pytest.fixture
def secrets(tmp_path, data_folder, monkeypatch):
    """A secrets.toml that is the only one; Authlib is there."""
    path = tmp_path / "secrets.toml"
    option = st.get_option
    monkeypatch.setattr(
        st, "get_option", lambda name: [str(path)] if name == "secrets.files" else option(name)
    )
    monkeypatch.setattr(door, "find_spec", str)
    monkeypatch.setenv("SPMD_LAB_MEMBERS", "example.com")
    return path


async def served(scope, receive, send):
    """An app that answers each request, and echoes each message of a connection."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data"})
        return
    while (message := await receive())["type"] != "websocket.disconnect":
        kind = "accept" if message["type"] == "websocket.connect" else "send"
        await send({"type": f"websocket.{kind}", "text": "data"})


def scope(kind, path="/", cookies=None):
    """A request of a member, or with these cookies."""
    headers = [(b"cookie", cookie_header(signed() if cookies is None else cookies).encode())]
    return {"type": kind, "method": "GET", "path": path, "headers": headers}


def asked(gate, path="/", cookies=None):
    """Status and body of a request."""
    sent = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    finished(gate(scope("http", path, cookies), receive, send))
    return sent[0]["status"], sent[1]["body"].decode()


def connected(gate, *between, cookies=None):
    """What a connection answers: to being opened, and to a message after each of `between`."""
    sent, steps = [], iter(between)

    async def receive():
        if not sent:
            return {"type": "websocket.connect"}
        step = next(steps, None)
        if step is None:
            return {"type": "websocket.disconnect"}
        step()
        return {"type": "websocket.receive", "text": "more"}

    async def send(message):
        sent.append(message["type"].partition(".")[2])

    finished(gate(scope("websocket", "/_stcore/stream", cookies), receive, send))
    return sent


@pytest.mark.parametrize("state", CLOSED)
def test_it_is_closed_from_the_start(state, secrets, data_folder):
    set_up(secrets)
    assert asked(Gate(served)) == (200, "data"), "the login itself is served"
    make, words = CLOSED[state]
    leave(secrets, make)
    gate = Gate(served)
    for path in ("/", "/history", "/_stcore/health", "/media/a.csv"):
        status, said = asked(gate, path)
        assert status == 503 and words in said and said.count("\n") == 1
        assert "hidden" not in said and str(secrets) not in said
    assert connected(gate) == ["close"]


@pytest.mark.parametrize("state", CLOSED)
def test_it_closes_while_it_runs_and_opens_once_repaired(state, secrets, data_folder):
    set_up(secrets)
    gate = Gate(served)
    make, words = CLOSED[state]

    def nothing(): ...

    sent = connected(gate, nothing, lambda: leave(secrets, make), nothing)
    assert sent == ["accept", "send", "close"]
    assert words in asked(gate)[1]
    set_up(secrets)
    assert asked(gate) == (200, "data")


def test_an_answer_that_comes_late_is_not_sent(secrets, data_folder, monkeypatch):
    monkeypatch.setattr(
        "spmd_lab.ui.entrance.door.LOOK_S", 0.0
    )  # how long it may take to be noticed
    set_up(secrets)
    sent = []

    async def slow(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        secrets.unlink()
        await send({"type": "websocket.send", "text": "data"})
        await send({"type": "websocket.send", "text": "data"})
        await send({"type": "websocket.close"})

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message["type"].partition(".")[2])

    finished(Gate(slow)(scope("websocket"), receive, send))
    assert sent == ["accept", "close"]


def test_a_login_that_is_set_up_while_it_runs_ends_the_connections_of_before(secrets, data_folder):
    gate = Gate(served)
    assert connected(gate, lambda: None, cookies={}) == ["accept", "send"]
    assert connected(gate, lambda: set_up(secrets), cookies={}) == ["accept", "close"]
    assert connected(gate, lambda: None, cookies={}) == ["close"]
    assert connected(gate, lambda: None) == ["accept", "send"]


def test_a_damaged_file_closes_and_is_remembered_if_it_mentions_a_login(secrets, data_folder):
    leave(secrets, CLOSED["a broken line"][0])
    assert asked(Gate(served))[0] == 503
    secrets.unlink()
    assert "has no [auth] any more" in asked(Gate(served))[1]
    login.end(data_folder)
    assert asked(Gate(served)) == (200, "data"), "ended by the command"
    secrets.write_text("port = ")
    assert asked(Gate(served))[0] == 503
    secrets.unlink()
    assert asked(Gate(served)) == (200, "data"), "there was never a login"


def test_without_what_a_login_needs_nothing_is_served(secrets, data_folder, monkeypatch):
    set_up(secrets)
    monkeypatch.setattr(door, "find_spec", lambda name: None)
    status, said = asked(Gate(served))
    assert status == 503 and "install streamlit[auth]" in said


def test_a_login_that_cannot_be_remembered_closes(secrets, data_folder):
    set_up(secrets)
    data_folder.write_text("no folder")
    assert "a login is kept there" in asked(Gate(served))[1]


def test_secrets_as_folders_are_followed(secrets, data_folder, tmp_path, monkeypatch):
    folder = tmp_path / "mounted"
    (folder / "auth").mkdir(parents=True)
    for name, value in (
        ("redirect_uri", "http://localhost:8501/oauth2callback"),
        ("cookie_secret", "a secret of thirty-two characters"),
        ("client_id", "lab"),
        ("client_secret", "hidden"),
        ("server_metadata_url", "https://accounts.example/openid"),
    ):
        (folder / "auth" / name).write_text(value)
    option = st.get_option
    monkeypatch.setattr(
        st, "get_option", lambda name: [str(folder)] if name == "secrets.files" else option(name)
    )
    assert door.is_login_set_up() and asked(Gate(served)) == (200, "data")
    (folder / "auth" / "client_secret").write_text("")
    assert "has no client_secret" in asked(Gate(served))[1]
    shutil.rmtree(folder / "auth")
    assert "has no [auth] any more" in asked(Gate(served))[1]


def test_new_tabs_are_refused_while_few_descriptors_are_left(secrets, data_folder, monkeypatch):
    def page(*headers):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "path": "/", "headers": [*headers]}
        finished(Gate(served)(scope, None, send))
        return sent[0]["status"], sent[1]["body"].decode()

    new_tab = (b"accept", b"text/html,*/*;q=0.8")
    assert page(new_tab) == (200, "data")
    monkeypatch.setattr(descriptors, "left", lambda: descriptors.RESERVE - 1)
    status, sentence = page(new_tab)
    assert status == 503 and sentence.count("\n") == 1 and "a higher `ulimit -n`" in sentence
    assert connected(Gate(served)) == ["close"]
    assert page() == (200, "data"), "a part of an open tab"

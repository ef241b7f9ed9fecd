"""A page that a foreign DNS name was rebound to is served nothing, by HTTP and WebSocket; own
addresses and names are, also behind tunnels and proxies.
"""

import pytest
import streamlit as st
from streamlit import config

from bench.foreign_hosts import BELOW, FOREIGN, NAMED, OWN, PATHS, Form
from bench.login_states import LOGIN, cookie_header, signed
from spmd_lab.ui.entrance import hosts
from spmd_lab.ui.entrance.gate import Gate
from tests.loops import finished


@pytest.fixture
def settings(monkeypatch, data_folder, tmp_path):
    """A function that sets options of Streamlit; there is no secrets.toml but that of the test."""
    here = {name: st.get_option(name) for name in (hosts.OPTION, "server.address")}
    chosen = {"secrets.files": [str(tmp_path / "secrets.toml")]}
    option = st.get_option
    monkeypatch.setattr(
        st, "get_option", lambda name: chosen[name] if name in chosen else option(name)
    )
    yield chosen.update
    hosts._listed.cache_clear()
    for name, value in here.items():
        config.set_option(name, value)


async def _app(scope, receive, send):
    kind = "http.response.start" if scope["type"] == "http" else "websocket.accept"
    await send({"type": kind, "status": 200})


def sent(form: Form, path: str, method="GET"):
    """What the gate sends: the first message, and the text that follows a refusal."""
    target = form.target.format(path)
    headers = [(b"host", host.encode()) for host in form.hosts]
    headers += [(b"origin", origin.encode()) for origin in form.origins]
    headers += [(b"cookie", cookie_header(signed()).encode())]
    kind = "websocket" if path.endswith("/stream") else "http"
    scope = {"type": kind, "path": target, "headers": headers, "method": method}
    messages = []

    async def receive():
        return {"type": f"{kind}.disconnect"}

    async def send(message):
        messages.append(message)

    finished(Gate(_app)(scope, receive, send))
    return messages


def is_served(form: Form, path: str, method="GET") -> bool:
    first = sent(form, path, method)[0]
    return first["type"] == "websocket.accept" or first.get("status") == 200


def unserved(forms):
    return [(form, path) for form in forms for path in PATHS if not is_served(form, path)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ()),
        ({"server.address": "0.0.0.0"}, ()),
        ({hosts.OPTION: ["lab.example.com", " *.Corp.example. "]}, NAMED + BELOW),
        ({"browser.serverAddress": "LAB.example.com"}, NAMED),
        ({"server.address": "lab.example.com"}, NAMED),
        ({"server.enableCORS": False}, ()),
    ],
)
def test_foreign_names_are_refused_and_own_ones_served(options, names, settings):
    settings(options)
    assert len(unserved(FOREIGN)) == len(FOREIGN) * len(PATHS) >= 60 * len(PATHS)
    assert not unserved(OWN + names)
    if not names:
        assert len(unserved(NAMED + BELOW)) == len(NAMED + BELOW) * len(PATHS)


def test_with_a_login_the_host_of_its_address_is_served(settings, tmp_path, monkeypatch):
    settings({"server.address": "0.0.0.0"})
    monkeypatch.setattr("spmd_lab.ui.entrance.door.find_spec", str)
    monkeypatch.setenv("SPMD_LAB_MEMBERS", "example.com")
    (tmp_path / "secrets.toml").write_text(
        LOGIN.replace("http://localhost:8501", "https://lab.example.com")
    )
    assert not unserved(OWN + NAMED)
    assert len(unserved(FOREIGN)) == len(FOREIGN) * len(PATHS)


def test_a_listed_name_leaves_no_check_that_refuses_localhost(settings):
    from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

    config.set_option(hosts.OPTION, ["lab.example.com"])
    assert not is_host_allowed("localhost")
    assert not unserved(NAMED)
    assert is_host_allowed("localhost")
    assert len(unserved(BELOW)) == len(BELOW) * len(PATHS), (
        "what is listed is what was at the start"
    )


def test_any_name_may_be_listed(settings):
    settings({hosts.OPTION: ["*"]})
    rebound = Form(("evil.example:8501",), ("http://evil.example:8501",))
    assert is_served(rebound, "/") and is_served(rebound, "/_stcore/stream")
    assert not is_served(Form(("localhost:x",)), "/")


def test_allowed_origins_are_served_on_an_own_address(settings):
    proxied = Form(("127.0.0.1:8501",), ("https://lab.example.com",))
    assert not is_served(proxied, "/")
    settings({"server.corsAllowedOrigins": ["https://LAB.example.com"]})
    assert is_served(proxied, "/") and is_served(proxied, "/_stcore/stream")
    assert not is_served(Form(("lab.example.com",)), "/"), "an origin is no host"


def test_a_health_check_comes_by_any_name_or_none(settings):
    assert is_served(Form(("backend",)), hosts.HEALTH)
    assert is_served(Form(("backend",)), hosts.HEALTH, "HEAD")
    assert is_served(Form(()), hosts.HEALTH) and is_served(Form(()), "/")
    assert not is_served(Form(("backend",), ("http://backend",)), hosts.HEALTH)
    assert not is_served(Form(("backend",)), hosts.HEALTH, "PUT")
    assert not is_served(Form(("backend",)), f"/history{hosts.HEALTH}")
    settings({"server.baseUrlPath": "/lab/"})
    assert is_served(Form(("backend",)), f"/lab{hosts.HEALTH}")
    assert not is_served(Form(("backend",)), hosts.HEALTH)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (
            Form(("Evil.example.:8501",)),
            "Host evil.example is no name of this dashboard: open it by its address, or, if you "
            "run it and the name is yours, start it with --server.allowedHosts evil.example",
        ),
        (
            Form(("localhost",), ("http://evil.example:80",)),
            "Origin evil.example is no name of this dashboard: open it by its address, or, if you "
            "run it and the name is yours, start it with --server.corsAllowedOrigins "
            "https://evil.example",
        ),
        (
            Form(("<script>alert(1)</script>",)),
            "Host has no name of this dashboard: open it by its address.",
        ),
        (
            Form(("localhost",), ("http://[<b>]",)),
            "Origin has no name of this dashboard: open it by its address.",
        ),
    ],
)
def test_the_refusal_has_the_setting_and_no_hostile_text(form, sentence, settings):
    start, body = sent(form, "/")
    assert start["status"] == 403 and body["body"].decode() == f"{sentence}\n"
    headers = dict(start["headers"])
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"content-type"].startswith(b"text/plain")
    assert [message["type"] for message in sent(form, "/_stcore/stream")] == ["websocket.close"]

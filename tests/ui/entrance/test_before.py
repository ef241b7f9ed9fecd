"""Before a login nothing is served but the way to it; and a login is over at once, for every tab and
copy of its cookie, as docs/security.md says.
"""

import os
import time

import pytest

from bench.login_states import ANN, LOGIN, signed
from spmd_core.base import login
from spmd_lab.ui.entrance import before
from spmd_lab.ui.entrance.gate import Gate
from tests.commands.calls import told
from tests.loops import finished
from tests.ui.entrance.test_gate import asked, connected, scope, secrets, served, set_up

__all__ = ["secrets"]
CLOSED = (
    *("/", "/history", "/media/a.csv", "/downloads/0123456789012345678901", "/static/a.js"),
    *(
        "/_stcore/metrics",
        "/agent/openapi.json",
        "/_stcore/host-config",
        "/_stcore/upload_file/a/b",
    ),
    *("/_stcore/health/", "/_stcore/script-health-check", "/x/auth/login", "/%61uth/logout"),
    *("/component/a/b", "/_stcore/bidi-components/a/b", "/robots.txt"),
)
BOB = ANN | {"sub": "bob", "email": "bob@example.com"}


@pytest.fixture
def gate(secrets, data_folder):
    set_up(secrets)
    return Gate(served)


def nothing() -> None: ...


def sent(gate, *given, method="GET", query=b"", more=()):
    """Status and headers of an answer."""
    messages = []
    request = scope("http", *given) | {"method": method, "query_string": query}
    request["headers"] = [*request["headers"], *more]

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        messages.append(message)

    finished(gate(request, receive, send))
    return messages[0]["status"], dict(messages[0]["headers"])


@pytest.mark.parametrize("path", CLOSED)
def test_nothing_is_served_before_a_login(path, gate):
    status, text = asked(gate, path, {})
    assert status == 401 and "data" not in text and text.count(">Log in<") == 1
    for method in ("PUT", "POST", "DELETE", "OPTIONS"):
        assert sent(gate, path, {}, method=method)[0] == 401
    assert asked(gate, path) == (200, "data"), "a member has it"


def test_a_socket_is_opened_after_a_login_alone(gate):
    assert connected(gate, nothing, cookies={}) == ["close"]
    assert connected(gate, nothing) == ["accept", "send"]


def test_the_way_to_the_provider_and_a_sign_of_life_are_served(gate):
    for path in ("/_stcore/health", "/oauth2callback", "/auth/logout"):
        assert asked(gate, path, {}) == (200, "data")


def test_what_fetches_a_preview_learns_a_name_alone(gate):
    agent = [(b"user-agent", b"Slackbot 1.0")]
    assert sent(gate, "/history", {}, more=agent)[0] == 200
    assert "data" not in asked(gate, "/history", {})[1]


def test_the_page_has_a_button_for_each_provider(secrets, data_folder):
    common = "".join(LOGIN.splitlines(True)[:4])
    one = "".join(LOGIN.splitlines(True)[4:])
    secrets.write_text(f"{common}[auth.google]\n{one}[auth.okta]\n{one}")
    text = asked(Gate(served), "/", {})[1]
    assert ">Log in with google<" in text and ">Log in with okta<" in text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        (ANN | {"email": "ann@other.org"}, "not among those"),
        (ANN | {"email_verified": False}, "does not confirm"),
    ],
)
def test_who_is_no_member_may_log_out(claims, words, gate):
    status, text = asked(gate, "/history", signed(claims))
    assert status == 401 and words in text and ">Log out<" in text
    assert connected(gate, nothing, cookies=signed(claims)) == ["close"]


@pytest.mark.parametrize(
    "cookies",
    [
        signed(secret="another secret of 32 characters.."),
        signed(ANN | {"provider": "okta"}),
        signed(ANN | {"is_logged_in": False}),
        signed(age_s=12 * 3600 + 1),
        signed(age_s=-3600),
        {"_streamlit_user": ""},
        {"_streamlit_user": "ey.ey.ey"},
        {"_streamlit_user_tokens": signed()["_streamlit_user"]},
    ],
)
def test_what_is_no_login_opens_nothing(cookies, gate):
    assert asked(gate, "/history", cookies)[0] == 401
    assert connected(gate, nothing, cookies=cookies) == ["close"]


ENDS = {
    "a log-out": lambda gate, secrets: sent(gate, "/auth/logout", signed(ANN)),
    "the owner": lambda gate, secrets: told("login", "--end-all"),
    "another secret": lambda gate, secrets: secrets.write_text(
        LOGIN.replace("thirty-two", "32 other")
    ),
    "another client": lambda gate, secrets: secrets.write_text(LOGIN.replace('"lab"', '"lab 2"')),
    "another provider": lambda gate, secrets: secrets.write_text(
        LOGIN.replace("accounts.example", "okta.example")
    ),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_login_is_over_at_once_for_each_tab_and_copy(way, gate, secrets):
    member = signed(age_s=5)
    logins_made = list((secrets.parent).rglob("at-*"))
    for path in logins_made:  # as if it had been set up before that login
        os.utime(path, (time.time() - 10, time.time() - 10))
    assert asked(gate, "/history", member)[0] == 200
    assert connected(gate, nothing, lambda: ENDS[way](gate, secrets), cookies=member) == [
        "accept",
        "send",
        "close",
    ]
    assert asked(gate, "/history", member)[0] == 401
    assert asked(Gate(served), "/history", member)[0] == 401, "after a start too"
    bob = asked(gate, "/history", signed(BOB, age_s=5))[0]
    assert bob == (200 if way == "a log-out" else 401)
    if way != "another secret":
        assert asked(gate, "/history", signed())[0] == 200, "a login of afterwards counts"


def test_another_site_logs_nobody_out(gate):
    more = [(b"sec-fetch-site", b"cross-site")]
    member = signed()
    assert sent(gate, "/auth/logout", member, more=more)[0] == 200
    assert asked(gate, "/history", member)[0] == 200


def test_a_login_leads_back_to_the_screen_that_was_requested(gate):
    page = [(b"accept", b"text/html,*/*")]
    cookie = sent(gate, "/compare", {}, query=b"experiment=1.a-b", more=page)[1][b"set-cookie"]
    name, _, value = cookie.decode().split(";")[0].partition("=")
    status, headers = sent(gate, "/", signed() | {name: value})
    assert (status, headers[b"location"]) == (303, b"/compare?experiment=1.a-b")
    status, headers = sent(gate, "/", signed() | {name: "%2F%5Cevil.example"})
    assert headers[b"location"] == b"/evil.example"
    assert sent(gate, "/", signed())[0] == 200


def test_the_log_in_goes_to_a_provider_that_is_named(gate, monkeypatch):
    monkeypatch.setattr(before, "encode_provider_token", lambda name: f"signed {name}")
    status, headers = sent(gate, "/auth/login", {}, query=b"name=default")
    assert (status, headers[b"location"]) == (303, b"?provider=signed+default")
    assert sent(gate, "/auth/login", {}, query=b"name=other")[0] == 200, "Streamlit refuses it"
    assert sent(gate, "/auth/login", {}, query=b"provider=signed")[0] == 200


def test_the_ends_of_logins_are_kept_for_the_owner_alone(data_folder):
    login.end_all(data_folder)
    login.end_of(data_folder, "https://accounts.example#ann")
    kept = data_folder / login.FOLDER_NAME
    assert kept.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept.iterdir())
    assert len(list(kept.iterdir())) == 2 and "ann" not in str(list(kept.iterdir()))

"""When nothing may be served, as a decision: of what secrets hold, and of who is logged in."""

import json

import pytest

from spmd_core.base import RequestError, StorageError, login, read_settings
from tests.commands.calls import told

AUTH = {
    "redirect_uri": "http://localhost:8501/oauth2callback",
    "cookie_secret": "x" * 32,
    "client_id": "a",
    "client_secret": "b",
    "server_metadata_url": "https://accounts.example/.well-known/openid-configuration",
}
PROVIDER = {key: AUTH.pop(key) for key in ("client_id", "client_secret", "server_metadata_url")}
ANN = {"email": "Ann@Example.com", "email_verified": True}


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (AUTH | PROVIDER, None),
        (AUTH | {"google": PROVIDER}, None),
        (AUTH | {"google": PROVIDER | {"client_secret": ""}}, "has no client_secret"),
        (AUTH, "names no identity provider"),
        (AUTH | PROVIDER | {"cookie_secret": "short"}, "has no cookie_secret of at least 16"),
        (AUTH | PROVIDER | {"cookie_secret": 10**32}, "has no cookie_secret of at least 16"),
        (PROVIDER, "has no redirect_uri"),
        ({}, "has no redirect_uri"),
        (True, "is not a section"),
        ([AUTH | PROVIDER], "is not a section"),
    ],
)
def test_a_login_that_cannot_work_closes(auth, words):
    said = login.closed(login.Secrets(auth, None, True), kept=True, has_library=True)
    assert said == (words and said) and (not words or words in said)


def test_without_a_login_it_is_open_until_one_was_seen():
    assert login.closed(login.Secrets(), kept=False, has_library=False) is None
    assert "no [auth] any more" in login.closed(login.Secrets(), kept=True, has_library=True)
    damaged = login.Secrets(problem="does not parse")
    assert "repair it" in login.closed(damaged, kept=False, has_library=True)
    described = login.Secrets(AUTH | PROVIDER, None, True)
    assert "install streamlit[auth]" in login.closed(described, kept=True, has_library=False)


def test_providers_are_those_that_are_described():
    assert login.providers(AUTH | PROVIDER) == ("default",)
    assert login.providers(AUTH | {"okta": PROVIDER, "client_kwargs": {"scope": "openid"}}) == (
        "okta",
    )


@pytest.mark.parametrize(
    "members", ["ann@example.com", "bob@other.org, example.com", "@Example.COM", "*"]
)
def test_members_come_in(members):
    found = read_settings({"SPMD_LAB_MEMBERS": members}).members
    assert login.turned_away(ANN, found) is None


@pytest.mark.parametrize(
    ("user", "members", "words"),
    [
        (ANN, "", "Nobody may come in yet"),
        (ANN, "bob@example.com", "not among those"),
        (ANN, "ample.com", "not among those"),
        (ANN | {"email": "ann@example.com.evil.org"}, "example.com", "not among those"),
        (ANN | {"email": "example.com"}, "example.com", "not among those"),
        (ANN | {"email": "@example.com"}, "example.com", "not among those"),
        (ANN | {"email": "evil@x.org@example.net"}, "x.org", "not among those"),
        (ANN | {"email_verified": False}, "example.com", "does not confirm"),
        (ANN | {"email_verified": "false"}, "example.com", "does not confirm"),
        ({"email": "ann@example.com"}, "example.com", "does not confirm"),
        ({"email_verified": True}, "example.com", "not among those"),
    ],
)
def test_others_are_turned_away(user, members, words):
    found = read_settings({"SPMD_LAB_MEMBERS": members}).members
    assert words in login.turned_away(user, found)


@pytest.mark.parametrize("members", ["ann", "ann@", "*.example.com", "a b@c", "ann@example"])
def test_members_that_are_none_are_refused(members):
    with pytest.raises(RequestError, match="is no e-mail address or domain: use for example"):
        read_settings({"SPMD_LAB_MEMBERS": members})


def test_only_the_command_ends_a_login(data_folder):
    assert json.loads(told("login", "--json").stdout) == {"required": False}
    assert not data_folder.exists(), "a question makes no folder"
    login.keep(data_folder)
    login.keep(data_folder)
    assert (data_folder / login.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert told("login").stdout.startswith("A login is required")
    assert told("login", "--off").stdout.startswith("No login is required any more")
    assert not login.is_kept(data_folder)
    assert told("login", "--off").stdout.startswith("No login was set up")


def test_a_login_that_cannot_be_kept_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a login is kept there, so name a folder"):
        login.keep(tmp_path / "file" / "data")

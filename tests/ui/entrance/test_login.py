"""Where a login is set up, a screen shows nothing to a tab without one; where none is, and others can
reach the address, each screen says so.
"""

from pathlib import Path

import pytest
from streamlit.config import get_option, set_option
from streamlit.testing.v1 import AppTest

from spmd_lab.ui.entrance import door
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import QUESTIONS

ROOT = Path(__file__).resolve().parents[3]
AUTH = {
    "redirect_uri": "http://localhost:8501/oauth2callback",
    "cookie_secret": "x" * 32,
    "client_id": "a",
    "client_secret": "b",
    "server_metadata_url": "https://accounts.example/.well-known/openid-configuration",
}


@pytest.fixture
def opened(data_folder, monkeypatch):
    """A function that opens Overview as somebody, with a login set up and Authlib installed."""
    monkeypatch.setattr(door, "find_spec", str)
    monkeypatch.setenv("SPMD_LAB_MEMBERS", "example.com")

    def opened(auth=AUTH, **claims):
        page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
        page.secrets["auth"] = auth
        page.user = claims
        page.run()
        assert not page.exception
        return page

    return opened


def test_a_tab_without_a_login_shows_nothing(opened):
    """Such as one that Streamlit does not take for logged in, being at another address."""
    page = opened()
    assert [button.label for button in page.button] == ["Log out"] and not page.title
    assert page.error[0].value == plain(door.FIRST)


def test_members_come_in_and_others_may_log_out(opened):
    ann = {"is_logged_in": True, "email": "ann@example.com", "email_verified": True}
    assert opened(**ann).title[0].value == QUESTIONS["overview"]
    for other in ({"email": "ann@other.org"}, {"email_verified": False}):
        page = opened(**(ann | other))
        assert [button.label for button in page.button] == ["Log out"] and not page.title
        assert len(page.error) == 1


def test_a_login_that_was_set_up_is_not_left_out_in_silence(opened):
    opened()
    page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60).run()
    assert "no \\[auth\\] any more" in page.error[0].value
    assert not page.title and not page.button and not page.exception


def test_without_the_package_a_sentence_is_shown(opened, monkeypatch):
    monkeypatch.setattr(door, "find_spec", lambda name: None)
    page = opened()
    assert "install streamlit" in page.error[0].value and not page.title and not page.button


def test_a_part_of_a_screen_asks_too(opened):
    """A part that draws itself again does not begin where the screen does."""

    def part():
        import streamlit as st

        from spmd_lab.ui.entrance.door import AccessError
        from spmd_lab.ui.lab import lab

        try:
            st.write(len(lab().active()))
        except AccessError as error:
            st.error(str(error))

    page = AppTest.from_function(part)
    page.secrets["auth"] = AUTH
    page.run()
    assert [error.value for error in page.error] == ["Log in first: load the page again."]
    assert not page.markdown


@pytest.mark.parametrize(("address", "told"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_open_address_without_login_is_pointed_out(data_folder, address, told):
    here = get_option("server.address")
    set_option("server.address", address)
    try:
        page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
        page.switch_page("pages/history.py").run()
    finally:
        set_option("server.address", here)
    assert not page.exception
    assert told == any(
        "answers on 0.0.0.0 without a login" in each.value.replace("\\", "")
        for each in page.warning
    )


def test_visitors_of_a_named_proxy_come_from_elsewhere(monkeypatch):
    monkeypatch.setattr("spmd_lab.ui.entrance.door.is_login_set_up", lambda: False)
    assert not door.is_exposed()
    monkeypatch.setenv("SPMD_LAB_PROXY", "127.0.0.1")
    assert door.is_exposed()
    monkeypatch.setattr("spmd_lab.ui.entrance.door.is_login_set_up", lambda: True)
    assert not door.is_exposed()

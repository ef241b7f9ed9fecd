"""Where a login is set up, a screen shows nothing before it; where none is, and others can reach the
address, each screen says so.
"""

from pathlib import Path

import pytest
from streamlit.config import get_option, set_option
from streamlit.testing.v1 import AppTest

from spmd_core.lab.lab import Lab

ROOT = Path(__file__).resolve().parents[2]
AUTH = {
    "redirect_uri": "http://localhost:8501/oauth2callback",
    "cookie_secret": "x" * 32,
    "client_id": "a",
    "client_secret": "b",
    "server_metadata_url": "https://accounts.example/.well-known/openid-configuration",
}


def test_a_screen_asks_for_the_login_first(data_folder):
    page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
    page.secrets["auth"] = AUTH
    page.run()
    assert not page.exception
    assert [button.label for button in page.button] == ["Log in"] and not page.title


@pytest.mark.parametrize(("address", "told"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_open_address_without_login_is_pointed_out(data_folder, address, told):
    here = get_option("server.address")
    set_option("server.address", address)
    try:
        page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
        page.switch_page("pages/history.py").run()
    finally:
        set_option("server.address", here)
        Lab.open().close()
    assert not page.exception
    assert told == any(
        "answers on 0.0.0.0 without a login" in each.value.replace("\\", "")
        for each in page.warning
    )

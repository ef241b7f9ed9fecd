"""Where a login is set up, a screen shows nothing before it."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
AUTH = {"redirect_uri": "http://localhost:8501/oauth2callback", "cookie_secret": "x" * 32,
        "client_id": "a", "client_secret": "b",
        "server_metadata_url": "https://accounts.example/.well-known/openid-configuration"}


def test_a_screen_asks_for_the_login_first(data_folder):
    page = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
    page.secrets["auth"] = AUTH
    page.run()
    assert not page.exception
    assert [button.label for button in page.button] == ["Log in"] and not page.title

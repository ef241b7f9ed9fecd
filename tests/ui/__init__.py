"""Screens as a link opens them, without a browser."""

from streamlit.testing.v1 import AppTest

from tests.labs import ROOT


def opened(page: str | None = None, **query: str) -> AppTest:
    """The screen of a page (None: the first one) with these fields in its address."""
    screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
    if page:
        screen.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        screen.query_params[name] = value
    screen.run()
    assert not screen.exception
    return screen

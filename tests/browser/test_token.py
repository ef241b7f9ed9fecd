"""With a token, a browser that opened its link once shows every screen, and its address has no token."""

import pytest
from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, visit
from bench.server import Server

TOKEN = "a_token-of_24_characters"


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_TOKEN", TOKEN)
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


def test_a_link_with_the_token_is_opened_once(guarded, page):
    page.goto(guarded.url)
    assert "This dashboard asks for a token" in page.inner_text("body")
    visit(page, f"{guarded.url}/history?token={TOKEN}")
    page.wait_for_url(f"{guarded.url}/history")
    expect(page).to_have_title("History · SPMD Lab", timeout=PATIENCE_MS)
    visit(page, f"{guarded.url}/recipes")
    expect(page).to_have_title("Recipes · SPMD Lab", timeout=PATIENCE_MS)

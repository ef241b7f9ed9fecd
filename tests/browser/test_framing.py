"""No other site may frame a screen: the headers are on every answer, and deep links still work."""

import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from tests.browser.server import PATIENCE_MS, screen_text, settled, visit


@pytest.mark.parametrize("path", ["/", "/compare", "/predict?experiment=junk", "/_stcore/health",
                                  "/static/nothing.js"])
def test_every_answer_forbids_foreign_frames(server, path):
    try:
        answer = urllib.request.urlopen(server.url + path, timeout=30)
    except urllib.error.HTTPError as refused:
        answer = refused
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    answer.close()


def test_a_foreign_page_cannot_show_a_screen_in_a_frame(server, page):
    page.set_content(f'<iframe src="{server.url}/compare"></iframe>')
    page.wait_for_timeout(1500)
    frame = page.frames[1]
    assert frame.locator("button").count() == 0


def test_screens_open_by_their_path_after_a_restart(server, page):
    server.restart()
    settled(visit(page, server.url + "/history"))
    assert page.title() == "History · SPMD Lab"
    page.get_by_role("link", name="Overview").first.click()
    page.wait_for_url(server.url + "/")
    expect(page).to_have_title("Overview · SPMD Lab", timeout=PATIENCE_MS)


def test_a_browser_is_one_viewer_by_its_cookie_and_is_told_the_limits(server, page):
    visit(page, server.url + "/")
    visit(page, server.url + "/")
    assert "_streamlit_xsrf" in {cookie["name"] for cookie in page.context.cookies()}
    assert "0 of 50 runs are queued or at work" in screen_text(page)

"""No other site may frame a screen: the headers are on every answer, and deep links still work."""

import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, settled, visit


@pytest.mark.parametrize(
    "path", ["/", "/compare", "/predict?experiment=junk", "/_stcore/health", "/static/nothing.js"]
)
def test_every_answer_forbids_foreign_frames(server, path):
    try:
        answer = urllib.request.urlopen(server.url + path, timeout=30)
    except urllib.error.HTTPError as refused:
        answer = refused
    assert (
        answer.headers["Content-Security-Policy"] == "frame-ancestors 'self'; img-src 'self' data:"
    )
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    answer.close()


def test_a_foreign_page_cannot_show_a_screen_in_a_frame(server, page):
    page.goto("about:blank")
    page.set_content(f'<iframe src="{server.url}/compare"></iframe>')
    frame = page.frames[1]
    frame.wait_for_url(
        "chrome-error://**"
    )  # where the browser goes in the place of what is refused
    assert frame.locator("button").count() == 0


def test_screens_open_by_their_path_and_know_their_viewer(server, page):
    settled(visit(page, server.url + "/history"))
    expect(page).to_have_title("History · SPMD Lab")
    page.get_by_role("link", name="Overview").first.click()
    page.wait_for_url(server.url + "/")
    expect(page).to_have_title("Overview · SPMD Lab", timeout=PATIENCE_MS)
    # a browser is one viewer by its cookie, and is told what its runs take
    settled(page)
    assert "_streamlit_xsrf" in {cookie["name"] for cookie in page.context.cookies()}
    expect(page.get_by_test_id("stMain")).to_contain_text("simulated CPU devices,")

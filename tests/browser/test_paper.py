"""What paper and a phone get: no sidebar in print, and buttons that need no hover."""

from playwright.sync_api import expect

from bench.browser import visit

OPACITY = "element => { let least = 1; for (let at = element; at; at = at.parentElement) least = Math.min(least, getComputedStyle(at).opacity); return least; }"


def test_print_has_no_sidebar_and_a_narrow_window_copies_without_hover(server, page):
    visit(page, f"{server.url}/layout")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    expect(page.locator(".st-key-menu")).to_be_hidden()
    expect(page.get_by_test_id("stVegaLiteChart").first).to_be_visible()
    page.emulate_media(media="screen")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.mouse.move(1, 1)
    copy = page.get_by_test_id("stCode").first.get_by_role("button")
    expect(copy).to_be_attached()
    assert copy.evaluate(OPACITY) == 1

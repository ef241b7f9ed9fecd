"""Back goes back, and lists of runs follow what other viewers start."""

import pytest
from playwright.sync_api import expect

from bench.browser import press_cancel, settled, unfold, visit
from tests.browser.test_fields import enter

LONG = {"samples": 1000, "min_seconds": 60}


def steps(page) -> int:
    return page.evaluate("history.length")


def loaded(page):
    """The page, once it keeps its steps: a browser without a cache fetches that part last."""
    page.wait_for_function("window.spmdSteps")
    return page


def go_back(page) -> None:
    before = page.url
    page.go_back()
    page.wait_for_url(lambda url: url != before)
    settled(page)


@pytest.fixture
def new_page(viewers):
    """A page without a past: Chromium counts no more than 50 steps."""
    page = viewers(0).context.new_page()
    yield page
    page.close()


def test_each_act_of_the_viewer_is_one_step_and_what_the_app_writes_is_none(server, new_page):
    page = new_page
    first = steps(loaded(visit(page, server.url)))
    page.get_by_test_id("stPageLink").get_by_text("Compare", exact=True).first.click()
    page.wait_for_url("**/compare?experiment=*")  # the app completes the address
    settled(page)
    assert steps(page) == first + 1
    opened = page.url
    unfold(page, "Sizes")
    enter(page, "cols", "2048")
    page.wait_for_url(lambda url: url != opened)
    settled(page)
    assert steps(page) == first + 2
    page.get_by_test_id("stPageLink").get_by_text("Layout", exact=True).first.click()
    page.wait_for_url("**/layout?experiment=*")
    settled(page)
    assert steps(page) == first + 3
    go_back(page)
    expect(page.get_by_label("cols", exact=True).first).to_have_value("2048")
    go_back(page)
    assert page.url == opened
    expect(page.get_by_label("cols", exact=True).first).to_have_value("1024")
    go_back(page)
    expect(page).to_have_title("Overview · SPMD Lab")
    assert steps(page) == first + 3


def test_a_query_that_a_busy_browser_takes_before_the_name_of_its_screen_is_no_step(
    server, new_page
):
    page = loaded(visit(new_page, server.url))
    first = steps(page)
    page.keyboard.press("Shift")  # an act of the viewer
    for address in ("/?experiment=1.a", "/compare?experiment=1.a"):
        page.evaluate("address => history.pushState({}, '', address)", address)
    assert steps(page) == first + 1


def test_a_collection_opened_from_the_list_stays_open_while_it_is_edited(server, new_page):
    """A link from a screen to itself changes the address, too, there and back."""
    page = visit(new_page, f"{server.url}/notebook")
    page.get_by_role("button", name="New page").click()
    page.get_by_role("textbox", name="Title").fill("Week 47")
    page.get_by_role("button", name="Begin the page").click()
    for _ in range(2):
        page.wait_for_url("**/notebook?collection=*")
        settled(page).get_by_role("link", name="All pages").click()
        page.wait_for_url(f"{server.url}/notebook")
        settled(page).get_by_role("link", name="Week 47").first.click()
    page.get_by_role("textbox", name="Begin with text").fill("Rows win.")
    page.get_by_role("button", name="Add the text").click()
    expect(page.get_by_test_id("stMain").get_by_text("Rows win.", exact=True)).to_be_visible()
    assert "?collection=" in page.url
    go_back(page)
    expect(page.get_by_role("button", name="New page")).to_be_visible()


def test_overview_and_history_show_a_run_of_another_viewer_without_a_reload(
    server, page, other_page, link
):
    visit(page, server.url)
    expect(page.get_by_text("simulated CPU devices,")).to_be_visible()
    visit(other_page, link(dims={"in": 48, "out": 4}, timing=LONG, strategies=["single"]))
    other_page.get_by_role("button", name="Run", exact=True).click()
    running = page.get_by_test_id("stMain").get_by_text("48×4 ·").first
    expect(running).to_be_visible()  # it is at work, and Overview was not touched
    visit(page, f"{server.url}/history?search=in%3D48")
    rows = page.locator(".st-key-days")
    expect(rows).to_contain_text("Running")
    press_cancel(other_page)
    expect(rows).to_contain_text("Cancelled")


def test_a_narrow_window_loads_with_its_fields_closed(server, new_page):
    page, fields = new_page, new_page.get_by_test_id("stExpandSidebarButton")
    page.set_viewport_size({"width": 390, "height": 844})
    loaded(visit(page, f"{server.url}/compare"))
    fields.click()
    expect(fields).to_have_count(0)
    page.reload()
    expect(fields).to_be_visible()

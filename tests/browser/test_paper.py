"""What paper and a phone get: no sidebar in print, and buttons that need no hover."""

from playwright.sync_api import expect

from bench.browser import visit
from spmd_core.reports import Document, Table, html_text
from spmd_core.reports.document import Bar, Chart
from spmd_core.sheets import Cell

OPACITY = "element => { let least = 1; for (let at = element; at; at = at.parentElement) least = Math.min(least, getComputedStyle(at).opacity); return least; }"

# whether the code ends where the button that copies it begins
BESIDE = """() => {
  const box = document.querySelector('[data-testid="stCode"]');
  const left = box.querySelector('button').getBoundingClientRect().left;
  return box.querySelector('code').getBoundingClientRect().right <= left; }"""


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
    assert page.evaluate(BESIDE), "the button is over the code"


def test_a_report_on_paper_loses_no_column_and_splits_no_chart(page):
    wide = Table(
        tuple(f"column {at}" for at in range(10)),
        tuple(
            tuple(Cell(f"{row} of {at}, cannot tell it") for at in range(10)) for row in range(3)
        ),
    )
    chart = Chart("Times", tuple(Bar(f"row {at}", 1.0 + at) for at in range(40)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 970})  # A4 within its margins
    page.set_content(html_text(Document("A study", (wide, chart))))
    assert page.evaluate("document.querySelector('table').scrollWidth") <= 680
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.locator("svg").bounding_box()["height"] <= 970


def test_a_report_on_a_phone_hides_no_cell_beyond_the_right_edge(page):
    columns = ("", *(f"column {at} of it" for at in range(9)))
    rows = tuple(tuple(Cell(f"{row} of {at}") for at in range(10)) for row in range(3))
    page.set_viewport_size({"width": 390, "height": 844})
    page.set_content(html_text(Document("A study", (Table(columns, rows),))))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.wide').scrollWidth") <= 390
    named = page.locator("td").nth(3)
    assert named.evaluate("each => getComputedStyle(each, '::before').content") == (
        '"column 2 of it"'
    )

"""Narrow windows and the keyboard: nothing is cut off, every input is reached, focus is seen."""

import contextlib

import pytest
from playwright.sync_api import TimeoutError

from spmd_core.words.screens import STARTS
from tests.browser.server import PATIENCE_MS, visit

PRIMARY = {"light": "rgb(31, 95, 191)", "dark": "rgb(106, 165, 255)"}
FOCUS = """() => { const seen = getComputedStyle(document.activeElement);
  return [document.activeElement.dataset.testid, seen.outlineStyle, seen.outlineWidth, seen.outlineColor]; }"""
WIDER = """() => [...document.querySelectorAll('[data-testid="stTable"] table')]
  .filter(table => table.scrollWidth > table.parentElement.clientWidth + 1).map(table => table.innerText)"""
CUT = """() => [...document.querySelectorAll('[data-testid="stMain"] [data-testid="stPageLink-NavLink"] *')]
  .filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0).map(part => part.innerText)"""

# whether the cards have so many left edges and so many top edges
IN_ROWS = """([columns, rows]) => {
  const boxes = [...document.querySelectorAll('.st-key-starts [data-testid="stColumn"]')]
    .map(card => card.getBoundingClientRect());
  return new Set(boxes.map(box => box.x)).size === columns && new Set(boxes.map(box => box.y)).size === rows; }"""


@pytest.mark.parametrize("theme", PRIMARY)
def test_focus_on_the_menu_is_outlined_in_the_primary_color(server, new_page, theme):
    page = visit(new_page(color_scheme=theme), server.url)
    for _ in range(12):
        page.keyboard.press("Tab")
        focused, *outline = page.evaluate(FOCUS)
        if focused == "stPageLink-NavLink":
            break
    for _ in range(50):  # the theme's style may come after the first focus
        focused, *outline = page.evaluate(FOCUS)
        if outline[-1] == PRIMARY[theme]:
            break
        page.wait_for_timeout(200)
    assert (focused, outline) == ("stPageLink-NavLink", ["solid", "2px", PRIMARY[theme]])


def test_the_cards_are_three_in_a_row_at_1000_and_one_at_390(server, new_page):
    page = visit(new_page(viewport={"width": 1000, "height": 900}), server.url)
    page.wait_for_function(IN_ROWS, arg=[3, -(-len(STARTS) // 3)], timeout=PATIENCE_MS)
    # one line, Share at its end
    page.wait_for_function("() => document.querySelector('.st-key-menu').offsetHeight < 60",
                           timeout=PATIENCE_MS)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_function(IN_ROWS, arg=[1, len(STARTS)], timeout=PATIENCE_MS)


def found(page, script):
    """What a script finds once the page has taken its width: [] as soon as it finds nothing."""
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(f"() => ({script})().length === 0", timeout=10_000)
    return page.evaluate(script)


def test_no_table_and_no_link_is_cut_off(server, new_page, finished_run):
    page = new_page(viewport={"width": 1000, "height": 900})
    for address in (finished_run, server.url, f"{server.url}/recipes", f"{server.url}/predict"):
        visit(page, address)
        if address == finished_run:
            page.locator(".st-key-communication table").wait_for(timeout=PATIENCE_MS)
        for width in (1000, 390):  # narrower than 1000, tables scroll
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(500)
            assert found(page, CUT) == [], (address, width)
            assert width < 1000 or found(page, WIDER) == [], address
        page.set_viewport_size({"width": 1000, "height": 900})


@pytest.mark.parametrize("screen", ["layout", "compare", "predict"])
def test_every_field_is_reached_at_390(server, new_page, screen):
    page = visit(new_page(viewport={"width": 390, "height": 900}), f"{server.url}/{screen}")
    page.get_by_test_id("stExpandSidebarButton").click()
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.locator("input").first.wait_for(state="visible")
    page.wait_for_timeout(800)  # it slides in
    fields = [field for field in sidebar.locator("input:visible").all()
              if field.get_attribute("aria-label")]
    assert len(fields) > 3
    for field in fields:
        field.scroll_into_view_if_needed()
        box = field.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, field.get_attribute("aria-label")

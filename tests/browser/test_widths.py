"""Narrow windows and the keyboard: every input is reached, focus is seen."""

import pytest

from bench.browser import PATIENCE_MS, unfold, visit
from spmd_lab.ui.shell import PAGES
from tests.cover import whole

PRIMARY = {"light": "rgb(31, 95, 191)", "dark": "rgb(106, 165, 255)"}
FOCUSED = "() => document.activeElement.dataset.testid"
# whether what has the focus is outlined in a color; the theme's style may come after the focus
OUTLINED = """color => { const seen = getComputedStyle(document.activeElement);
  return seen.outlineStyle === 'solid' && seen.outlineWidth === '2px' && seen.outlineColor === color; }"""
# whether the cards have so many left edges and so many top edges
IN_ROWS = """([columns, rows]) => {
  const boxes = [...document.querySelectorAll('.st-key-starts [data-testid="stColumn"]')]
    .map(card => card.getBoundingClientRect()).filter(box => box.height > 0);
  if (boxes.some((box) => box.width * columns < 0.85 * innerWidth)) return false;
  return new Set(boxes.map(box => box.x)).size === columns && new Set(boxes.map(box => box.y)).size === rows; }"""
# whether the menu is one line, with Share at its end and the name of this screen in sight
ONE_LINE = """width => {
  const ends = name => document.querySelector(name)?.getBoundingClientRect().right ?? Infinity;
  const share = document.querySelector('.st-key-share').getBoundingClientRect();
  return innerWidth === width && document.querySelector('.st-key-menu').offsetHeight < 60
    && share.right <= width && ends(width < 641 ? '[class*="st-key-screens-of-"] button' : '[class*="st-key-menu-here"] a') < share.left; }"""
# whether all fields of the sidebar lie in the window, once it has slid in
IN_SIGHT = """() => {
  const boxes = [...document.querySelectorAll('[data-testid="stSidebar"] input[aria-label]')]
    .map(field => field.getBoundingClientRect()).filter(box => box.width > 0);
  return boxes.length > 2 && boxes.every(box => box.left >= 0 && box.right <= window.innerWidth); }"""

# whether a field lies in the window once it is scrolled to: a fold above may still be opening
SCROLLED = """field => { field.scrollIntoView({block: 'center'});
  const box = field.getBoundingClientRect();
  return box.top >= 0 && box.bottom <= window.innerHeight; }"""

# once two frames were drawn in a window that wide
DRAWN = """async width => {
  for (const _ of [1, 2]) await new Promise(drawn => requestAnimationFrame(drawn));
  return innerWidth === width; }"""
# fields of the sidebar that are narrower than their text, or than what they show where they are empty
CUT = """() => [...document.querySelectorAll('[data-testid="stSidebar"] input:not([type="checkbox"])')]
  .filter(field => {
    const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return room > 0 && pen.measureText(field.value || field.placeholder).width > room + 1; })
  .map(field => field.ariaLabel)"""


def test_the_keyboard_reaches_the_menu_which_is_outlined_and_one_line_above_its_cards(server, page):
    page.set_viewport_size({"width": 1000, "height": 900})
    visit(page, server.url)
    page.wait_for_function(IN_ROWS, arg=[4, 2], timeout=PATIENCE_MS)
    page.wait_for_function(ONE_LINE, arg=1000, timeout=PATIENCE_MS)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == "stPageLink-NavLink":
            break
    assert page.evaluate(FOCUSED) == "stPageLink-NavLink"
    for theme, color in PRIMARY.items():
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(OUTLINED, arg=color, timeout=PATIENCE_MS)


def test_the_keyboard_reaches_every_screen_where_it_is_narrow(server, page):
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(color_scheme="dark")
    visit(page, server.url)
    page.wait_for_function(ONE_LINE, arg=390, timeout=PATIENCE_MS)
    page.wait_for_function(IN_ROWS, arg=[2, 4], timeout=PATIENCE_MS)
    page.locator('[class*="st-key-screens-of-"] button').press("Enter")
    above = page.get_by_test_id("stPopoverBody")
    links = above.get_by_test_id("stPageLink-NavLink")
    links.last.wait_for()
    assert links.count() == len(PAGES) + 1, "one for Serving"
    boxes = [each.bounding_box() for each in links.all()]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    # what opens above the app has its colors
    captions, color = '[data-testid="stCaptionContainer"] p', "each => getComputedStyle(each).color"
    below = page.get_by_test_id("stMain").locator(captions).first
    assert above.locator(captions).first.evaluate(color) == below.evaluate(color)
    links.first.focus()
    for _ in range(len(PAGES)):
        page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.innerText.trim()") == links.last.inner_text()
    links.filter(has_text="History").press("Enter")
    page.wait_for_url("**/history*")
    links.last.wait_for(state="detached")


@pytest.mark.parametrize(
    "screen", [*(pytest.param(each, marks=whole) for each in ("layout", "compare")), "predict"]
)
def test_every_field_is_reached_at_390(server, page, screen):
    page.set_viewport_size({"width": 390, "height": 900})
    visit(page, f"{server.url}/{screen}")
    page.wait_for_function(ONE_LINE, arg=390, timeout=PATIENCE_MS)
    opens = page.get_by_test_id("stExpandSidebarButton")
    assert opens.bounding_box()["width"] > 300  # below the answer, as wide as the window
    opens.click()
    if screen == "predict":
        unfold(page, "Change the plan", "Model and optimizer")
    page.wait_for_function(IN_SIGHT, timeout=PATIENCE_MS)
    last = page.get_by_test_id("stSidebar").locator("input[aria-label]:visible").last
    page.wait_for_function(SCROLLED, arg=last.element_handle(), timeout=PATIENCE_MS)
    if screen == "predict":
        no_field_is_narrower_than_its_text(page)


def no_field_is_narrower_than_its_text(page) -> None:
    """The fields of a model have the longest values."""
    for width in (800, 1000, 1280, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        # a late run of the script draws the fields anew, with their folds closed
        unfold(page, "Change the plan", "Model and optimizer")
        page.get_by_test_id("stSidebar").get_by_label("vocab").first.wait_for()
        page.wait_for_function(DRAWN, arg=width, timeout=PATIENCE_MS)
        assert page.evaluate(CUT) == [], width

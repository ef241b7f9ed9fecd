"""Overview, Recipes and History; every screen in both themes and in narrow windows."""

import json
import re

from playwright.sync_api import expect

from bench.browser import PATIENCE_MS, settled, visit
from spmd_lab.ui.shell import PAGES
from tests.browser.stored import MEASURED

SCREENS = tuple("" if name == "overview" else name for name in PAGES)
FITS = """() => { const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollWidth - main.clientWidth <= 1; }"""
WIDER = """() => [...document.querySelectorAll('[data-testid="stTable"] table')]
  .filter(table => table.scrollWidth > table.parentElement.clientWidth + 1).map(table => table.innerText)"""
CUT = """() => [...document.querySelectorAll('[data-testid="stMain"] [data-testid="stPageLink-NavLink"] *')]
  .filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0).map(part => part.innerText)"""
# once two frames were drawn in a window of that width
DRAWN = """width => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
  () => done(window.innerWidth === width))))"""
BACKGROUND = {"light": (255, 255, 255), "dark": (18, 22, 28)}


def test_the_overview_says_what_machine_this_is_and_lets_it_go(server, page, finished_run):
    visit(page, server.url)
    page.get_by_text("Dense layer 32×4 · in over x").first.wait_for()
    main = page.get_by_test_id("stMain")  # the devices are asked meanwhile
    for said in (
        re.compile(r"measured on 8 simulated CPU devices, "),
        re.compile(r"Platform\s*cpu"),
        re.compile("pinned_host"),
    ):
        expect(main).to_contain_text(said)
    page.get_by_text("Devices and self-test").click()
    page.get_by_role("button", name="Release the devices").click()
    page.get_by_text("releases the devices").wait_for()


def test_a_recipe_is_searched_gives_its_numbers_and_leads_on(server, page):
    visit(page, f"{server.url}/recipes")
    page.get_by_placeholder("Search").fill("by psum")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=by*psum*")
    page.get_by_role("link", name="The total, by psum").click()
    page.wait_for_url("**/compare?experiment=*")
    expected = page.get_by_text("The number 496, which every device holds.")
    place = page.get_by_text(re.compile(r"recipe \d+ of \d+")).first
    number = int(re.search(r"recipe (\d+) of", place.inner_text())[1])
    # nothing is computed by opening it, and the answer is not given away
    assert page.locator(".st-key-answer").count() == expected.count() == 0
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Every number is as the example says.").wait_for()
    expected.wait_for()
    settled(page)
    page.get_by_text(re.compile(r"\b496\b")).first.wait_for()
    page.get_by_text("Next: ").click()
    page.get_by_text(f"recipe {number + 1} of").wait_for()
    page.get_by_text("Try: ").first.click()
    page.get_by_text(f"A variation of recipe {number + 1}").wait_for()
    page.get_by_text("Back to it as it stands").click()
    page.get_by_text(f"recipe {number + 1} of").wait_for()


def test_history_exports_and_deletes_a_run(server, page):
    visit(page, f"{server.url}/history?search={MEASURED}&runs={MEASURED}")
    page.get_by_text("Open this run").wait_for()
    page.get_by_role("button", name="Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    stored = json.loads(download.value.path().read_text())
    assert (stored["run"], stored["experiment"]["workload"]) == (MEASURED, "layer")
    with page.expect_download() as download:
        page.get_by_role("button", name="Script").click()
    compile(download.value.path().read_text(), "script.py", "exec")
    page.get_by_role("button", name="Delete this run").click()
    page.get_by_text("This cannot be undone").wait_for()
    page.get_by_role("button", name="Delete this run for good").click()
    page.get_by_text("No stored run fits these filters").wait_for()


def test_every_screen_is_readable_and_no_wider_than_its_window(server, page, finished_run):
    for address in (*(f"{server.url}/{screen}" for screen in SCREENS), finished_run):
        visit(page, address)
        is_readable(page, "light")
        if address in (server.url + "/", f"{server.url}/predict", finished_run):
            page.emulate_media(color_scheme="dark")
            is_readable(page, "dark")
            page.emulate_media(color_scheme="light")
        nothing_is_cut_off(page, address == finished_run)
        page.set_viewport_size({"width": 1280, "height": 900})


def is_readable(page, theme: str) -> None:
    """A title and the menu, in contrast with what is behind them."""
    red, green, blue = BACKGROUND[theme]
    app = page.get_by_test_id("stApp")
    expect(app).to_have_css("background-color", f"rgb({red}, {green}, {blue})")
    for element in (
        page.get_by_test_id("stHeading").first.locator("h1"),
        page.locator(".st-key-menu").get_by_test_id("stPageLink").first.locator("p"),
    ):
        color = element.evaluate("element => getComputedStyle(element).color")
        assert contrast(rgb(color), BACKGROUND[theme]) >= 7


def nothing_is_cut_off(page, is_result: bool) -> None:
    """No screen is wider than its window; from 1000 on no table is, and narrower ones scroll."""
    if is_result:
        page.get_by_role("tab", name="Why").click()
        page.locator(".st-key-communication table").wait_for()
    for width, empty in ((1280, ()), (1000, (CUT, WIDER)), (800, ()), (390, (CUT,))):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(DRAWN, arg=width)
        if width >= 800:
            page.wait_for_function(FITS, timeout=PATIENCE_MS)
        for script in empty:  # the page may still be taking its width
            page.wait_for_function(f"() => ({script})().length === 0", timeout=PATIENCE_MS)


def rgb(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def contrast(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """Contrast ratio of two colors, WCAG 2.1."""
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(color: tuple[int, ...]) -> float:
    parts = [part / 255 for part in color]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_rows_of_the_table_are_ticked_and_unticked(server, page):
    visit(page, f"{server.url}/history?view=Table")
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for(timeout=PATIENCE_MS)
    first, second = 52, 87  # pixels down to the boxes of two rows
    table.click(position={"x": 12, "y": first})
    page.get_by_role("button", name="Details").wait_for(timeout=PATIENCE_MS)
    table.click(position={"x": 12, "y": second})
    page.get_by_role("button", name="Compare 2").wait_for(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Untick").click()
    page.get_by_role("button", name="Select 2 to 8").wait_for(timeout=PATIENCE_MS)

"""Overview, Recipes and History; both themes."""

import json
import re

import pytest

from tests.browser.server import Server, answered, screen_text, settled, visit
from ui.shell import PAGES

SCREENS = tuple("" if name == "overview" else name for name in PAGES)
FITS = """() => { const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollWidth - main.clientWidth <= 1; }"""
BACKGROUND = {"light": (255, 255, 255), "dark": (18, 22, 28)}


def test_the_overview_says_what_machine_this_is_and_lets_it_go(server, page, finished_run):
    visit(page, server.url)
    page.get_by_text(
        "Dense layer, in=32 out=4, float32, in sharded over x, mesh x=8 on cpu:8").first.wait_for()
    text = screen_text(page)
    assert "No accelerator found here: 8 simulated CPU devices stand in for one." in text
    assert re.search(r"Platform\s+cpu", text)
    assert "pinned_host" in text
    page.get_by_role("button", name="Release the devices").click()
    page.get_by_text("releases the devices").wait_for()


def test_a_recipe_opens_filled_in_and_gives_its_numbers(server, page):
    visit(page, f"{server.url}/recipes")
    page.get_by_role("link", name="The total, by psum").click()
    page.wait_for_url("**/compare?experiment=*")
    page.get_by_text("The number 496, which every device holds.").wait_for()
    settled(page)
    assert page.locator(".st-key-answer").count() == 0  # nothing is computed by opening it
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Every number is as the example says.").wait_for(timeout=60_000)
    settled(page)
    assert re.search(r"\b496\b", screen_text(page))


def test_history_finds_exports_and_deletes_a_run(server, page, link):
    visit(page,
          link(dims={"in": 72, "out": 4}, strategies=["single"],
               timing={"samples": 3, "min_seconds": 0}))
    page.get_by_role("button", name="Run", exact=True).click()
    answered(page)
    run = re.search(r"run=([\w-]+)", page.url)[1]
    visit(page, f"{server.url}/history?search={run}&runs={run}")
    page.get_by_text("Open this run").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    stored = json.loads(download.value.path().read_text())
    assert (stored["run"], stored["experiment"]["dims"]["in"]) == (run, 72)
    with page.expect_download() as download:
        page.get_by_role("button", name="Script").click()
    compile(download.value.path().read_text(), "script.py", "exec")
    page.get_by_role("button", name="Delete this run").click()
    page.get_by_text("This cannot be undone").wait_for()
    page.get_by_role("button", name="Delete this run for good").click()
    page.get_by_text("No stored run fits these filters").wait_for()


def test_two_runs_stand_side_by_side(server, page, link, finished_run):
    visit(page, link(dims={"in": 64, "out": 4}, timing={"samples": 3, "min_seconds": 0}))
    page.get_by_role("button", name="Run", exact=True).click()
    answered(page)
    runs = [re.search(r"run=([\w-]+)", url)[1] for url in (finished_run, page.url)]
    visit(page, f"{server.url}/history?runs={','.join(runs)}")
    page.get_by_text("What differs in the experiments").wait_for()
    row = page.get_by_role("row").filter(has_text="size of in")
    assert sorted(row.inner_text().split()[-2:]) == ["32", "64"]
    text = screen_text(page)
    assert '{"' not in text
    assert all(run in text for run in runs)


def test_an_open_address_without_login_is_pointed_out(tmp_path, page):
    open_to_all = Server(tmp_path, "--server.address", "0.0.0.0")
    open_to_all.start()
    try:
        visit(page, open_to_all.url)
        page.get_by_text("answers on 0.0.0.0 without a login").wait_for()
    finally:
        open_to_all.stop()


@pytest.mark.parametrize("theme", BACKGROUND)
def test_every_screen_is_readable_and_no_wider_than_its_window(server, new_page, finished_run, theme):
    page = new_page(color_scheme=theme)
    # a screen's own words and boxes are as wide in the dark
    screens = SCREENS if theme == "light" else ("", "compare", "predict", "collectives")
    for address in (*(f"{server.url}/{screen}" for screen in screens), finished_run):
        visit(page, address)
        background = rgb(
            page.get_by_test_id(
                "stApp").evaluate("element => getComputedStyle(element).backgroundColor"))
        assert background == BACKGROUND[theme]
        for element in (page.get_by_test_id("stHeading").first.locator("h1"),
                        page.get_by_test_id("stPageLink").first.locator("p")):
            assert contrast(rgb(element.evaluate("element => getComputedStyle(element).color")),
                            background) >= 7
        for width in (800, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(FITS)


def rgb(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def contrast(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """Contrast ratio of two colours, WCAG 2.1."""
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: tuple[int, ...]) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
              for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_recipes_are_searched_and_followed_as_a_course(server, page):
    visit(page, f"{server.url}/recipes")
    page.get_by_placeholder("Search").fill("jaxprs of f")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=jaxprs*")
    page.get_by_role("link", name="A quadratic, traced").click()
    page.get_by_text("recipe 40 of 63, Compilation and tracing").wait_for()
    page.get_by_text("Next: In x, in y, in both").click()
    page.get_by_text("recipe 41 of 63").wait_for()
    page.get_by_text("Try: at (5, 1)").click()
    page.get_by_text("A change to recipe 41").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("The program ran, with changes of your own.").wait_for(timeout=60_000)
    page.get_by_text("26.", exact=True).wait_for()
    page.get_by_text("Back to it as it stands").click()
    page.get_by_text("recipe 41 of 63").wait_for()

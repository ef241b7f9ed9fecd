"""Pictures of the running app for the documentation: docs/pictures/SCREEN-light.png and -dark.png,
1400 pixels wide.

A dashboard of its own runs the layer of the tutorial and draws from real results. Run: python -m
bench.pictures [screens]
"""

import sys
from collections.abc import Callable

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from bench.accessible import screens
from bench.browser import answered, settled, visit
from bench.dashboard import LAYER, dashboard
from bench.server import CHROMIUM, ROOT
from spmd_core.experiment import link_path, parse_experiment
from spmd_core.lab import Lab, examples

Shown = Callable[[Page, str, str], object]
FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1400, 900
MOST_BYTES = 200_000
ARRAY = {
    "workload": "array",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"d0": 8, "d1": 16},
    "sharding": {"d0": "y"},
}
# the default of Compare
FIRST = {
    "workload": "normalize",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "sharding": {"rows": "x"},
    "dims": {"rows": 8192, "cols": 1024},
    "strategies": ["single", "auto"],
}
SUM = {"workload": "contraction", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"rows": "x"}}


def compare(page: Page, url: str, run: str) -> None:
    """The answer of what the screen begins with."""
    visit(page, url + link_path(parse_experiment(FIRST), run))
    answered(page)


def _press(page: Page, button: Locator, else_has: str) -> None:
    """Press a button, unless the screen has an answer: the second theme finds it stored."""
    button.or_(page.get_by_role("button", name=else_has)).first.wait_for(timeout=PATIENCE_MS)
    if button.count():
        button.click()


def programs(page: Page, url: str, run: str) -> None:
    """What is wrong with the example step, and where."""
    visit(page, f"{url}/programs").get_by_role("button", name="Try an example").click()
    page.get_by_text("Peak memory").first.wait_for(timeout=3 * PATIENCE_MS)


def layout(page: Page, url: str, run: str) -> None:
    """Who holds what of a small array, and that real devices agree."""
    visit(page, url + link_path(parse_experiment(ARRAY), screen="layout"))
    page.get_by_role("button", name="Place it on devices").click()
    page.get_by_text("holds its shard as drawn").wait_for(timeout=3 * PATIENCE_MS)


def search(page: Page, url: str, run: str) -> None:
    """The best of the question that the screen begins with, compiled."""
    main = visit(page, f"{url}/search").get_by_test_id("stButton")
    _press(page, main.get_by_role("button", name="Search", exact=True), "Download")
    page.get_by_text("Every candidate").first.wait_for(timeout=3 * PATIENCE_MS)
    page.get_by_role("button", name="Cancel").wait_for(state="detached", timeout=10 * PATIENCE_MS)


def predict(page: Page, url: str, run: str) -> None:
    """A training step as its compiler schedules it; the second visit shows the stored answer."""
    visit(page, f"{url}/predict")
    _press(page, page.get_by_role("button", name="Compile", exact=True), "Download")
    page.get_by_role("tab", name="Communication").wait_for(timeout=3 * PATIENCE_MS)


def at(path: str) -> Shown:
    """Returns what draws the screen at an address as it begins."""
    return lambda page, url, run: visit(page, url + path)


EXAMPLES = screens()  # each screen with a result that comes with the program
SCREENS: dict[str, Shown] = {
    "predict": predict,
    "collectives": at("/collectives"),
    "compare": compare,
    "layout": layout,
    "recipes": at("/recipes"),
    "programs": programs,
    "search": search,
    "study": at(EXAMPLES["study"]),
    "side-by-side": at(EXAMPLES["side by side"]),
    "notebook": at("/notebook"),
    "sweep": at("/predict?show=sweep"),
    "serving": at("/predict?show=serving"),
    "overview": at("/"),  # these two list what the others ran
    "history": at("/history"),
}
PATIENCE_MS = 60_000
SKELETON = '[data-testid="stSkeleton"]'


def draw(browser: Browser, screen: str, theme: str, url: str, run: str) -> int:
    """Take one picture; its size in bytes."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    SCREENS[screen](page, url, run)
    settled(page)
    page.wait_for_selector(SKELETON, state="detached")  # elements whose code was still loading
    page.mouse.move(WIDTH - 1, HEIGHT - 1)  # over nothing that lights up
    page.wait_for_timeout(1500)  # charts fade in
    file = FOLDER / f"{screen}-{theme}.png"
    page.screenshot(path=file, animations="disabled")
    context.close()
    return file.stat().st_size


def main() -> int:
    """Draw every screen in both themes; 1 where a picture is too large to be downloaded with a
    page.
    """
    chosen, large = sys.argv[1:] or list(SCREENS), 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, dashboard([SUM, LAYER, ARRAY, FIRST]) as (server, runs):
        lab = Lab.open(server.folder / "data", serve=False)
        with examples.ARCHIVE.open("rb") as file:
            lab.archives.import_file(file)
        lab.close()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for screen in chosen:
            for theme in ("light", "dark"):
                size = draw(browser, screen, theme, server.url, runs[-1])
                large += size > MOST_BYTES
                print(
                    f"docs/pictures/{screen}-{theme}.png: {size:,} bytes (at most {MOST_BYTES:,})"
                )
        browser.close()
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())

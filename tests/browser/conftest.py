import pytest
from playwright.sync_api import BrowserType, Page, expect, sync_playwright

from bench.browser import PATIENCE_MS
from bench.server import CHROMIUM, Server
from spmd_core.experiment import link_path, parse_experiment
from tests.browser.stored import fill

DESKTOP = {"width": 1280, "height": 900}
# a page lives for seconds: threads that optimize its scripts cost more than they save
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--js-flags=--no-opt,--single-threaded"]
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One dashboard for all browser tests."""
    running = Server(tmp_path_factory.mktemp("dashboard"))
    fill(running.folder / "data")
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def viewers(tmp_path_factory):
    """A function that gives the page of a viewer, for all tests, by number: Streamlit's scripts,
    megabytes of them, are fetched and compiled once for each, and kept in its folder.
    """
    with sync_playwright() as playwright:
        pages: dict[int, Page] = {}

        def page(number: int) -> Page:
            if number not in pages:
                folder = tmp_path_factory.mktemp("viewer")
                pages[number] = _window(playwright.chromium, str(folder))
            return pages[number]

        yield page
        for each in pages.values():
            each.context.close()


def _window(chromium: BrowserType, folder: str) -> Page:
    context = chromium.launch_persistent_context(
        folder, executable_path=CHROMIUM, args=ARGUMENTS, viewport=DESKTOP, reduced_motion="reduce"
    )
    # a new viewer has opened no sidebar yet
    context.add_init_script("try { localStorage.clear() } catch {}")  # an error page has none
    context.set_default_timeout(PATIENCE_MS)
    return context.pages[0]


@pytest.fixture
def errors():
    """What the scripts of a test's pages raise: nothing."""
    raised = []
    yield raised
    assert not raised


@pytest.fixture
def page(viewers, errors):
    """A page of a new viewer, as large as on a desk and in the light."""
    yield from _as_new(viewers(0), errors)


@pytest.fixture
def other_page(viewers, errors):
    """That of another viewer."""
    yield from _as_new(viewers(1), errors)


def _as_new(page: Page, errors: list[str]):
    def note(error):
        errors.append(str(error))

    page.context.clear_cookies()
    page.set_viewport_size(DESKTOP)
    page.emulate_media(color_scheme="light", media="screen")
    page.on("pageerror", note)
    yield page
    page.remove_listener("pageerror", note)
    page.unroute_all()
    page.goto("about:blank")  # its session ends: a screen that stays open asks for what is new


@pytest.fixture(scope="session")
def link(server):
    """A function that gives the address of an experiment."""

    def address(run: str | None = None, **spec) -> str:
        defaults = {
            "workload": "layer",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "sharding": {"in": "x"},
        }
        return server.url + link_path(parse_experiment(defaults | spec), run)

    return address


@pytest.fixture(scope="session")
def finished_run(viewers, link) -> str:
    """The address of a finished run of the tutorial's layer."""
    page = viewers(0)
    page.goto(link(timing={"samples": 5, "min_seconds": 0.02}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".st-key-answer").wait_for()
    page.wait_for_url("**&run=*")
    return page.url

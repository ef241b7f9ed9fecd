import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import link_path
from tests.browser.server import PATIENCE_MS, Server
from tests.needs import CHROMIUM

DESKTOP = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One dashboard for all browser tests."""
    running = Server(tmp_path_factory.mktemp("dashboard"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def desktop(browser: Browser):
    """The browser context of all pages that need none of their own: Streamlit's scripts, megabytes
    of them, are fetched and compiled once.
    """
    return browser.new_context(viewport=DESKTOP)


@pytest.fixture
def errors():
    """What the scripts of a test's pages raise: nothing."""
    raised = []
    yield raised
    assert not raised


@pytest.fixture
def new_page(browser: Browser, errors):
    """A function that opens a page in a browser context of its own, as another viewer has it."""
    contexts = []

    def opened(**options) -> Page:
        contexts.append(browser.new_context(**({"viewport": DESKTOP} | options)))
        return watched(contexts[-1].new_page(), errors)

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def page(desktop: BrowserContext, errors):
    """A page of a new viewer: nothing is kept of those before but what the browser fetched."""
    desktop.clear_cookies()
    opened = watched(desktop.new_page(), errors)
    yield opened
    opened.close()


def watched(page: Page, errors: list[str]) -> Page:
    """The page, patient, and with a list that takes the errors of its scripts."""
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page


@pytest.fixture(scope="session")
def link(server):
    """A function that gives the address of an experiment."""

    def address(run: str | None = None, **spec) -> str:
        defaults = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8},
                    "sharding": {"in": "x"}}
        return server.url + link_path(parse_experiment(defaults | spec), run)

    return address


@pytest.fixture(scope="session")
def finished_run(server, desktop, link) -> str:
    """The address of a finished run of the tutorial's layer."""
    page = desktop.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(link(timing={"samples": 5, "min_seconds": 0.02}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".st-key-answer").wait_for(timeout=60_000)
    address = page.url
    page.close()
    assert "&run=" in address
    return address

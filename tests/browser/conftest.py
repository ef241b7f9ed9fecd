import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import link_path
from tests.browser.server import PATIENCE_MS, Server
from tests.needs import CHROMIUM


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


@pytest.fixture
def new_page(browser: Browser):
    """A function that opens a page in a browser context of its own, as another viewer has it; no
    page may raise an error in its script.
    """
    contexts, errors = [], []

    def opened(**options) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors


@pytest.fixture
def page(new_page) -> Page:
    return new_page()


@pytest.fixture(scope="session")
def link(server):
    """A function that gives the address of an experiment."""

    def address(run: str | None = None, **spec) -> str:
        defaults = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8},
                    "sharding": {"in": "x"}}
        return server.url + link_path(parse_experiment(defaults | spec), run)

    return address


@pytest.fixture(scope="session")
def finished_run(server, browser, link) -> str:
    """The address of a finished run of the tutorial's layer."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(link(timing={"samples": 5, "min_seconds": 0.02}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".st-key-answer").wait_for(timeout=60_000)
    address = page.url
    context.close()
    assert "&run=" in address
    return address

"""Pages of a real browser on a dashboard: what a user does there, and what they read."""

import contextlib
import time

from playwright.sync_api import Error, Page, expect

SCRIPT_DONE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
PATIENCE_MS = 90_000  # a machine with other work beside takes many times as long


def settled(page: Page) -> Page:
    """The page, once its script has run to the end."""
    page.wait_for_selector(SCRIPT_DONE, timeout=PATIENCE_MS)
    return page


def visit(page: Page, url: str) -> Page:
    """Open an address and wait until the screen is drawn."""
    page.goto(url)
    # what a screen draws last
    page.get_by_role("button", name="Share").wait_for(timeout=PATIENCE_MS)
    return settled(page)


def answered(page: Page, timeout_s: float = 60.0) -> str:
    """The headline of the finished run that the page shows, once everything below it is drawn."""
    page.get_by_role("tab", name="Details").wait_for(timeout=timeout_s * 1000)
    settled(page)
    return page.locator(".st-key-answer h3").inner_text().replace("\u00a0", " ")


def press_cancel(page: Page) -> None:
    """Press Cancel on a screen that follows a run, again while the run goes on, as a user does.

    Each look draws the button anew: on a busy machine the mouse would wait for it to stand still,
    and
    a press between two looks can be lost.
    """
    button = page.get_by_role("button", name="Cancel")
    button.first.wait_for()
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while button.count() and time.monotonic() < deadline:
        with contextlib.suppress(Error):  # it has just gone
            button.first.evaluate("button => button.click()", timeout=5_000)
        with contextlib.suppress(Error):
            button.first.wait_for(state="detached", timeout=10_000)


def unfold(page: Page, *names: str) -> None:
    """Open the folds of the sidebar whose labels have these words, an outer one before an inner."""
    for name in names:
        label = page.get_by_test_id("stSidebar").locator("summary", has_text=name).first
        if label.locator("..").get_attribute("open") is None:
            label.click()
            settled(page)


def fields_say(page: Page, **values: str) -> None:
    """The fields of these labels come to hold these values; `_` stands for a space."""
    for label, value in values.items():
        expect(page.get_by_label(label.replace("_", " "), exact=True).first).to_have_value(value)


def screen_text(page: Page) -> str:
    """What the user reads in the main part, with spaces as they are on screen."""
    return page.get_by_test_id("stMain").inner_text().replace("\u00a0", " ")

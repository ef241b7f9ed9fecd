"""From the click on Run to the first provisional median on screen, default experiment: with a cold
worker, and with a warm one.

    python -m bench.click_to_median [--rounds 3] [--json]

A real browser on a real dashboard, on this machine. Cold: no worker process runs, and none has.
Each round starts a new dashboard.
"""

import statistics
import time

from playwright.sync_api import Page, sync_playwright

from bench.browser import visit
from bench.dashboard import dashboard
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM

LIMITS_S = {"cold": 6.0, "warm": 2.0}
MEDIANS = ".st-key-live-medians [data-testid=stCaptionContainer]"
ANSWER = ".st-key-answer"


def click_to_median_s(page: Page) -> float:
    """Seconds from the click to the first median on screen, provisional or final; then it waits for
    the answer.
    """
    button = page.get_by_role("button", name="Run", exact=True)
    button.wait_for()
    page.wait_for_timeout(1000)
    began = time.perf_counter()
    button.click()
    page.locator(ANSWER).first.wait_for(state="detached")  # the answer of the run before
    page.wait_for_selector(f"{MEDIANS}, {ANSWER}", timeout=60_000)
    taken = time.perf_counter() - began
    page.wait_for_selector(ANSWER, timeout=120_000)
    return taken


def main(options: Asked, figures: Figures) -> None:
    taken: dict[str, list[float]] = {"cold": [], "warm": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(options.rounds):
            with dashboard([]) as (server, _):
                page = browser.new_page()
                visit(page, f"{server.url}/compare")
                for state in taken:
                    taken[state].append(click_to_median_s(page))
                page.close()
        browser.close()
    for state, values in taken.items():
        note = f"each round: {', '.join(f'{value:.2f}' for value in values)}"
        figures.add(
            f"to the first median, {state} worker",
            statistics.median(values),
            "s",
            most=LIMITS_S[state],
            note=note,
        )


if __name__ == "__main__":
    measure(main, __doc__, rounds=3)

"""Seconds until a stored search of tens of thousands of candidates shows its answer, in a real
browser, from a click on its screen, on a server that has not read it before.

    python -m bench.stored_search [--chips v5p:8] [--rounds 3]
"""

import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.browser import PATIENCE_MS, settled, visit
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, Server
from spmd_core.lab import Lab
from spmd_core.search import AnyQuestion, link, read_question
from spmd_core.trials import searches

MODEL, LOOK_S = "llama-3.1-8b", 0.2  # the search that the screen begins with


def opened_s(page: Page, url: str, words: str) -> float:
    """From a click on Find a sharding until its answer can be read."""
    visit(page, url)
    press = page.get_by_role("link", name="Find a sharding").first
    press.wait_for()
    began = time.monotonic()
    press.click()
    page.get_by_text(words).first.wait_for(timeout=PATIENCE_MS)
    return time.monotonic() - began


def stored(folder: Path, question: AnyQuestion) -> tuple[int, str]:
    """Carry out and store a search; its candidates, and the first word of its winner."""
    lab = Lab.open(folder / "data", serve=False)
    search = searches.start(lab, question, None)
    while not search.is_over:
        time.sleep(LOOK_S)
    winner = search.answer.winner
    assert winner is not None, search.problem
    lab.close()
    return search.answer.space, winner.name.partition(" ")[0]


def main(asked: Asked, figures: Figures) -> None:
    """Open it on servers that were just started."""
    question = read_question({"model": MODEL, "chips": [asked.chips]})
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        space, words = stored(Path(folder), question)
        figures.add("candidates", space, least=40_000, note=link.encode(question)[:20])
        server = Server(Path(folder))
        server.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            for _ in range(asked.rounds):
                page = browser.new_page(viewport={"width": 1400, "height": 900})
                figures.add("stored search opens", opened_s(page, server.url, words), "s", most=1)
                settled(page)
                page.close()
                server.restart()
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    measure(main, __doc__, chips="v5p:8", rounds=3)

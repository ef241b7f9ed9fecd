"""Words of every screen in a real browser, and text that is clipped.

    python -m bench.screens [--screens compare,overview] [--json]

A data folder with the results that come with the program, at 1400 x 900. Words are text of the main
part but for cells of tables, axes, code, and labels of controls. The first figure is a chart, a
picture of shards, or the large figure of a verdict. The page in full has its folds open.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

from bench.accessible import THEMES, WIDTHS, screens
from bench.browser import settled, visit
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, Server
from spmd_core.lab import Lab

FOLD: ViewportSize = {"width": 1400, "height": 900}
LONGEST = 25  # words of a sentence
# [text, y, whether it precedes the first figure] of each block of text
TEXTS = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  const none = 'table, [data-testid="stDataFrame"], svg, canvas, pre, code, label, button, input, '
    + 'textarea, [role="tab"], [data-testid="stIconMaterial"], .st-key-menu, style, script';
  const first = [...main.querySelectorAll('.figure, canvas, svg.marks, [data-testid="stVegaLiteChart"]')]
    .find(each => each.getBoundingClientRect().height > 0);
  const blocks = new Map(), walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest(none) || !element.checkVisibility()) continue;
    const block = element.closest('p, li, h1, h2, h3, h4, summary, div') ?? element;
    const box = block.getBoundingClientRect();
    if (!box.height || !box.width) continue;
    const known = blocks.get(block) ?? {text: '', y: box.top, before: first
      ? !!(block.compareDocumentPosition(first) & Node.DOCUMENT_POSITION_FOLLOWING) : false};
    known.text += node.textContent;
    blocks.set(block, known);
  }
  return {figure: !!first, blocks: [...blocks.values()]}; }"""
# texts that are wider than the element that hides what is beyond it
CLIPPED = """() => [...document.querySelectorAll('[data-testid="stApp"] *')].filter(each => {
    const style = getComputedStyle(each);
    return each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 1
      && ['hidden', 'clip'].includes(style.overflowX) && each.innerText?.trim()
      && [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
      && !each.closest('[data-testid="stDataFrame"], input, select, [data-baseweb="select"]'); })
  .map(each => each.innerText.trim().slice(0, 60))"""


def count(texts: list[str]) -> int:
    """How many words texts have."""
    return sum(len(text.split()) for text in texts)


def read(page: Page) -> dict[str, Any]:
    """The words of an open screen."""
    found = page.evaluate(TEXTS)
    return {
        "before": count([each["text"] for each in found["blocks"] if each["before"]]),
        "has_figure": found["figure"],
        "fold": count([each["text"] for each in found["blocks"] if each["y"] < FOLD["height"]]),
    }


def in_full(page: Page) -> list[str]:
    """The texts of a screen with every fold open."""
    folds = page.get_by_test_id("stMain").locator("details:not([open]) > summary")
    for _ in range(folds.count()):
        if not folds.count():
            break
        folds.first.evaluate("fold => fold.click()")
        settled(page)
    return [each["text"] for each in page.evaluate(TEXTS)["blocks"]]


def long_sentences(texts: list[str]) -> list[str]:
    """Sentences of more than LONGEST words."""
    every = [part for text in texts for part in re.split(r"(?<=[.?!])\s+| · ", text.strip())]
    return [each for each in every if len(each.split()) > LONGEST]


def clipped(page: Page) -> list[str]:
    """Texts that are clipped at some width, in some theme."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(300)
            found += [f"{width} {theme}: {text}" for text in page.evaluate(CLIPPED)]
    page.set_viewport_size(FOLD)
    page.emulate_media(color_scheme="light")
    return found


def main(asked: Asked, figures: Figures) -> None:
    """Look at every screen."""
    wanted = [name for name in asked.screens.split(",") if name]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        Lab.open(Path(folder) / "data", serve=False).archives.take_examples()
        server = Server(Path(folder))
        server.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=FOLD)
        try:
            for name, address in screens().items():
                if not wanted or name in wanted:
                    visit(page, server.url + address)
                    page.wait_for_timeout(1000)
                    add(figures, name, page)
        finally:
            browser.close()
            server.stop()


def add(figures: Figures, name: str, page: Page) -> None:
    """Add the figures of an open screen."""
    words = read(page)
    if words["has_figure"]:
        figures.add(f"{name}: words before the first figure", words["before"], most=40)
    figures.add(f"{name}: words above the fold", words["fold"], most=120)
    hidden = clipped(page)
    figures.add(f"{name}: texts clipped", len(hidden), most=0, note="; ".join(hidden[:3]))
    texts = in_full(page)
    figures.add(f"{name}: words in full", count(texts))
    long = long_sentences(texts)
    figures.add(
        f"{name}: sentences over {LONGEST} words", len(long), most=0, note=" ".join(long[:1])
    )


if __name__ == "__main__":
    measure(main, __doc__, screens=("", "names of screens, all by default"))

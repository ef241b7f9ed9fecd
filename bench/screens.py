"""Words of every screen in a real browser, text that is clipped or overlaps, presses to answers.

    python -m bench.screens [--screens compare,overview] [--json]

A data folder with the results that come with the program, at 1400 x 900. Words are text of the main
part but for cells of tables, axes, code, and labels of controls. The first figure is a chart, a
picture of shards, or the large figure of a verdict. The page in full has its folds open.
"""

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

from bench.accessible import THEMES, WIDTHS, screens
from bench.browser import PATIENCE_MS, settled, visit
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, ROOT, Server
from spmd_core.lab import Lab

FOLD: ViewportSize = {"width": 1400, "height": 900}
LONGEST = 25  # words of a sentence
# [text, y, whether it precedes the first figure] of each block of text
TEXTS = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  const none = 'table, [data-testid="stDataFrame"], svg, canvas, pre, code, label, button, input, [role="img"], '
    + 'textarea, [role="tab"], [data-testid="stIconMaterial"], .st-key-menu, style, script';
  const first = [...main.querySelectorAll('.figure, .five > :first-child b, img.picture, img.glimpse, canvas, svg.marks, [data-testid="stVegaLiteChart"]')]
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

# texts of different elements, each over more than a fifth of a line of the other
OVERLAPPING = """() => {
  const main = document.querySelector('[data-testid="stMain"]'), lines = [];
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility({opacityProperty: true})
      || element.closest('svg, pre, style, script, [data-testid="stDataFrame"], [role="tooltip"]')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let top = -Infinity, bottom = Infinity, left = -Infinity, right = Infinity;  // of what its scrolling boxes show
    for (let each = element; each && each !== main; each = each.parentElement)
      if (getComputedStyle(each).overflowY !== 'visible') {
        const box = each.getBoundingClientRect();
        top = Math.max(top, box.top), bottom = Math.min(bottom, box.bottom);
        left = Math.max(left, box.left), right = Math.min(right, box.right);
      }
    for (const all of range.getClientRects()) {
      const box = {left: Math.max(all.left, left), right: Math.min(all.right, right),
        top: Math.max(all.top, top), bottom: Math.min(all.bottom, bottom)};
      box.height = box.bottom - box.top;
      if (box.right - box.left > 4 && box.height > 4)
        lines.push({box, element, text: node.textContent.trim()});
    }
  }
  const found = [];
  for (let a = 0; a < lines.length; a++) for (let b = a + 1; b < lines.length; b++) {
    const one = lines[a], other = lines[b];
    if (one.element === other.element || one.element.contains(other.element)
      || other.element.contains(one.element)) continue;
    const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
    const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
    if (across > 3 && down > 0.2 * Math.min(one.box.height, other.box.height))
      found.push(one.text.slice(0, 30) + ' | ' + other.text.slice(0, 30));
  }
  return found; }"""
EXAMPLE = ROOT / "spmd_core" / "recipes" / "example.jaxexport"
# question -> what is done from a fresh Overview, and what then has the answer: a label is pressed,
# (label, text) is typed, a file is handed in by one press
PRESSES: dict[str, tuple[tuple[str | tuple[str, str] | Path, ...], str, int]] = {
    "who holds what": (("Who holds what?",), '[data-testid="stVegaLiteChart"]', 1),
    "a win on 16 TPUs": (("Take the tour",), '[data-testid="stVegaLiteChart"]', 1),
    "a timeline": (("Take the tour", "Next: "), ".timeline .field canvas", 3),
    "fastest, and why": (("What runs fastest here, and why?", "Run"), ".st-key-answer h3", 2),
    "a 70B plan with dollars and days": (
        ("Does it fit, and how long does it take?", ("Model", "llama-3.1-70b"), ("Price per chip-hour ($)", "v5e=1.2")),
        '.five:has(b:has-text(" days")) b:has-text("$")',
        2,
    ),
    "my own exported step": (("What is wrong with my step?", EXAMPLE), ".st-key-answer-wrong", 3),
    "a remedy": (("What runs fastest here, and why?", "Run", "Try changes"), '[data-testid="stMain"] :text("The first change that may help")', 3),
}  # fmt: skip


# screen -> what is typed and pressed on it before it is read, and what it then has
DEFAULT_RUNS: dict[str, tuple[str, tuple[str | tuple[str, str], ...], str]] = {
    "compare, run": ("/compare", ("Run",), ".st-key-answer h3"),
    "programs, opened": ("/programs", ("Try an example",), ".st-key-answer-wrong"),
    "search, answered": (
        "/search",
        (("Compile for at most (s)", "0"), "Search"),
        '[data-testid="stMain"] :text("Ranking")',
    ),
}


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
    """Texts that are clipped or overlap at some width, in some theme."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(300)
            found += [f"{width} {theme}: {text}" for text in page.evaluate(CLIPPED)]
            if theme == "light":  # colors move nothing
                found += [f"{width}: {text}" for text in page.evaluate(OVERLAPPING)]
    page.set_viewport_size(FOLD)
    page.emulate_media(color_scheme="light")
    return found


def press(page: Page, steps: Sequence[str | tuple[str, str] | Path]) -> None:
    """Press labels, type (label, text), hand files in."""
    for step in steps:
        if isinstance(step, Path):
            page.locator("input[type=file]").first.set_input_files(step)
        elif isinstance(step, tuple):
            field = page.get_by_label(step[0], exact=True).first
            field.fill(step[1])
            field.press("Enter")
        else:
            button = page.get_by_role("button", name=step, exact=True).locator("visible=true")
            text = page.get_by_text(step).locator("visible=true")
            button.or_(text).first.wait_for(timeout=PATIENCE_MS)
            page.wait_for_timeout(500)  # a button's own code may load after a text of its name
            (button if button.count() else text).first.click(timeout=PATIENCE_MS)
        page.wait_for_timeout(500)  # until the browser has sent it
        settled(page)


def presses(page: Page, url: str, figures: Figures) -> None:
    """How many presses lead from a fresh start to the answers of some questions."""
    for question, (steps, answer, most) in PRESSES.items():
        visit(page, url)
        press(page, steps)
        began = time.monotonic()
        page.locator(answer).first.wait_for(timeout=3 * PATIENCE_MS)
        took_s = time.monotonic() - began
        if question == "a remedy":
            figures.add("first change that may help, shown", took_s, "s", most=20)
        note = f"{took_s:.0f} s after the last"
        pressed = sum(not isinstance(step, tuple) for step in steps)
        figures.add(f"presses to: {question}", pressed, most=most, note=note)


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
            if not wanted or "presses" in wanted:
                presses(page, server.url, figures)
            every = {name: (address, (), "h1") for name, address in screens().items()}
            for name, (address, steps, answer) in (every | DEFAULT_RUNS).items():
                if not wanted or name.partition(",")[0] in wanted:
                    visit(page, server.url + address)
                    press(page, steps)
                    page.locator(answer).first.wait_for(timeout=3 * PATIENCE_MS)
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
    figures.add(
        f"{name}: texts clipped or overlapping", len(hidden), most=0, note="; ".join(hidden[:3])
    )
    texts = in_full(page)
    figures.add(f"{name}: words in full", count(texts))
    long = long_sentences(texts)
    figures.add(
        f"{name}: sentences over {LONGEST} words", len(long), most=0, note=" ".join(long[:1])
    )


if __name__ == "__main__":
    measure(main, __doc__, screens=("", "names of screens, all by default"))

"""What axe-core finds on every screen, in both themes, at three widths.

    npm install --prefix FOLDER axe-core
    python -m bench.accessible --axe FOLDER/node_modules/axe-core/axe.min.js [--screens history,compare]

A data folder with the results that come with the program; screens that show one show it, some also
after a field was edited: refused, with the answer of others below, or with a stale answer. A fault is
ours where the element is of our own markup, or what it lacks is ours to give (a name, a text, a
color of the theme); what Streamlit's own elements do is listed, and not counted.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright

from bench.browser import PATIENCE_MS, settled, unfold, visit
from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM, Server
from spmd_core.lab import Lab, examples

WIDTHS = (390, 1000, 1400)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SERIOUS = ("serious", "critical")
# Rules of what Streamlit alone makes: (rule, part of the element's HTML or path)
STREAMLITS = (
    ("aria-required-children", "stDataFrame"),
    ("scrollable-region-focusable", ""),  # its own containers that scroll
    ("aria-hidden-focus", "stDataFrame"),
    ("nested-interactive", "stExpander"),
    ("nested-interactive", "stFileUploader"),
    ("aria-allowed-attr", "st-"),
    ("aria-allowed-attr", "data-baseweb"),
    ("aria-input-field-name", "data-baseweb"),
    ("aria-prohibited-attr", "stHeader"),
)


def screens() -> dict[str, str]:
    """Name and address of each screen, with a stored result where it shows one."""
    ids = examples.run_ids()
    step, other = ids[8], ids[9]
    return {
        "overview": "/",
        "layout": "/layout",
        "compare": f"/compare?run={ids[0]}",
        "communication": f"/compare?run={ids[1]}&tab=Communication",
        "fix it": f"/compare?run={ids[0]}&tab=Fix+it",
        "study": f"/compare?run={ids[6]}",
        "predict": f"/predict?run={step}",
        "sweep": "/predict?show=sweep",
        "serving": "/predict?show=serving",
        "search": "/search",
        "collectives": f"/collectives?run={ids[7]}",
        "recipes": "/recipes",
        "programs": "/programs",
        "notebook": "/notebook",
        "history": "/history",
        "side by side": f"/history?runs={step},{other}",
    } | {name: address for name, (address, *_) in edited().items()}


def edited() -> dict[str, tuple[str, str, str, str]]:
    """Address, fold of the sidebar, field and what is typed there: a value that is refused, or one
    whose answer is not known yet.
    """
    ids = examples.run_ids()
    return {
        "layout refused": ("/layout", "", "Array shape", "5, 8"),
        "compare refused": (f"/compare?run={ids[0]}", "Sizes", "in", "30"),
        "compare edited": (f"/compare?run={ids[0]}", "Sizes", "in", "256"),
        "predict refused": (f"/predict?run={ids[8]}", "Change the plan", "Tokens in each", "100"),
        "search refused": ("/search", "", "Chips", "v9:8"),
    }


def edit(page: Page, name: str) -> None:
    """Type what a screen of `edited` is edited by, and wait for what it says of that."""
    _, fold, label, value = edited()[name]
    if (button := page.get_by_test_id("stExpandSidebarButton")).is_visible():
        button.click()
    if fold:
        unfold(page, fold)
    field = page.get_by_label(label, exact=True).first
    field.fill(value)
    field.press("Enter")
    page.locator(".st-key-refused, .st-key-stale").first.wait_for(timeout=PATIENCE_MS)
    settled(page)


def faults(page: Page, axe: str) -> Iterator[tuple[str, str, str]]:
    """Rule, path and HTML of every element with a serious fault."""
    page.evaluate(axe)
    options = {
        "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
        "resultTypes": ["violations"],
    }
    done: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    for each in done["violations"]:
        if each["impact"] in SERIOUS:
            for node in each["nodes"]:
                yield each["id"], " ".join(map(str, node["target"])), node["html"][:240]


def is_streamlits(rule: str, path: str, html: str) -> bool:
    """Whether it is what Streamlit's own elements do, whatever they are given."""
    return any(rule == known and part in path + html for known, part in STREAMLITS)


def look(page: Page, server: Server, axe: str, wanted: list[str]) -> tuple[Counter, Counter]:
    """Faults of ours and of Streamlit, by rule and element, over the screens."""
    ours: Counter[tuple[str, str, str]] = Counter()
    streamlits: Counter[tuple[str, str, str]] = Counter()
    for name, address in screens().items():
        if wanted and name not in wanted:
            continue
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1000})
            print(f"{name} at {width}", file=sys.stderr, flush=True)
            settled(visit(page, server.url + address))
            if name in edited():
                edit(page, name)
            page.wait_for_timeout(700)
            for rule, path, html in faults(page, axe):
                kept = streamlits if is_streamlits(rule, path, html) else ours
                kept[rule, name, html] += 1
    return ours, streamlits


def main(options: Asked, figures: Figures) -> None:
    axe = options.axe.read_text("utf-8")
    wanted = [name for name in options.screens.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="spmd-lab-axe-") as folder:
        lab = Lab.open(Path(folder) / "data", serve=False)
        lab.archives.take_examples()
        lab.close()
        server = Server(Path(folder))
        server.start()
        try:
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
                for theme in THEMES:
                    page = browser.new_page(color_scheme=theme)
                    ours, streamlits = look(page, server, axe, wanted)
                    page.close()
                    for whose, listed in (("ours", ours), ("Streamlit's", streamlits)):
                        for (rule, name, html), count in listed.most_common(40):
                            print(f"{theme} {whose}: {rule} on {name}, {count} times: {html}")
                    figures.add(f"serious faults of ours, {theme}", ours.total(), most=0)
                    figures.add(f"serious faults of Streamlit's, {theme}", streamlits.total())
        finally:
            server.stop()


if __name__ == "__main__":
    measure(main, __doc__, axe={"type": Path, "required": True}, screens="")

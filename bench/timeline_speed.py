"""How soon a timeline is there: opened, zoomed, and a loop of it entered, in a browser; of the step
of a 70B model on 512 chips (about two minutes of compiling first), or of a run that is stored.

    python -m bench.timeline_speed [--data FOLDER --run RUN] [--json]
"""

import argparse
import statistics
import sys
import tempfile
import time
import zlib
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.browser import visit
from bench.figures import Figures
from bench.server import CHROMIUM, Server
from spmd_core.experiment.link import link_path
from spmd_core.experiment.plan.reading import parse_plan
from spmd_core.experiment.plans import experiment_of
from spmd_core.lab import Lab
from spmd_core.pictures.timeline.text import NAME, from_text

PLAN = {
    "target": "tpu:v5p:8x8x8",
    "model": "llama-2-70b",
    "mesh": [["fsdp", 512]],
    "batch_per_device": 4,
    "sequence": 4096,
}
COMPILE_S = 1800
REPEATS = 7
# resolves once the canvas has been drawn again, with the milliseconds since `act` was called
UNTIL_DRAWN = """async ([selector, act]) => {
  const root = [...document.querySelectorAll("*")].map((each) => each.shadowRoot)
    .find((each) => each && each.querySelector(".timeline"))?.querySelector(".timeline")
    || document.querySelector(".timeline");
  const before = root.dataset.drawn, begun = performance.now();
  const canvas = root.querySelector("canvas");
  if (act === "wheel") canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -120,
    clientX: canvas.getBoundingClientRect().left + 400, bubbles: true, cancelable: true }));
  else canvas.dispatchEvent(new KeyboardEvent("keydown", { key: act, bubbles: true }));
  while (root.dataset.drawn === before) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a data folder whose lock nobody holds")
    parser.add_argument("--run", help="a run of it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = Figures(arguments.json)
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as temporary:
        folder = arguments.data.resolve() if arguments.data else Path(temporary) / "data"
        run, query = _stored(folder, arguments.run, figures)
        server = Server(Path(temporary))
        if arguments.data:
            (Path(temporary) / "data").symlink_to(folder)
        server.start()
        try:
            _browse(server, f"{query}&run={run}" if "run=" not in query else query, figures)
        finally:
            server.stop()
    return figures.finish()


def _stored(folder: Path, run: str | None, figures: Figures) -> tuple[str, str]:
    """A run with a timeline, its path; it is compiled where none is named."""
    lab = Lab.open(folder)
    try:
        if run is None:
            run = lab.submit(experiment_of(parse_plan(PLAN)))
            status = lab.wait(run, COMPILE_S)
            if status.state != "succeeded":
                raise SystemExit(f"the run to show {status.state}: {status.error}")
        experiment = lab.status(run).experiment
        text = lab.text(run, experiment.strategies[0], NAME)
        if text is None:
            raise SystemExit(f"run {run} has no timeline: it was predicted before they were kept")
        stored = len(zlib.compress(text.encode()))
        figures.add("the timeline as it is stored, compressed", stored / 1e3, "kB", most=300)
        spans = sum(1 for _ in from_text(text).all_spans())
        figures.add("operations in it", spans, least=100)
        return run, link_path(experiment, run, "predict")
    finally:
        lab.close()


def _browse(server: Server, query: str, figures: Figures) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(120_000)
        visit(page, server.url + query)
        page.locator(".timeline canvas").wait_for()
        waits = [opened(page, "Time", "Beside") for _ in range(REPEATS)]
        figures.add(
            "opened: from the click on its tab, median",
            statistics.median(waits),
            "ms",
            most=500,
            note=f"worst {max(waits):.0f} ms",
        )
        for what, act, most in (
            ("a loop entered", "Enter", 300),
            ("zoomed by the wheel", "wheel", 100),
            ("zoomed by a key", "+", 100),
            ("panned by a key", "ArrowRight", 100),
        ):
            taken = []
            for _ in range(REPEATS):
                taken.append(page.evaluate(UNTIL_DRAWN, ["", act]))
                if act == "Enter":
                    page.evaluate(UNTIL_DRAWN, ["", "Backspace"])
            figures.add(
                f"{what}, median",
                statistics.median(taken),
                "ms",
                most=most,
                note=f"worst {max(taken):.0f} ms",
            )
        browser.close()


def opened(page: Page, tab: str, other: str) -> float:
    """Milliseconds from a click on a tab to its timeline, drawn; from another tab each time."""
    page.get_by_role("tab", name=other).click()
    page.locator(".timeline canvas").wait_for(state="detached")
    page.wait_for_timeout(500)
    begun = time.perf_counter()
    page.get_by_role("tab", name=tab).click()
    page.wait_for_selector(".timeline[data-drawn]")
    return 1e3 * (time.perf_counter() - begun)


if __name__ == "__main__":
    sys.exit(main())

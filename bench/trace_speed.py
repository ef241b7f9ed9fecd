"""How soon a traced step is there: its tab opened, zoomed, an operation clicked, in a browser; of
the transformer block on 8 simulated devices (about half a minute of running first).

    python -m bench.trace_speed [--json]
"""

import argparse
import statistics
import sys
import tempfile
import zlib
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.browser import visit
from bench.figures import Figures
from bench.server import CHROMIUM, Server
from bench.timeline_speed import UNTIL_DRAWN, opened
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import link_path
from spmd_core.lab import Lab
from spmd_core.pictures.timeline.text import TRACED, from_text

BLOCK = {
    "workload": "transformer_block",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "sharding": {"batch": "x", "heads": "y", "kv_heads": "y", "mlp": "y"},
    "strategies": ["auto"],
    "options": {"trace": True},
    "timing": {"samples": 5, "min_seconds": 0.05},
}
RUN_S, REPEATS, MOST_MS = 600, 7, 300
# Resolves, with milliseconds, once a click on the longest operation has brought its facts
_CLICKED = """async () => {
  const root = [...document.querySelectorAll("*")].map((each) => each.shadowRoot)
    .find((each) => each && each.querySelector(".timeline"))?.querySelector(".timeline")
    || document.querySelector(".timeline");
  const canvas = root.querySelector("canvas"), box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  const begun = performance.now();
  for (let across = 0.3; across < 0.95; across += 0.02) {
    const at = { clientX: box.left + across * box.width, clientY: box.top + 34, bubbles: true,
      pointerId: 1, button: 0 };
    for (const type of ["pointerdown", "pointerup", "click"]) {
      const made = type === "click" ? new MouseEvent(type, at) : new PointerEvent(type, at);
      canvas.dispatchEvent(made);
    }
    await new Promise(requestAnimationFrame);
    if (root.querySelector(".pick code")) return performance.now() - begun;
  }
  return -1;
}"""


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    figures = Figures(parser.parse_args().json)
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as temporary:
        run = _traced(Path(temporary) / "data", figures)
        server = Server(Path(temporary))
        server.start()
        try:
            _browse(server, f"{link_path(parse_experiment(BLOCK), run, 'compare')}", figures)
        finally:
            server.stop()
    return figures.finish()


def _traced(folder: Path, figures: Figures) -> str:
    """A run of the block with its trace; how large that is."""
    lab = Lab.open(folder)
    try:
        run = lab.submit(parse_experiment(BLOCK))
        status = lab.wait(run, RUN_S)
        text = lab.text(run, "auto", TRACED)
        if status.state != "succeeded" or text is None:
            raise SystemExit(f"the run to show {status.state}: {status.error}")
        stored = len(zlib.compress(text.encode()))
        figures.add("the trace as it is stored, compressed", stored / 1e3, "kB", most=300)
        whole = from_text(text).scenes[0]
        figures.add("operations in it", len(whole.spans), least=100)
        return run
    finally:
        lab.close()


def _browse(server: Server, query: str, figures: Figures) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1400})
        page.set_default_timeout(120_000)
        visit(page, server.url + query)
        page.locator(".timeline canvas").wait_for()
        _add(
            figures,
            "opened: from the click on its tab",
            [opened(page, "Trace", "Machine") for _ in range(REPEATS)],
        )
        for what, act in (("zoomed by the wheel", "wheel"), ("zoomed by a key", "+")):
            taken = [page.evaluate(UNTIL_DRAWN, ["", act]) for _ in range(REPEATS)]
            _add(figures, what, taken)
        page.evaluate(UNTIL_DRAWN, ["", "0"])
        _add(
            figures,
            "clicked: until its facts are there",
            [page.evaluate(_CLICKED) for _ in range(REPEATS)],
        )
        browser.close()


def _add(figures: Figures, what: str, taken: list[float]) -> None:
    if min(taken) < 0:
        raise SystemExit(f"{what}: nothing was there to act on")
    figures.add(
        f"{what}, median",
        statistics.median(taken),
        "ms",
        most=MOST_MS,
        note=f"worst {max(taken):.0f} ms",
    )


if __name__ == "__main__":
    sys.exit(main())

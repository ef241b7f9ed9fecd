"""The HTML report of a study of 12 variants, run here: its size, whether a browser without a
network shows all of it, and whether its numbers are those of the JSON.

    python -m bench.study_report [--json]
"""

import json
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bench.figures import Asked, Figures, measure
from bench.server import CHROMIUM
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.reports import Subject, html_text, report_document
from spmd_core.results import result_json

VARIANTS, MOST_BYTES = 12, 10**6
BASE: dict[str, Any] = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "sharding": {"batch": "x"},
    "dims": {"batch": 64, "in": 64, "out": 64},
    "strategies": ["auto", "single"],
    "timing": {"samples": 20, "min_seconds": 0.02},
    "variants": [
        {"name": f"{number}", "changes": {"sharding": {dim: "x"}, "mesh": [["x", size]]}}
        for number, (dim, size) in enumerate(
            (dim, size) for dim in ("batch", "in", "out") for size in (1, 2, 4, 8)
        )
    ],
}


class Numbers(HTMLParser):
    """Every exact number of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.values: list[float] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the value of each `<data>`."""
        if tag == "data":
            self.values.append(float(dict(attrs)["value"] or "nan"))


def leaves(value: Any) -> Iterator[float]:
    """Every number of a JSON value."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def shown(text: str, figures: Figures) -> None:
    """What a browser without a network shows of the page, and asks for."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = Path(folder) / "report.html"
        path.write_text(text, "utf-8")
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        context = browser.new_context(offline=True, java_script_enabled=False)
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        figures.add("requests of the page but for itself", len(asked) - 1, most=0)
        figures.add("tables", page.locator("table").count(), least=3)
        figures.add("charts", page.locator("svg").count(), least=1)
        browser.close()


def main(_: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder), serve=False)
        run = lab.submit(parse_experiment(BASE))
        status = lab.wait(run)
        result = lab.result(run)
        if status.state != "succeeded" or result is None:
            raise SystemExit(f"the study {status.state}: {status.error}")
        (summary,) = lab.history(runs=[run])
        text = html_text(report_document([Subject(summary, result)]))
        known = set(leaves(json.loads(json.dumps(result_json(result)))))
        lab.close()
    values = Numbers(text).values
    figures.add("size of the report", len(text.encode()), "bytes", most=MOST_BYTES)
    figures.add("numbers", len(values), least=VARIANTS * 20)
    figures.add("numbers that the JSON has not", sum(each not in known for each in values), most=0)
    shown(text, figures)


if __name__ == "__main__":
    measure(main, __doc__)

"""The results that come with the program: runs each of them here, and writes the archive that a new
data folder takes in: `python -m bench.first_results [--folder FOLDER]`. A folder continues where it
ended. The texts are in `spmd_core/lab/examples/specs.json`.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab, examples
from spmd_core.recipes import get_recipe
from spmd_core.runs import EXAMPLES

MOST_KIB = 512


def taken(lab: Lab, entry: dict[str, Any]) -> str | None:
    """The run of one example, labeled; None where it failed."""
    recipe = entry.get("recipe")
    experiment = get_recipe(recipe).experiment if recipe else parse_experiment(entry["spec"])
    run = lab.latest(experiment)
    if run is None:
        run = lab.submit(experiment)
        status = lab.wait(run)
        print(f"{entry['name']}: {status.state}", flush=True)
        if status.state != "succeeded":
            return None
    labels = {"name": entry["name"], "note": entry["note"], "tags": tuple(entry["tags"])}
    lab.notebook.label(run, **labels)
    return run


def main(options: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        lab = Lab.open(options.folder or Path(temporary), serve=False)
        texts = json.loads(examples.SPECS.read_text("utf-8"))
        runs = [taken(lab, entry) for entry in texts["runs"]]
        failed = runs.count(None)
        figures.add("examples that failed", failed, most=0)
        if not failed:
            with examples.ARCHIVE.open("wb") as file:
                lab.archives.export([run for run in runs if run], file, EXAMPLES)
            figures.add("archive", examples.ARCHIVE.stat().st_size / 1024, "KiB", most=MOST_KIB)
        lab.close()


if __name__ == "__main__":
    measure(main, __doc__, folder=Path)

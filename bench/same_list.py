"""`run`, `predict` and the screen show the same list for the same module: 40 programs; needs
libtpu.

    python -m bench.same_list
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.communicating import EXPERIMENTS, FSDP_LIKE, SLICES, on
from bench.compiled import own_lab, results
from bench.figures import Figures
from spmd_core.program.communication.rows import rows
from spmd_core.results.result import Result
from ui.compare.communication_table import summed
from ui.predict.tables import collectives_table

KEYS = (
    "kind",
    "asked",
    "axes",
    "groups",
    "bytes",
    "count",
    "bytes_total",
    "op",
    "source",
    "reason",
    "asynchronous",
    "seconds",
    "exposed_s",
    "bound_s",
    "seconds_total",
    "exposed_total_s",
    "route",
)


def main() -> int:
    """Print what differs and the figure; 1 where anything does."""
    specs = [on(spec, "tpu:v5e:4x4") for spec in (*EXPERIMENTS, *FSDP_LIKE)] + list(SLICES)
    good = 0
    with own_lab() as lab, tempfile.TemporaryDirectory() as folder:
        for spec, result in results(lab, specs, ["auto"]):
            wrong = differences(spec, result, Path(folder) / "spec.json")
            good += not wrong
            for line in wrong:
                print(f"{spec['workload']} {spec['sharding']}: {line}", flush=True)
    figures = Figures()
    figures.add(f"one list in run, predict and on screen, of {len(specs)}", good, least=len(specs))
    return figures.finish()


def differences(spec: dict[str, Any], result: Result, file: Path) -> list[str]:
    """Where the list of a stored run, that of `predict`, and the rows of both screens differ."""
    ran = json.loads(result.model_dump_json())["strategies"]["auto"]["collectives"]
    predicted = of_predict(spec, file)
    wrong = [f"run lacks {key}" for key in KEYS if any(key not in each for each in ran)]
    if ran != predicted:
        wrong.append(f"run lists {len(ran)}, predict {len(predicted)}, or they differ in a key")
    prediction, collectives = (
        result.strategies["auto"].prediction,
        result.strategies["auto"].collectives,
    )
    assert prediction is not None and collectives is not None
    shown = collectives_table(prediction)
    if Counter(id(each) for row in rows(prediction.collectives) for each in row.members) != Counter(
        map(id, prediction.collectives)
    ):
        wrong.append("the rows of the Predict screen leave one out, or show one twice")
    whole = sum(each["count"] or 0 for each in ran)
    if (
        all(each["count"] is not None for each in ran)
        and sum(int(text.replace(",", "")) for text in shown["Times"]) != whole
    ):
        wrong.append(f"the Predict screen counts {shown['Times']}, the list {whole}")
    if sum(each.count or 0 for each in summed(collectives)) != whole:
        wrong.append("the Compare screen counts otherwise than the list")
    late = [each["name"] for each in ran if each["exposed_s"] > each["seconds"]]
    return wrong + [f"{name} is exposed for longer than it takes" for name in late]


def of_predict(spec: dict[str, Any], file: Path) -> list[dict[str, Any]]:
    """The list that the command prints."""
    file.write_text(json.dumps(spec | {"strategies": ["auto"]}))
    words = [sys.executable, "-m", "spmd_core", "predict", str(file), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["collectives"]


if __name__ == "__main__":
    sys.exit(main())

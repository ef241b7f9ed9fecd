"""Do answers repeat? One study and one search, each asked of the command line again and again, in
processes and data folders of their own: no two may name winners that contradict each other, each by
an interval that excludes 1.

Run: python -m bench.repeated_answers [--folder F] [--times 10] [--seconds 800] Answers that the
folder has are not asked again, so that it goes on where it was ended; none is asked after
`--seconds`, and the figures are of those that are there.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure

LAYER = {
    "workload": "layer",
    "target": "cpu:4",
    "dims": {"batch": 256, "in": 256, "out": 256},
    "strategies": ["auto", "shard_map"],
    "mesh": {"x": 4},
}
STUDY = {
    "study": [
        {"name": dim, "experiment": LAYER | {"sharding": {dim: "x"}}}
        for dim in ("batch", "out", "in")
    ]
}
SEARCH = {**LAYER, "sharding": None, "strategies": ["auto"]}
BUDGET_S = "120"
Won = set[tuple[str, str]]  # (faster, slower), by verdict


def asked(command: list[str], spec: dict[str, Any]) -> dict[str, Any]:
    """What the command line answers, of a folder with nothing in it."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "spmd_core", *command, "-", "--json"],
            input=json.dumps(spec),
            env=os.environ | {"SPMD_LAB_DATA": folder},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_study() -> tuple[str, Won]:
    answer = asked(["run"], STUDY)["comparison"]
    return answer["sentence"], {
        (answer["fastest"], each["strategy"])
        for each in answer["ratios"]
        if each["verdict"] == "faster"
    }


def of_search() -> tuple[str, Won]:
    proof = asked(["search", "--budget", BUDGET_S], SEARCH)["proof"]
    if proof is None:
        return "nothing was proven", set()
    return proof["sentence"], {
        (proof["faster"], each["name"]) for each in proof["compared"] if each["verdict"] == "faster"
    }


def contradictions(answers: list[Won]) -> int:
    """Pairs of answers in which one has a faster than b, and the other b faster than a."""
    return (
        sum(
            any((slower, faster) in other for faster, slower in one)
            for one, other in permutations(answers, 2)
        )
        // 2
    )


def kept(path: Path) -> list[tuple[str, Won]]:
    """(sentence, what was faster than what) of each answer that is there."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [(sentence, {(faster, slower) for faster, slower in won}) for sentence, won in rows]


def main(options: Asked, figures: Figures) -> None:
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        kinds = {"study": of_study, "search": of_search}
        for _ in range(options.times):
            for name, asked_of in kinds.items():
                path = folder / f"{name}.jsonl"
                if len(kept(path)) < options.times and time.monotonic() < end:
                    sentence, won = asked_of()
                    print(f"  {name}: {sentence}", flush=True)
                    with path.open("a") as file:
                        file.write(json.dumps([sentence, sorted(won)]) + "\n")
        for name in kinds:
            found = [won for _, won in kept(folder / f"{name}.jsonl")]
            named = sum(bool(each) for each in found)
            figures.add(
                f"{name}: contradicting winners",
                contradictions(found),
                most=0,
                note=f"{len(found)} times, load {os.getloadavg()[0]:.0f}; {named} found something slower",
            )


if __name__ == "__main__":
    measure(main, __doc__, folder=(Path, "keeps the answers"), times=10, seconds=800.0)

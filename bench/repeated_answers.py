"""Do answers repeat? One study and one search, each asked of the command line again and again, in
processes and data folders of their own: no two may name winners that contradict each other, each by
an interval that excludes 1.

Run: python -m bench.repeated_answers [times each]
"""

import json
import os
import subprocess
import sys
import tempfile
from itertools import permutations
from typing import Any

from bench.figures import Figures

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


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    figures = Figures()
    for name, ask in (("study", of_study), ("search", of_search)):
        found = []
        for _ in range(count):
            sentence, won = ask()
            print(f"  {name}: {sentence}", flush=True)
            found.append(won)
        named = sum(bool(each) for each in found)
        figures.add(
            f"{name}: contradicting winners",
            contradictions(found),
            most=0,
            note=f"{count} times, load {os.getloadavg()[0]:.0f}; {named} found something slower",
        )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

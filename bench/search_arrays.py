"""The search over shardings against measuring every one of them: how far behind the best its winner
is, how many programs it compiles, and that it is never behind the classics. Simulated devices.
"""

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.figures import Figures
from spmd_core.lab import Lab
from spmd_core.results.result import Ratio
from spmd_core.results.stats import signed_rank_interval
from spmd_core.search.array_question import read_array_question
from spmd_core.search.study import Study, Variant
from spmd_core.searching import search as searching
from spmd_core.searching.prove import TURN, measured
from spmd_core.searching.runs import Runs
from spmd_core.searching.search import Search
from spmd_core.settings import read_settings
from spmd_core.store.searches import Searches

REGRET, COMPILED = 1.03, 90
TRIPLES = {"workload": "matmul", "target": "cpu:8", "mesh": {"x": 2, "y": 4}, "overrides": None,
           "dims": {"m": 512, "k": 512, "n": 512}, "strategies": ["auto"]}
WORKLOADS = {
    "contraction": ({"rows": 4096, "cols": 1024}, {"rows": 1024, "cols": 256}),
    "layer": ({"batch": 1024, "in": 512, "out": 512}, {"batch": 256, "in": 128, "out": 128}),
    "dot": ({"n": 65536, "k": 256}, {"n": 8192, "k": 128}),
    "matmul": ({"m": 1024, "k": 512, "n": 512}, {"m": 256, "k": 256, "n": 256}),
    "normalize": ({"rows": 4096, "cols": 1024}, {"rows": 1024, "cols": 256}),
    "mlp": ({"batch": 1024, "in": 256, "hidden": 1024, "out": 256},
            {"batch": 256, "in": 128, "hidden": 256, "out": 128}),
}


def searched(lab: Lab, store: Searches, spec: dict, budget_s: float) -> Search:
    """A search that has been carried out."""
    search = Search(lab, store, read_array_question(spec), budget_s)
    search.run()
    return search


def regret(lab: Lab, store: Searches, spec: dict, budget_s: float) -> tuple[list[Ratio], int]:
    """(the search's winner against the best of all and the best classic, in the same shuffled
    rounds, as a ratio of times with its interval; how many were measured in all).

    Every sharding that is not equal to another is measured by the same runs, from which the search
    goes on until none is left.
    """
    winner = searched(lab, store, spec, budget_s).answer.winner
    assert winner is not None
    most, searching.MOST_RUNS = searching.MOST_RUNS, 10**6
    try:
        answer = searched(lab, store, spec, 3600.0).answer
    finally:
        searching.MOST_RUNS = most
    assert answer.winner is not None
    classic = next(entry.candidate for entry in answer.ranking
                   if entry.candidate.number in [each.candidate.number for each in answer.classics
                                                 if each.candidate])
    runs = Runs(lab, None, lambda: False, time.monotonic() + 3600.0)
    found = []
    for rival in (answer.winner, classic):
        if rival.number == winner.number:
            found.append(Ratio(strategy=rival.name, ratio=1.0, interval=(1.0, 1.0), differs=False))
            continue
        pair = Study(tuple(Variant(each.name, each.experiment.vary(timing=TURN))
                           for each in (winner, rival)))
        rounds, _ = measured(runs, pair)
        centre, low, high, _ = signed_rank_interval(np.array(
            [math.log(each[winner.name] / each[rival.name]) for each in rounds]), 0.05)
        found.append(Ratio(strategy=rival.name, ratio=math.exp(centre),
                           interval=(math.exp(low), math.exp(high)), differs=low > 0 or high < 0))
    return found, sum(each.fate == "measured" for each in answer.found)


def main() -> int:
    """Print the figures; exit code 1 where one misses its goal."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--only", nargs="*", default=list(WORKLOADS), help="of the workloads")
    ask.add_argument("--budget", type=float, default=60.0, help="seconds of each search")
    ask.add_argument("--triples", type=float, default=0.0, metavar="SECONDS",
                     help="of the search over all 729 spec triples of a matmul; 0: left out")
    asked, figures = ask.parse_args(), Figures()
    with tempfile.TemporaryDirectory(prefix="search-arrays-") as folder:
        lab = Lab.open(Path(folder), settings=replace(read_settings(), queue_most=10**4))
        store = Searches(lab.folder)
        if asked.triples:
            begun = time.monotonic()
            found = searched(lab, store, TRIPLES, asked.triples).answer
            fates = Counter(each.fate for each in found.found)
            figures.add("triples of a matmul: compiled", fates["measured"] + fates["failed"],
                        most=COMPILED, note=f"in {time.monotonic() - begun:.0f} s")
            figures.add("fates listed", len(store.fates(found.question.id)), least=729)
        for name in asked.only:
            for dims in WORKLOADS[name]:
                spec = {"workload": name, "target": "cpu:8", "mesh": None, "sharding": None,
                        "dims": dims, "strategies": ["auto", "shard_map"]}
                ratios, count = regret(lab, store, spec, asked.budget)
                label = f"{name} {'x'.join(map(str, dims.values()))}"
                for ratio, rival in zip(ratios, ("best", "best classic"), strict=True):
                    low, high = ratio.interval
                    behind = ratio.ratio if ratio.differs else 1.0
                    figures.add(f"{label}: winner over {rival}", behind, most=REGRET,
                                note=f"{low:.2f} to {high:.2f}, of {count} measured")
        store.close()
        lab.close()
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

"""The search over shardings against measuring every one of them: how far behind the best its winner
is, how many programs it compiles, and that it is never behind the classics. Simulated devices.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from bench.figures import Figures
from spmd_core.lab import Lab
from spmd_core.search.array_question import read_array_question
from spmd_core.searching import search as searching
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


def regret(lab: Lab, store: Searches, spec: dict, budget_s: float) -> tuple[float, int, float]:
    """(time of the search's winner over the best of all, how many were measured in all, over the
    best classic): every sharding that is not equal to another is measured by the same runs, from
    which the search goes on, until none is left.
    """
    first = searched(lab, store, spec, budget_s)
    winner = first.answer.winner
    assert winner is not None
    most, searching.MOST_RUNS = searching.MOST_RUNS, 10**6
    try:
        everything = searched(lab, store, spec, 3600.0)
    finally:
        searching.MOST_RUNS = most
    measured = {each.number: each for each in everything.answer.found if each.fate == "measured"}
    best = min(each.measured_s or 0.0 for each in measured.values())
    mine = measured[winner.number].measured_s or 0.0
    classic = [each.candidate.measured_s for each in everything.answer.classics
               if each.candidate and each.candidate.measured_s]
    return mine / best, len(measured), mine / min(classic, default=mine)


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
                ratio, count, classic = regret(lab, store, spec, asked.budget)
                label = f"{name} {'x'.join(map(str, dims.values()))}"
                figures.add(f"{label}: winner over best", ratio, most=REGRET,
                            note=f"of {count} measured")
                figures.add(f"{label}: winner over best classic", classic, most=REGRET)
        store.close()
        lab.close()
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

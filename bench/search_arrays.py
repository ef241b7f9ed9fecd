"""The search over shardings against measuring every one of them: how far behind the best its winner
is, how many programs it compiles, and that it is never behind the classics. Simulated devices.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from bench.figures import Figures
from spmd_core.base.settings import read_settings
from spmd_core.experiment.variants import MAX_VARIANTS
from spmd_core.lab import Lab
from spmd_core.lab.store.searches import Searches
from spmd_core.results import stats
from spmd_core.results.result import Ratio, Result
from spmd_core.search.array_question import read_array_question
from spmd_core.search.classics import kind_of
from spmd_core.trials.searching.outcomes import run_key
from spmd_core.trials.searching.prove import side_by_side
from spmd_core.trials.searching.runs import Runs
from spmd_core.trials.searching.search import Search

REGRET, COMPILED = 1.03, 90
TRIPLES = {
    "workload": "matmul",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "overrides": None,
    "dims": {"m": 512, "k": 512, "n": 512},
    "strategies": ["auto"],
}
WORKLOADS = {
    "contraction": ({"rows": 4096, "cols": 1024}, {"rows": 1024, "cols": 256}),
    "layer": ({"batch": 1024, "in": 512, "out": 512}, {"batch": 256, "in": 128, "out": 128}),
    "dot": ({"n": 65536, "k": 256}, {"n": 8192, "k": 128}),
    "matmul": ({"m": 1024, "k": 512, "n": 512}, {"m": 256, "k": 256, "n": 256}),
    "normalize": ({"rows": 4096, "cols": 1024}, {"rows": 1024, "cols": 256}),
    "mlp": (
        {"batch": 1024, "in": 256, "hidden": 1024, "out": 256},
        {"batch": 256, "in": 128, "hidden": 256, "out": 128},
    ),
}


def searched(lab: Lab, store: Searches, spec: dict, budget_s: float) -> Search:
    """A search that has been carried out."""
    search = Search(lab, store, read_array_question(spec), budget_s)
    search.run()
    return search


def regret(
    lab: Lab, store: Searches, spec: dict, budget_s: float
) -> tuple[Ratio, Ratio, int, float]:
    """(time of the search's winner over that of the candidate that is furthest ahead of it, and
    over that of the classic that is; how many were measured; how many seconds the search took).

    Every candidate that is not equal to another, whatever the search made of it, is measured beside
    the winner, in runs of as many shardings as a study takes: in the same rounds, with all samples.
    """
    answer = searched(lab, store, spec, budget_s).answer
    winner = answer.winner
    assert winner is not None
    rivals = [
        each
        for each in answer.found
        if each.number != winner.number
        and (each.fate != "pruned" or each.reason == "lower bound above the best")
    ]
    shardings = [list(group) for _, group in groupby(rivals, run_key)]
    runs = Runs(lab, deadline=time.monotonic() + 3600.0)
    against: dict[int, Ratio] = {}
    for first in range(0, len(shardings), MAX_VARIANTS - 1):
        beside = [each for group in shardings[first : first + MAX_VARIANTS - 1] for each in group]
        result, keys = side_by_side(runs, [winner, *beside])
        assert result is not None
        against |= _over(result, keys, winner.number)
    known = {each.number for each in rivals if kind_of(each)}
    return (
        _behind(against.values()),
        _behind(ratio for number, ratio in against.items() if number in known),
        1 + len(against),
        answer.seconds,
    )


def _over(result: Result, keys: dict[int, str], winner: int) -> dict[int, Ratio]:
    """The times of a run's rows over the winner's, by number."""
    rounds = {key: found.turns_s for key, found in result.strategies.items() if found.correct}
    order = [keys[winner], *(key for key in rounds if key != keys[winner])]
    ratios = {each.strategy: each for each in stats.ratios_to(order, rounds)}
    return {number: ratios[key] for number, key in keys.items() if key in ratios}


def _behind(others: Iterable[Ratio]) -> Ratio:
    """The winner's time over that of the one that is furthest ahead of it, of those whose interval
    says that they are; 1 where none does.
    """
    best = min(
        (each for each in others if each.interval[1] < 1), key=lambda each: each.ratio, default=None
    )
    if best is None:
        return Ratio(strategy="none is ahead", ratio=1.0, interval=(1.0, 1.0), differs=False)
    low, high = best.interval
    return Ratio(
        strategy=best.strategy, ratio=1 / best.ratio, interval=(1 / high, 1 / low), differs=True
    )


def main() -> int:
    """Print the figures; exit code 1 where one misses its goal."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--only", nargs="*", default=list(WORKLOADS), help="of the workloads")
    ask.add_argument("--budget", type=float, default=60.0, help="seconds of each search")
    ask.add_argument(
        "--triples",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="of the search over all 729 spec triples of a matmul; 0: left out",
    )
    asked, figures = ask.parse_args(), Figures()
    with tempfile.TemporaryDirectory(prefix="search-arrays-") as folder:
        lab = Lab.open(Path(folder), settings=replace(read_settings(), queue_most=10**4))
        store = Searches(lab.folder)
        if asked.triples:
            begun = time.monotonic()
            found = searched(lab, store, TRIPLES, asked.triples).answer
            fates = Counter(each.fate for each in found.found)
            figures.add(
                "triples of a matmul: compiled",
                fates["measured"] + fates["failed"],
                most=COMPILED,
                note=f"in {time.monotonic() - begun:.0f} s",
            )
            figures.add("fates listed", len(store.fates(found.question.id)), least=729)
        for name in asked.only:
            for dims in WORKLOADS[name]:
                spec = {
                    "workload": name,
                    "target": "cpu:8",
                    "mesh": None,
                    "sharding": None,
                    "dims": dims,
                    "strategies": ["auto", "shard_map"],
                }
                *ratios, count, took_s = regret(lab, store, spec, asked.budget)
                label = f"{name} {'x'.join(map(str, dims.values()))}"
                for ratio, rival in zip(ratios, ("best", "best classic"), strict=True):
                    low, high = ratio.interval
                    what = (
                        f"{low:.2f} to {high:.2f}, {ratio.strategy}"
                        if ratio.differs
                        else ratio.strategy
                    )
                    figures.add(
                        f"{label}: winner over {rival}",
                        ratio.ratio,
                        most=REGRET,
                        note=f"{what}; {count} measured, searched {took_s:.0f} s",
                    )
        store.close()
        lab.close()
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())

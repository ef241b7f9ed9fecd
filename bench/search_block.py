"""The search over every mesh and sharding of a transformer block on a topology that is absent:
seconds to the first good answer, whether it is complete, and of a sample of what was ruled out
whether it would have won.

`python -m bench.search_block --sample 20` compiles so many more of each reason.
"""

import json
import random
import resource
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.base import read_settings
from spmd_core.lab import Batch, Lab, Searches
from spmd_core.search import Answer, Candidate, read_array_question
from spmd_core.surveys.search import space_words, state_words
from spmd_core.trials import Search
from spmd_core.trials.searching.outcomes import answered, experiment_of

FIRST_S, GOOD, BUDGET_S = 15.0, 1.1, 300.0
LOOK_S = 0.25
SAME = 1.02  # predictions of one program, compiled for devices of other numbers


def searched(search: Search) -> list[tuple[float, float]]:
    """Carry it out; (seconds since it began, best compiled time then) whenever it looked."""
    thread, seen = threading.Thread(target=search.run), []
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_S)
        best = search.answer.winner
        if best is not None and best.stage == "compiled" and best.seconds:
            seen.append((search.spent_s, best.seconds))
    return seen


def compiled(lab: Lab, chosen: list[Candidate]) -> list[Candidate]:
    """Candidates, each under its own strategy; those that fail are left out."""
    pool, left, done = Batch(lab, name="sample"), list(chosen), []
    while left or not pool.is_idle:
        while left and pool.has_room:
            one = left.pop()
            pool.submit(experiment_of([one]), one)
        done += [
            answered([one], found)[0]
            for one, found in pool.finished()
            if not isinstance(found, str)
        ]
    pool.close()
    return [each for each in done if each.stage == "compiled"]


def sample(figures: Figures, lab: Lab, answer: Answer, count: int) -> None:
    """Compile some of what was ruled out, of each reason that a compile can prove wrong."""
    assert answer.winner is not None and answer.winner.seconds is not None
    best, draw = answer.winner.seconds, random.Random(answer.question.id)
    by_reason: dict[str, list[Candidate]] = defaultdict(list)
    for each in answer.found:
        if each.stage == "pruned" and each.reason not in ("does not divide", "does not fit"):
            by_reason[str(each.reason)].append(each)
    for reason, several in by_reason.items():
        some = [each for each in draw.sample(several, len(several)) if each.strategy == "auto"]
        found = compiled(lab, some[:count])
        faster = [each for each in found if (each.seconds or 0.0) < best]
        figures.add(
            f"{reason}: faster than the winner",
            len(faster),
            most=0,
            note=f"of {len(found)} compiled, the best {_over(found, best):.2f}x its time",
        )
        below = [each for each in found if each.bound_s and (each.seconds or 0.0) < each.bound_s]
        if reason == "lower bound above the best":
            figures.add("compiled below their own bound", len(below), most=0)
        if reason == "equal to another by renaming":
            firsts = [
                replace(answer.found[each.equal or 0], number=place)
                for place, each in enumerate(found)
            ]
            equals = {each.number: each for each in compiled(lab, firsts)}
            far = max(
                (
                    _apart(each, equals[place])
                    for place, each in enumerate(found)
                    if place in equals
                ),
                default=1.0,
            )
            figures.add(
                "equal ones: times apart at most", far, most=SAME, note=f"of {len(equals)} pairs"
            )


def _over(found: list[Candidate], best: float) -> float:
    return min((each.seconds / best for each in found if each.seconds), default=float("nan"))


def _apart(one: Candidate, other: Candidate) -> float:
    first, second = one.seconds or 1.0, other.seconds or 1.0
    return max(first, second) / min(first, second)


def cpu_s() -> float:
    """Seconds that this process and those it has waited for have worked."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main(asked: Asked, figures: Figures) -> None:
    spec = {
        "workload": "transformer_block",
        "target": asked.target,
        "mesh": None,
        "sharding": None,
        "dims": asked.dims,
    }
    with tempfile.TemporaryDirectory(prefix="search-block-") as folder:
        lab = Lab.open(Path(folder), settings=replace(read_settings(), queue_most=10**4))
        store = Searches(lab.folder)
        search = Search(lab, store, read_array_question(spec), asked.budget)
        begun, seen = time.monotonic(), searched(search)
        took, answer = time.monotonic() - begun, search.answer
        best = answer.winner.seconds if answer.winner and answer.winner.seconds else float("nan")
        first = next((at for at, seconds in seen if seconds <= GOOD * best), float("nan"))
        stages = Counter(each.stage for each in answer.found)
        print(answer.winner and answer.winner.name, f"{best * 1e6:.2f} us")
        print(state_words(answer), space_words(answer))
        figures.add("seconds to the first good answer", first, "s", most=FIRST_S)
        figures.add("complete", int(answer.complete), least=1, note=f"in {took:.0f} s")
        below = [
            each
            for each in answer.found
            if each.stage == "compiled"
            and each.bound_s
            and each.seconds
            and each.seconds < each.bound_s
        ]
        figures.add(
            "compiled below their own bound", len(below), most=0, note=f"of {stages['compiled']}"
        )
        if asked.sample and answer.winner:
            sample(figures, lab, answer, asked.sample)
        store.close()
        lab.close()
        print(f"{cpu_s():.0f} s of CPU in all")


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        budget=(BUDGET_S, "seconds"),
        target="tpu:v5e:4x4",
        dims={"type": json.loads, "default": {}, "help": "as JSON; the block's own"},
        sample=(0, "compile so many of each reason of what was ruled out"),
    )

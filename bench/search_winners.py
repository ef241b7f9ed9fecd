"""Winners of searches, compiled: whether they fit, and how far their time is above the best of
neighbors that are drawn at random and compiled too.

What was compiled is kept in `--data`, one line of JSON for each plan; `--compile N` compiles N that
are missing, and may be stopped at any time.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench.figures import Asked, Figures, measure
from bench.memory_random import TIMEOUT_S, compiled, stored
from bench.small_plans import key_of
from spmd_core.base import read_settings
from spmd_core.lab import Lab
from spmd_core.plan import Plan
from spmd_core.search import FEW, Answer, Candidate, models, read_question
from spmd_core.workloads import parse_plan

SEARCHES, NEIGHBORS, MEDIAN, WORST = 12, 6, 0.01, 0.04
STORED = Path(__file__).parent / "search_winners.jsonl"
QUESTIONS = tuple(
    {"model": model, "chips": chips, "global_batch": batch, "sequence": sequence}
    for model, chips, batch, sequence in (
        ("llama-3.1-8b", ("v6e:8",), 64, 4096),
        ("llama-3.1-8b", ("v5p:16",), 64, 4096),
        ("llama-3.1-8b", ("v5e:16",), 64, 4096),
        ("llama-3.1-8b", ("v6e:32",), 64, 4096),
        ("llama-3.1-8b", ("tpu7x:4",), 32, 4096),
        ("llama-2-7b", ("v5e:16",), 64, 2048),
        ("llama-2-7b", ("v6e:16",), 64, 4096),
        ("llama-2-13b", ("v5p:8",), 32, 4096),
        ("llama-2-13b", ("v6e:32",), 64, 2048),
        ("scaled:8", ("v5e:32",), 64, 2048),
        ("scaled:16", ("v5p:16",), 64, 2048),
        ("llama-3.1-70b", ("v5p:64",), 64, 4096),
    )
)


def answers() -> Iterator[tuple[int, Answer]]:
    """Each search, estimated."""
    for number, asked in enumerate(QUESTIONS):
        question = read_question(asked)
        found = tuple(models.candidates(question))
        yield number, Answer(question, len(found), found, True)


def drawn(answer: Answer, number: int) -> list[Candidate]:
    """Neighbors of the winner: of the 60 best that surely fit, some."""
    best = [entry.candidate for entry in answer.ranking[1:61] if entry.candidate.fits == "yes"]
    return random.Random(f"neighbors {number}").sample(best, min(NEIGHBORS, len(best)))


def winner_of(answer: Answer, row_of: Callable[[Plan | None], dict | None]) -> Candidate:
    """The winner; where none is sure to fit, the first of the best few that fits once compiled, as
    a search goes on.
    """
    if answer.winner:
        return answer.winner
    few = [entry.candidate for entry in answer.ranking[:FEW]]
    return next((each for each in few if (row := row_of(each.plan)) is None or row["fits"]), few[0])


def main(asked: Asked, figures: Figures) -> None:
    wanted = {int(each) for each in asked.searches.split(",") if each} or range(SEARCHES)
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    lab = Lab.open(asked.folder, settings=settings) if asked.compile else None
    known = {key_of(parse_plan(row["plan"])): row for row in stored(asked.data)}

    def row_of(plan: Plan | None, is_wanted: bool = True) -> dict | None:
        assert plan is not None  # of a model's candidate that is ranked
        key = key_of(plan)
        if key not in known and lab is not None and asked.compile > 0 and is_wanted:
            asked.compile -= 1
            known[key] = compiled(lab, plan)
            with asked.data.open("a") as file:
                file.write(json.dumps(known[key]) + "\n")
        return known.get(key)

    listed = list(answers())
    bests = {number: winner_of(answer, row_of) for number, answer in listed}
    rows = [(best, row_of(best.plan)) for best in bests.values()]
    for best, row in rows:
        said = "-" if row is None else f"{(row['peak'] or 0) / 2**30:.1f} GiB, fits {row['fits']}"
        print(f"{best.name:90} {(best.memory_bytes or 0) / 2**30:6.1f} GiB {said}")
    regrets = []
    for number, answer in listed:
        plans = [each.plan for each in drawn(answer, number)]
        beside = [row for plan in plans if (row := row_of(plan, number in wanted))]
        own = row_of(bests[number].plan)
        times = [row["seconds"] for row in beside if row.get("seconds")]
        if own and own.get("seconds") and times:
            regrets.append(own["seconds"] / min(own["seconds"], *times) - 1)
    if lab is not None:
        lab.close()
    compiled_rows = [row for _, row in rows if row]
    figures.add("winners compiled", len(compiled_rows), least=SEARCHES)
    figures.add("winners that fit", sum(row["fits"] for row in compiled_rows), least=SEARCHES)
    if regrets:
        regrets.sort()
        note = f"{len(regrets)} searches with neighbors compiled"
        figures.add("median regret", regrets[len(regrets) // 2], most=MEDIAN, note=note)
        figures.add("worst regret", regrets[-1], most=WORST)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(STORED, "lines of what was compiled"),
        folder=(Path("search-winners"), "of the compiles"),
        compile=(0, "how many more"),
        searches=("", "numbers of those whose neighbors are compiled, in place of all"),
    )

"""Searches of computations, exported programs and models with several budgets: verdicts that their
table denies, at any moment, and the share of the budget that is used.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from bench.exported import sgd_step, written
from bench.figures import Asked, Figures, measure, of_part
from spmd_core.answers import ranking_table
from spmd_core.lab import Lab, Searches
from spmd_core.search import Answer, read_array_question, read_question
from spmd_core.sheets import Table
from spmd_core.surveys import search as words
from spmd_core.trials import Search
from spmd_core.trials.searching.work import started
from spmd_core.workloads import programs

LEAST, EVERY_S = 0.9, 1.0
COMPUTATIONS = (
    ("mlp", "cpu:8", {"batch": 1024, "in": 256, "hidden": 1024, "out": 256}, 12),
    ("mlp", "cpu:4", {"batch": 256, "in": 128, "hidden": 512, "out": 128}, 24),
    ("matmul", "cpu:8", {"m": 512, "k": 512, "n": 512}, 8),
    ("matmul", "cpu:8", {"m": 4096, "k": 256, "n": 64}, 20),
    ("layer", "cpu:8", {"batch": 512, "in": 512, "out": 512}, 30),
    ("elementwise", "cpu:8", {"rows": 4096, "cols": 512}, 16),
    ("mlp", "tpu:v5e:2x2", {"batch": 1024, "in": 256, "hidden": 1024, "out": 256}, 15),
    ("layer", "tpu:v5e:2x4", {"batch": 2048, "in": 1024, "out": 1024}, 30),
    ("matmul", "tpu:v5e:4x4", {"m": 4096, "k": 4096, "n": 4096}, 20),
)
PROGRAMS = (("step", "cpu:8", 20), ("step", "tpu:v5e:2x4", 25), ("flat", "cpu:4", 10))
PROGRAMS += (("flat", "tpu:v5e:2x2", 12), ("deep", "cpu:8", 15), ("deep", "tpu:v5e:2x4", 40))
MODELS = (("scaled:1", "v5e:4", 25), ("scaled:1", "v5e:8", 40), ("scaled:2", "v5e:4x4", 30))
MODELS += (("scaled:1", "v6e:8", None), ("llama-3.1-8b", "v5p:16", None))


def questions() -> Iterator[tuple[Any, float | None]]:
    """The questions, each with its budget in seconds; None: estimates alone."""
    for name, target, dims, budget in COMPUTATIONS:
        spec = {"workload": name, "target": target, "dims": dims, "mesh": None, "sharding": None}
        yield read_array_question(spec), budget
    struct = jax.ShapeDtypeStruct((256, 256), "float32")
    files = {
        "step": sgd_step(),
        "flat": written(lambda x, w: x @ w, {"x": struct, "w": struct}),
        "deep": written(lambda x, w: ((x @ w) @ w) @ w, {"x": struct, "w": struct}),
    }
    for name, target, budget in PROGRAMS:
        program = programs.take(files[name]).program
        spec = {"workload": "program_file", "program": program, "mesh": None, "specs": None}
        yield read_array_question(spec | {"target": target}), budget
    for model, chips, budget in MODELS:
        yield read_question({"model": model, "chips": [chips], "global_batch": 32}), budget


def denied(answer: Answer) -> list[str]:
    """What an answer's sentence says that its own table, all rows of it, does not."""
    if answer.winner is None:
        return []
    table, said = ranking_table(answer, "screen", len(answer.ranking)), words.sure_words(answer)
    times, estimates = (_values(table, title) for title in ("Time", "Estimate"))
    known = [value for value in times if value is not None]
    first = times[0] or estimates[0] or 0.0
    left = [value for value in estimates if value is not None]
    both = any(a is not None and b is not None for a, b in zip(times, estimates, strict=True))
    wrong = ["a row with a time and an estimate"] if both else []
    if "nothing compared yet" in said and len(known) != 1:
        wrong.append(f"nothing compared, with {len(known)} known")
    if counted := re.search(r"no other of the ([\d,]+) (measured|compiled) is as good", said):
        wrong += ["as good, with one known"] if int(counted[1].replace(",", "")) < 2 else []
        wrong += ["one that is faster is known"] if min(known) < first else []
    if "no other estimate" in said and min(left) < first:
        wrong.append("a lower estimate")
    if "none of them to be faster" in said and any(value < first for value in left):
        wrong.append("a faster estimate")
    if said.startswith("Proven") and table.column("Known by")[0].text != "side by side":
        wrong.append("proven, and not side by side")
    return [f"{said} ({each})" for each in wrong]


def _values(table: Table, title: str) -> list[float | None]:
    named = [name for name in (title, f"{title} of 1B") if name in table.columns]
    if not named:
        return [None] * len(table.rows)
    return [cell.value for cell in table.column(named[0])]


def main(asked: Asked, figures: Figures) -> None:
    wrong, used, looks = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        store = Searches(lab.folder)
        for question, budget in of_part(list(questions()), asked.part):
            search = Search(lab, store, question, budget)
            over = started(search.run, "search")
            said = set[str]()
            while not over.wait(EVERY_S):
                looks += 1
                said |= {*denied(search.answer)}
            answer = search.answer
            said |= {*denied(answer)}
            wrong += said
            asked_s = budget if answer.counts["estimated"] else None  # else all is done
            share = min(1.0, search.spent_s / asked_s) if asked_s else 1.0
            used.append(share)
            print(
                f"{words.asked_words(question)}: {share:.0%} of {budget} s, "
                f"{answer.counts['measured']} measured, {answer.counts['compiled']} compiled, "
                f"{answer.counts['estimated']} estimated; {words.sure_words(answer)} {[*said] or ''}",
                flush=True,
            )
        store.close()
        lab.close()
    figures.add("verdicts that their table denies", len(wrong), most=0, note=f"{looks} looks")
    figures.add("least share of a budget that is used, or all done", min(used), least=LEAST)
    figures.add("searches", len(used), least=20 if asked.part == "1/1" else 1)


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "a part of the searches, such as 1/4"))

"""Searches of a program with and without estimates by partitioned programs, against all of it compiled.

    python -m bench.partitioned_search [--seconds 60] [--target cpu:8] [--mesh '{"fsdp": 4, "tensor": 2}']

A candidate is considered once its own program was partitioned, compiled or measured. The exhaustive
search goes on until each candidate that may run was; a winner is compared with its best by what that
search measured of both.
"""

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from bench.exported import sgd_step
from bench.figures import Asked, Figures, measure
from spmd_core.lab import Lab, Searches
from spmd_core.search import Answer, read_array_question
from spmd_core.trials import Search
from spmd_core.trials.searching import search as searching

PARTITIONED = "open_candidates", lambda candidates: []
CONSTRAINED = "CONSTRAINED", 0


def answered(asked: Asked, seconds: float, *without: tuple[str, Any]) -> Answer:
    """Returns the answer of a search in a folder of its own, without some of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        store = Searches(lab.folder)
        program = lab.take_program(sgd_step(), "step").program
        spec = {"workload": "program_file", "program": program, "specs": None}
        spec |= {"target": asked.target, "mesh": json.loads(asked.mesh)}
        question = read_array_question(spec)
        with mock.patch.multiple(searching, STEP=searching.STEP, **dict(without)):
            answer = Search(lab, store, question, seconds).run()
        store.close()
        lab.close()
        return answer


def considered(answer: Answer) -> int:
    """Returns how many candidates are known by their own programs."""
    return sum(
        each.partitioned or each.stage in ("compiled", "measured", "failed")
        for each in answer.found
    )


def main(asked: Asked, figures: Figures) -> None:
    """Search three times."""
    before = answered(asked, asked.seconds, PARTITIONED, CONSTRAINED)
    after = answered(asked, asked.seconds)
    every = answered(asked, asked.exhaustive, PARTITIONED, CONSTRAINED)
    figures.add("candidates considered before", considered(before))
    figures.add("now", considered(after), least=10 * considered(before), note="of attached devices")
    figures.add("constraints among them", sum(each.constrained is not None for each in after.found))
    figures.add("of the space, exhaustively", considered(every), note=f"complete: {every.complete}")
    known = {each.number: each for each in every.found if each.measured_s}
    best = every.winner
    for name, answer in (("before", before), ("now", after)):
        own = known.get(answer.winner.number) if answer.winner else None
        if own and best and own.seconds and best.seconds:
            meet = bool(own.span and best.span and own.span[0] <= best.span[1])
            note = f"{own.name}; best {best.name}; intervals meet: {meet}"
            figures.add(
                f"behind exhaustive, {name}", own.seconds / best.seconds - 1, most=0.0, note=note
            )
        elif answer.winner:
            figures.add(f"winner not among those measured, {name}", 1, note=answer.winner.name)


if __name__ == "__main__":
    measure(main, __doc__, seconds=60.0, exhaustive=600.0, target="cpu:8", mesh="null")

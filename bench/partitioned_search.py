"""Searches of a program with and without estimates by partitioned programs, against all of it compiled.

    python -m bench.partitioned_search [--seconds 60] [--target cpu:8] [--mesh '{"fsdp": 4, "tensor": 2}']

A candidate is considered once its own program was partitioned, compiled or measured. The exhaustive
search goes on until each candidate that may run was; the winners are then measured in the same rounds.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from bench.exported_steps import STEPS
from bench.figures import Asked, Figures, measure
from spmd_core.lab import COMMAND_LINE, Lab, Searches
from spmd_core.search import Answer, Candidate, read_array_question
from spmd_core.trials import Search
from spmd_core.trials.searching import search as searching
from spmd_core.trials.searching.prove import Runs, side_by_side

PARTITIONED = "open_candidates", lambda candidates: []
CONSTRAINED = "CONSTRAINED", 0


def answered(asked: Asked, seconds: float, *without: tuple[str, Any]) -> Answer:
    """Returns the answer of a search in a folder of its own, without some of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        store = Searches(lab.folder)
        program = lab.take_program(STEPS[asked.program](), "step").program
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
    winners = {"before": before.winner, "now": after.winner, "exhaustive": every.winner}
    chosen = {each.number: each for each in winners.values() if each}
    seconds = together(list(chosen.values()), asked.seconds)
    best = winners.pop("exhaustive")
    for name, own in winners.items():
        if own and best and {own.number, best.number} <= {*seconds}:
            behind = seconds[own.number] / seconds[best.number] - 1
            note = f"{own.name}; exhaustive {best.name}; in the same rounds"
            figures.add(f"behind exhaustive, {name}", behind, most=0.0, note=note)
        else:
            figures.add(f"no winner to compare, {name}", 1, most=0)


def together(chosen: list[Candidate], seconds: float) -> dict[int, float]:
    """Returns the median seconds of candidates by number, measured in the same shuffled rounds: the
    least of many medians of separate runs is below its own time.
    """
    if len(chosen) == 1:
        return {chosen[0].number: 1.0}
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        deadline = time.monotonic() + seconds
        runs = Runs(lab, COMMAND_LINE, "winners", lambda: False, deadline)
        result, keys = side_by_side(runs, chosen)
        lab.close()
    rows = result.strategies if result else {}
    return {number: rows[key].median_s or 0.0 for number, key in keys.items()}


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        seconds=60.0,
        exhaustive=600.0,
        target="cpu:8",
        mesh="null",
        program=("plain, momentum", "a name in bench.exported_steps"),
    )

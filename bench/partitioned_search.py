"""Searches of a program with and without estimates by partitioned programs, against all of it compiled.

    python -m bench.partitioned_search [--seconds 60] [--target cpu:8] [--mesh '{"fsdp": 4, "tensor": 2}']

A candidate is considered once its own program was partitioned, compiled or measured. The exhaustive
search goes on until each candidate that may run was; each winner is then measured beside its own in the
same rounds.
"""

import json
import math
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
from spmd_core.trials.searching.behind import estimate_s
from spmd_core.trials.searching.prove import Runs, proof_of, side_by_side

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
    best = every.winner
    for name, own in {"before": before.winner, "now": after.winner}.items():
        if own and best:
            behind, note = against(own, best, asked.seconds)
            figures.add(f"behind exhaustive, {name}", behind, most=0.0, note=note)
        else:
            figures.add(f"no winner to compare, {name}", 1, most=0)
    if best and (priced := prices(after)) and best.number in priced:
        place = sorted(priced, key=priced.__getitem__).index(best.number) + 1
        figures.add("place of the exhaustive winner by price", place, note=f"of {len(priced)}")


def prices(answer: Answer) -> dict[int, float]:
    """Returns the seconds that candidates were estimated at by their partitioned programs."""
    return {each.number: estimate_s(each) or 0.0 for each in answer.found if each.partitioned}


def against(own: Candidate, best: Candidate, seconds: float) -> tuple[float, str]:
    """Returns by which share a candidate is behind the best, and how sure that is: Compare's ratio
    of shuffled rounds in several processes. Medians of separate runs differ by more than winners do.
    """
    if own.number == best.number:
        return 0.0, f"the same: {own.name}"
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        runs = Runs(lab, COMMAND_LINE, "winners", lambda: False, time.monotonic() + seconds)
        result, _ = side_by_side(runs, [own, best])
        lab.close()
    proof = proof_of([own, best], result) if result else None
    if proof is None:
        return math.nan, "not measured"
    is_ahead, ratio = proof.faster == own.name, proof.best
    sure = f"{ratio.verdict} [{ratio.interval[0]:.3f}, {ratio.interval[1]:.3f}]"
    note = f"{own.name}; exhaustive {best.name}; {proof.faster} is ahead: {sure}"
    return (1 / ratio.ratio if is_ahead else ratio.ratio) - 1, note


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

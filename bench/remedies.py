"""Whether what is suggested to remove a collective removes it, and says what compiling it gives.

    python -m bench.remedies [--folder F] [--seconds 800] [--programs 40] [--none 10] [--seed 0]

Random programs on 8 simulated devices and, by turns, on tpu:v5e:2x4 (needs libtpu): a sharding
without communication, into which one collective is planted that takes more time than predictions of
the target are off: a summed dim sharded in place of the rows, an operand stored apart along any
dim, a result wanted replicated. So every one can be removed. Each suggestion is compiled again from
its JSON form, and judged here by kinds and axes alone: "no X over an axis" where there is none,
else fewer of them, in less time; memory within 5 % of arguments, results and temporaries, and both
times those said. On simulated devices both programs are timed side by side, and the verdict must
not be that the suggested one is slower. Of sums of a few columns nothing gets rid in less time, and
that must be the answer. Simulated devices are judged by a calibration, which takes a quarter of a
minute for each mesh. What the folder has is not tried again, so that it goes on where it was ended;
none is begun after `--seconds`, and the figures are of those that are done.
"""

import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.advice import removal_words
from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import Experiment, parse_experiment, study_of
from spmd_core.facts import Collective, Nothing, Remedy
from spmd_core.lab import Lab
from spmd_core.results import Result, StrategyResult
from spmd_core.roofline import (
    ProgramTime,
    calibration,
    calibration_of,
    program_time,
    times_where_run,
)
from spmd_core.script import program_text
from spmd_core.trials import RemedySearch, store, with_remedies
from spmd_core.trials.remedies.candidate import WORTH

MESHES = ({"x": 8}, {"x": 2, "y": 4}, {"x": 4, "y": 2})
STRATEGIES = ("auto", "constrained", "explicit", "shard_map")
SIZES = (256, 512, 1024, 2048)
# workload -> the dim of rows, dims that are summed over, and those that are left as they are
WORKLOADS = {
    "layer": ("batch", ("in",)),
    "mlp": ("batch", ("in", "hidden")),
    "matmul": ("m", ("k",)),
    "dot": ("n", ("k",)),
}
FIRST = {
    "layer": ("x", "weights"),
    "mlp": ("x", "w1", "w2"),
    "matmul": ("a", "b"),
    "dot": ("v", "u"),
}


def planted(draw: random.Random, target: str) -> tuple[Experiment, Experiment] | None:
    """A program without communication, and the same with a collective planted; None where the
    rules refuse one.
    """
    name = draw.choice(list(WORKLOADS))
    rows, summed = WORKLOADS[name]
    mesh = draw.choice(MESHES)
    sample = parse_experiment({"workload": name, "target": "cpu:8", "mesh": mesh})
    dims = {dim: draw.choice(SIZES) for dim in sample.sizes if dim != "batch" or name != "matmul"}
    axis = draw.choice(list(mesh))
    clean: dict[str, Any] = {
        "workload": name,
        "target": target,
        "mesh": mesh,
        "dims": dims,
        "sharding": {rows: list(mesh)},
        "strategies": [draw.choice(STRATEGIES)],
    }
    left = [each for each in mesh if each != axis]
    fault = draw.choice(("summed", "stored", "wanted"))
    changed: dict[str, Any] = dict(clean)
    if fault == "summed":
        changed["sharding"] = {rows: left, draw.choice(summed): axis}
    elif fault == "stored":
        array = sample.what.array(draw.choice(FIRST[name]))
        dim = draw.choice([each for each in array.present(dims) if each != rows])
        changed["overrides"] = {
            array.name: [axis if each == dim else None for each in array.present(dims)]
        }
    else:
        result = sample.what.results[0]
        changed["overrides"] = {result.name: [None for _ in result.present(dims)]}
    try:
        both = parse_experiment(clean), parse_experiment(changed)
        for each in both:
            program_text(each, each.strategies[0])
    except (RequestError, Inexpressible):
        return None
    return both


def compiled(lab: Lab, experiment: Experiment) -> tuple[Result, ProgramTime] | None:
    """The compiled program, and what it is expected to take; None where it does not compile."""
    run = lab.submit(experiment, compile_only=not experiment.place.is_absent)
    status, result = lab.wait(run), lab.result(run)
    if status.state != "succeeded" or result is None:
        return None
    name = experiment.strategies[0]
    known = calibration(experiment, lab.latest, lab.result)
    times = times_where_run(experiment, result.environment, known)
    expected = program_time(experiment, name, result.strategies[name], times)
    return None if expected is None else (result, expected)


def program(lab: Lab, draw: random.Random, target: str) -> tuple[Result, ProgramTime]:
    """A program with a planted collective that is worth trying for, compiled."""
    while True:
        both = planted(draw, target)
        if both is None:
            continue
        clean, changed = (compiled(lab, each) for each in both)
        if clean is None or changed is None or not clean[1].is_less_than(changed[1]):
            continue
        if max(changed[1].each_s, default=0.0) > WORTH * changed[1].total_s:
            return changed


def fault_of(lab: Lab, result: Result, before: ProgramTime) -> str:
    """What is wrong with what is suggested for the collective that takes longest; "" if nothing."""
    name = result.experiment.strategies[0]
    place = before.each_s.index(max(before.each_s))
    search = RemedySearch(lab, store(lab), result)
    search.run()
    listed = with_remedies(result, search.answers).strategies[name].collectives or ()
    found = listed[place].remove
    if not isinstance(found, Remedy):
        return f"nothing was found: {found.reason if found else search.problem or 'not tried'}"
    print(f"  {found.sentence}", flush=True)
    own = found.strategy or name
    again = compiled(lab, parse_experiment(found.experiment.to_json()).vary(strategies=[own]))
    if again is None:
        return "it does not compile"
    there, seconds = again[0].strategies[own], again[1].total_s
    left = count(there.collectives or (), listed[place])
    if left >= count(listed, listed[place]):
        return "the collective is still there"
    if f": no {listed[place].kind} over" in found.sentence and left:
        return f"{left} are left, and none was said"
    if is_off(found.memory_bytes, taken(there) - taken(result.strategies[name]), taken(there)):
        return "memory is not what was said"
    if abs(seconds / found.predicted_s.after - 1) > 1e-6 or seconds >= before.total_s:
        return f"it takes {seconds:.3g} s, and {found.predicted_s.after:.3g} s were said"
    return "" if result.experiment.place.is_absent else slower(lab, result, again[0])


def taken(found: StrategyResult) -> int:
    """Bytes of arguments, results and temporaries on a device, by the compiler's account."""
    held = found.memory_bytes
    return sum((held.argument or 0, held.output or 0, held.temp or 0)) if held else 0


def is_off(said: int | None, bytes_more: int, of: int) -> bool:
    """Whether a change of memory is off by more than 5 % of what the program takes."""
    return said is None or abs(said - bytes_more) > 0.05 * of


def slower(lab: Lab, before: Result, after: Result) -> str:
    """Whether the suggested program takes longer when both are timed side by side."""
    members: list[tuple[str | None, Experiment]] = [
        (name, each.experiment.vary(timing={"processes": 1}))
        for name, each in (("was", before), ("now", after))
    ]
    result = lab.result(lab.wait(lab.submit(study_of(members))).run)
    if result is None or result.comparison is None or not result.comparison.ratios:
        return "it does not run"
    (ratio,) = result.comparison.ratios
    is_slower = ratio.differs and result.comparison.fastest.startswith("was/")
    return f"it is slower when run: {result.medians_s}" if is_slower else ""


def hopeless(number: int) -> Experiment:
    """A sum of few columns over many rows, which nothing is rid of in less time."""
    return parse_experiment(
        {
            "workload": "contraction",
            "target": "tpu:v5e:2x4",
            "mesh": {"x": 8},
            "dims": {"rows": 2 ** (24 + number % 3), "cols": 1 + number % 7},
            "sharding": {"rows": "x"},
            "strategies": [STRATEGIES[number % len(STRATEGIES)]],
        }
    )


def is_said_hopeless(lab: Lab, experiment: Experiment) -> bool:
    """Whether the answer is that nothing removes the sum."""
    found = compiled(lab, experiment)
    if found is None:
        return False
    search = RemedySearch(lab, store(lab), found[0])
    result = with_remedies(found[0], search.run())
    answers = [
        each.remove for each in result.strategies[experiment.strategies[0]].collectives or ()
    ]
    for each in filter(None, answers):
        print(f"  {removal_words(each)}", flush=True)
    return bool(answers) and all(isinstance(each, Nothing) for each in answers)


def count(listed: tuple[Collective, ...], like: Collective) -> int:
    """How many collectives of a kind there are over any of the same axes."""
    return sum(each.kind == like.kind and bool({*each.axes} & {*like.axes}) for each in listed)


def judged(lab: Lab, number: int, seed: int) -> str:
    """What is wrong with the answer to a program of this number; "" if nothing."""
    draw = random.Random(f"{seed}/{number}")
    result, before = program(lab, draw, "cpu:8" if number % 2 else "tpu:v5e:2x4")
    said = fault_of(lab, result, before)
    return f"{said}: {result.experiment.to_json()}" if said else ""


def is_not_said(lab: Lab, number: int) -> str:
    said = is_said_hopeless(lab, hopeless(number))
    return "" if said else f"it was not said: {hopeless(number).to_json()}"


def kept_faults(path: Path) -> dict[tuple[str, int], str]:
    """(kind, number) -> what was wrong, of what earlier runs tried."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {(kind, number): fault for kind, number, fault in rows}


def main(arguments: Asked, figures: Figures) -> None:
    end = time.monotonic() + arguments.seconds
    work = [("none", number) for number in range(arguments.none)]
    work += [("program", number) for number in range(arguments.programs)]
    with tempfile.TemporaryDirectory() as own:
        folder = arguments.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"remedies_{arguments.seed}.jsonl"
        found, lab = kept_faults(path), Lab.open(folder / "data")
        calibrated(lab)
        for kind, number in work:
            if (kind, number) in found or time.monotonic() > end:
                continue
            ask = (
                is_not_said(lab, number) if kind == "none" else judged(lab, number, arguments.seed)
            )
            found[kind, number] = ask
            with path.open("a") as file:
                file.write(json.dumps([kind, number, ask]) + "\n")
        lab.close()
    for kind, asked, what in (
        ("none", arguments.none, "said so, of those that nothing removes"),
        ("program", arguments.programs, "remedies: all that was said is true"),
    ):
        faults = [found[each] for each in work if each[0] == kind and each in found]
        for fault in filter(None, faults):
            print(f"{kind}: {fault}")
        good = sum(not fault for fault in faults)
        figures.add(what, good, least=len(faults), note=f"{len(faults)} of {asked} tried")


def calibrated(lab: Lab) -> None:
    """Calibrate the meshes that were not, on simulated devices."""
    for mesh in MESHES:
        here = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": mesh})
        if calibration(here, lab.latest, lab.result) is None:
            lab.wait(lab.submit(calibration_of(here)))


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        programs=40,
        none=10,
        seed=0,
        seconds=800.0,
        folder=(Path, "keeps the runs, and what was found"),
    )

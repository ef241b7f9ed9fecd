"""Whether the reason of every collective names what it moves: a dim, an operand or result, a named
scope or a source line.

    python -m bench.reasons [--first 93] [--skip 0] [--seed 0]

33 experiments that communicate, and 60 random ones over workloads, strategies and specs, by turns
on tpu:v5e:2x4 (needs libtpu) and compiled for 8 simulated devices. A bench that was stopped goes on
with `--skip`, the number of the last program that it printed.
"""

import random
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from bench.communicating import EXPERIMENTS, FSDP_LIKE, STRATEGIES
from bench.compiled import own_lab
from bench.figures import Asked, Figures, measure
from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import Collective
from spmd_core.lab import Lab
from spmd_core.script import program_text

FIXED, TARGETS = 33, ("tpu:v5e:2x4", "cpu:8")
WORKLOADS = (
    "layer",
    "matmul",
    "mlp",
    "attention",
    "transformer_block",
    "train_step",
    "normalize",
    "convolve",
    "contraction",
    "dot",
)
_NAMES = re.compile(r"`[^`]+`|\bline \d+")
_EMPTY = re.compile(r"intermediate value|next op")


def fixed(number: int) -> Experiment | None:
    """One of the experiments that are listed, on 8 devices, under one strategy by turns."""
    spec = (*EXPERIMENTS, *FSDP_LIKE)[number]
    mesh, strategy = {"x": 4, "y": 2}, STRATEGIES[number % len(STRATEGIES)]
    return checked(spec | {"mesh": mesh, "target": "tpu:v5e:2x4", "strategies": [strategy]})


def drawn(draw: random.Random, target: str) -> Experiment | None:
    """A random sharding of a random workload, a third of them with an array stored apart."""
    mesh = draw.choice(({"x": 8}, {"x": 2, "y": 4}))
    spec: dict[str, Any] = {"workload": draw.choice(WORKLOADS), "target": target, "mesh": mesh}
    sample = checked(spec | {"sharding": {}})
    if sample is None:
        return None
    dims = list(sample.sizes)
    spec["dims"] = {dim: 64 if dim in ("width",) else 128 for dim in dims} | {"width": 5}
    spec["dims"] = {dim: size for dim, size in spec["dims"].items() if dim in dims}
    spec["sharding"] = {draw.choice(dims): axis for axis in mesh}
    if draw.random() < 1 / 3:
        array = draw.choice(sample.what.arrays)
        rank = len(array.present(sample.sizes))
        at, axis = draw.randrange(max(1, rank)), draw.choice(list(mesh))
        spec["overrides"] = {array.name: [axis if at == dim else None for dim in range(rank)]}
    return checked(spec | {"strategies": [draw.choice(STRATEGIES)]})


def checked(spec: dict[str, Any]) -> Experiment | None:
    """The experiment of a spec; None where the rules refuse it, or its strategy cannot express it."""
    try:
        experiment = parse_experiment(spec)
        program_text(experiment, experiment.strategies[0])
    except (RequestError, Inexpressible):
        return None
    return experiment


def programs(draw: random.Random) -> Iterator[Experiment]:
    """Endless: the fixed ones, then random ones."""
    yield from filter(None, map(fixed, range(FIXED)))
    for turn in range(10_000):
        if found := drawn(draw, TARGETS[turn % 2]):
            yield found


def collectives(lab: Lab, experiment: Experiment) -> tuple[Collective, ...]:
    """Those of the compiled program; none where it does not compile, or this machine is too small."""
    try:
        run = lab.submit(experiment, compile_only=not experiment.place.is_absent)
    except RequestError:
        return ()
    lab.wait(run, 900)
    result = lab.result(run)
    if result is None:
        return ()
    return result.strategies[experiment.strategies[0]].collectives or ()


def is_named(each: Collective) -> bool:
    """Whether the reason names something of the program."""
    return bool(each.reason and _NAMES.search(each.reason) and not _EMPTY.search(each.reason))


def main(arguments: Asked, figures: Figures) -> None:
    total = named = communicating = with_specs = 0
    with own_lab() as lab:
        found_programs = islice(programs(random.Random(arguments.seed)), arguments.first)
        for number, experiment in enumerate(found_programs, 1):
            if number <= arguments.skip:
                continue
            found = [each for each in collectives(lab, experiment) if each.axes]
            communicating += bool(found)
            for each in found:
                total, named = total + 1, named + is_named(each)
                with_specs += "P(" in (each.reason or "")
                words = "" if is_named(each) else "NAMES NOTHING: "
                print(
                    f"{number} {experiment.workload} {experiment.strategies[0]} {each.kind}: {words}"
                    f"{each.reason}",
                    flush=True,
                )
    figures.add(f"collectives of {communicating} programs", total, least=communicating)
    figures.add("whose reason names dim, operand, scope or line", named, least=total)
    figures.add("whose reason has the spec before and after", with_specs)


if __name__ == "__main__":
    measure(main, __doc__, first=93, skip=0, seed=0)

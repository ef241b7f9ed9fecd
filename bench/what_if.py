"""Compares what propagation alone says of programs with what the compiler makes of them.

    python -m bench.what_if [--programs 200] [--seed 0]

Programs are steps of other libraries, decoders and small workloads, each with random specs of a few
groups of arguments, a third of them with other sizes of the mesh axes, compiled for 8 simulated
devices. Equal are the kinds, as requested, with their mesh axes; and the bytes of all, within 2 %.
The rival is all of Shardy's collectives, each once: without XLA's order of ops and its folding.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from spmd_core.machine import ENVIRONMENT

os.environ |= ENVIRONMENT  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from bench.exported_steps import STEPS
from bench.figures import Asked, Figures, measure
from bench.lost_batches import PLANTED, taken
from bench.reasons import drawn
from spmd_core.base import LabError
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import execute, structs
from spmd_core.engine.propagated.passes import propagate
from spmd_core.engine.propagated.read import Reader
from spmd_core.engine.propagated.requested import propagated
from spmd_core.experiment import Experiment
from spmd_core.program import file_name, read_collectives
from spmd_core.results import Collective
from spmd_core.script import program_text

CLOSE = 0.02
SUMS = ("all-reduce", "reduce-scatter")
Kinds = set[tuple[str, tuple[str, ...]]]


def programs(chance: random.Random) -> Iterator[tuple[str, Experiment]]:
    """Endless: each program with other specs in every round."""
    held: dict[str, Experiment] = {}
    for name, make in STEPS.items():
        try:
            held[name] = taken(make())
        except Exception as error:  # JAX does not export callbacks
            print(f"{name}: {' '.join(str(error).split())[:80]}", file=sys.stderr)
    for name, decoder in PLANTED.items():
        held[f"decoder, {name}"] = taken(decoder.exported(chance.random() < 0.5))
    while True:
        for name, experiment in held.items():
            sizes = dict(experiment.mesh)
            if chance.random() < 0.3:
                sizes = dict(zip(sizes, reversed(sizes.values()), strict=True))
            try:
                yield name, experiment.vary(specs=_specs(experiment, chance), mesh=sizes)
            except LabError:  # specs that do not divide
                continue
            if chance.random() < 0.4 and (small := drawn(chance, "cpu:8")) is not None:
                yield small.workload, small.vary(strategies=["auto"])


def _specs(experiment: Experiment, chance: random.Random) -> dict[str, list[str | None]]:
    program = experiment.exported
    assert program is not None
    groups = {name: each for name, each in program.described.groups.items() if each[0].sizes}
    sizes, specs = dict(program.mesh), dict[str, list[str | None]]()
    for name in chance.sample(list(groups), min(len(groups), chance.randint(0, 3))):
        shape = program.shape(groups[name][0])
        spec: list[str | None] = [None] * len(shape)
        for axis in chance.sample([*sizes], chance.randint(0, len(sizes))):
            free = [
                dim for dim, size in enumerate(shape) if size % sizes[axis] == 0 and not spec[dim]
            ]
            if free:
                spec[chance.choice(free)] = axis
        specs[name] = spec
    return specs


def _lowered(experiment: Experiment) -> Any:
    text = program_text(experiment, "auto")
    names = complete(execute(text, file_name(experiment.workload, "auto")), experiment)
    return names["program"].trace(*structs(experiment, names)).lower()


def _rival(lowered: Any, experiment: Experiment) -> tuple[Collective, ...]:
    """Shardy's collectives of the module as it is, equal ones once."""
    with mlir.make_ir_context():
        module = ir.Module.parse(lowered.as_text())
        propagate(module)
        found = Reader(experiment.mesh).inside(module.operation)
        return tuple({(e.kind, e.axes, e.dim, e.bytes, e.reason): e for e in found}.values())


def _kinds(collectives: Sequence[Collective], sums: bool = False) -> Kinds:
    """Kind as requested, and axes; `sums`: all-reduce and reduce-scatter are one kind."""
    kinds = (
        (each.asked or each.kind, tuple(sorted(each.axes))) for each in collectives if each.axes
    )
    return {("sum" if sums and kind in SUMS else kind, axes) for kind, axes in kinds}


def _bytes(collectives: Sequence[Collective]) -> int:
    return sum(each.bytes * each.times for each in collectives if each.axes)


def main(asked: Asked, figures: Figures) -> None:
    """Compile each program, and propagate it."""
    counts, seconds = Counter[str](), 0.0
    for name, experiment in islice(programs(random.Random(asked.seed)), asked.programs):
        try:
            lowered = _lowered(experiment)
            compiled = read_collectives(read_module(lowered.compile()), experiment.mesh)
        except Exception as error:  # XLA's refusal is no answer to compare with
            print(f"{name}: not compiled: {' '.join(str(error).split())[:80]}", file=sys.stderr)
            continue
        start = time.process_time()
        try:
            requested: Sequence[Collective] = propagated(experiment, "auto")
        except LabError as error:
            counts["programs"] += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        seconds += time.process_time() - start
        rival = _rival(lowered, experiment)
        real = _bytes(compiled)
        counts["programs"] += 1
        for what, ours in (("ours", requested), ("rival", rival)):
            counts[f"{what} sets"] += _kinds(ours) == _kinds(compiled)
            counts[f"{what} sums"] += _kinds(ours, True) == _kinds(compiled, True)
            counts[f"{what} bytes"] += abs(_bytes(ours) - real) <= CLOSE * real
            counts[f"{what} over"] += _bytes(ours) >= (1 - CLOSE) * real
        for kind in _kinds(requested, True) ^ _kinds(compiled, True):
            there = "only propagated" if kind in _kinds(requested, True) else "only compiled"
            print(f"{name}: {kind[0]} over {', '.join(kind[1])} is {there}", file=sys.stderr)
    total = max(1, counts["programs"])
    figures.add("programs x shardings, CPU", counts["programs"], least=asked.programs * 0.9)
    for what, goal in (("ours", 0.95), ("rival", None)):
        figures.add(f"{what}: kinds and axes", counts[f"{what} sets"] / total, least=goal)
        figures.add(
            f"{what}: the same, sums as one kind", counts[f"{what} sums"] / total, least=goal
        )
        figures.add(
            f"{what}: bytes within 2 %", counts[f"{what} bytes"] / total, least=goal and 0.9
        )
        figures.add(f"{what}: bytes at least the compiled", counts[f"{what} over"] / total)
    figures.add("propagation of one, CPU seconds", seconds / total)


if __name__ == "__main__":
    measure(main, __doc__, programs=200, seed=0)

"""Compares programs that are partitioned without making code with what the compiler makes of them.

    python -m bench.what_if [--programs 200] [--seed 0] [--target cpu:8]

Programs are steps of other libraries, decoders and small workloads, each with random specs of a few
groups of arguments, a third of them with other sizes of the mesh axes, compiled for 8 simulated or
absent devices. Equal are the kinds, as requested, with their mesh axes; the bytes of all, within 2 %; and
every collective with its count. The rival: all that Shardy's own passes make of the shardings, as "at
most", where a reduce-scatter counts as the all-reduce that XLA makes it of.

With `--layers 80`: seconds from a changed spec of an unrolled decoder to the screen of Programs with its
answer: the first time, and then; by propagation, and by the compiler. A browser is not included.
"""

import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from spmd_core.machine import ENVIRONMENT

os.environ |= ENVIRONMENT  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxlib.mlir import ir, passmanager

from bench.exported import abstract_mesh, sharded, written
from bench.exported_steps import STEPS
from bench.figures import Asked, Figures, measure
from bench.lost_batches import PLANTED, taken
from bench.reasons import drawn
from bench.server import ROOT
from spmd_core.base import LabError
from spmd_core.engine.absent.topology import lower_experiment
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import Steps
from spmd_core.engine.partitioned import lowered, partitioned
from spmd_core.experiment import Experiment, link
from spmd_core.facts import Collective
from spmd_core.program import read_collectives

CLOSE = 0.02
PASSES = (
    "builtin.module(sdy-import-pipeline,sdy-op-priority-propagate,sdy-close-shardings,func.func("
    "sdy-insert-explicit-reshards{enable-full-version=true},sdy-reshard-to-collectives))"
)
MOVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
MADE_OF = {"reduce-scatter": "all-reduce"}
Kinds = set[tuple[str, tuple[str, ...]]]


def programs(chance: random.Random, target: str) -> Iterator[tuple[str, Experiment]]:
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
                yield (
                    name,
                    experiment.vary(specs=_specs(experiment, chance), mesh=sizes, target=target),
                )
            except LabError:  # specs that do not divide
                continue
            if chance.random() < 0.4 and (small := drawn(chance, target)) is not None:
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
    if experiment.place.is_absent:
        return lower_experiment(experiment, "auto", Steps(lambda phase: None)).lowered
    return lowered(experiment, "auto")


def _kinds(collectives: Sequence[Collective]) -> Kinds:
    """Kind as requested, and axes."""
    return {(each.asked or each.kind, tuple(sorted(each.axes))) for each in collectives}


def shardys(experiment: Experiment) -> Kinds:
    """The kinds and axes of the collectives that Shardy's own passes insert."""
    module = lowered(experiment, "auto").compiler_ir("stablehlo")
    found: Kinds = set()
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=False), module.context)
        passmanager.PassManager.parse(PASSES).run(copy.operation)
        for op in operations(copy.operation):
            kind = op.name.removeprefix("sdy.").replace("_", "-")
            if op.name.startswith("sdy.") and kind in MOVES:
                moved = {name: str(op.attributes[name]) for name in op.attributes if name != "out_sharding"} if kind != "collective-permute" else {"": str(op.attributes["out_sharding"])}  # fmt: skip
                axes = {axis for text in moved.values() for axis in re.findall(r'"([^"]+)"', text)}
                found.add((kind, tuple(sorted(axes))))
    return found


def covered(kind: tuple[str, tuple[str, ...]], most: Kinds) -> bool:
    """Whether a requested collective is among those that are named as the most."""
    alike = {kind[0], MADE_OF.get(kind[0], kind[0])}
    return any(each in alike and {*kind[1]} <= {*axes} for each, axes in most)


def _each(collectives: Sequence[Collective]) -> Counter[Any]:
    return Counter((each.kind, each.axes, each.bytes, each.count) for each in collectives)


def _bytes(collectives: Sequence[Collective]) -> int:
    return sum(each.bytes * each.times for each in collectives)


def main(asked: Asked, figures: Figures) -> None:
    """Compile each program, and partition it."""
    if asked.layers:
        _latency(asked, figures)
        return
    counts, seconds, compiles = Counter[str](), 0.0, 0.0
    for name, experiment in islice(
        programs(random.Random(asked.seed), asked.target), asked.programs
    ):
        start = time.process_time()
        try:
            made = _lowered(experiment).compile()
            compiles += time.process_time() - start
            compiled = read_collectives(read_module(made), experiment.mesh)
        except Exception as error:  # XLA's refusal is no answer to compare with
            print(f"{name}: not compiled: {' '.join(str(error).split())[:80]}", file=sys.stderr)
            continue
        counts["programs"] += 1
        start = time.process_time()
        try:
            ours: Sequence[Collective] = partitioned(experiment, "auto").collectives
        except LabError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        seconds += time.process_time() - start
        try:
            most = shardys(experiment)
            counts["most"] += all(covered(kind, most) for kind in _kinds(compiled))
            counts["shardys"] += most == _kinds(compiled)
            print(f"{name}: {sorted(_kinds(compiled))} of at most {sorted(most)}", file=sys.stderr)
        except Exception as error:
            print(f"{name}: Shardy's passes: {str(error)[:80]}", file=sys.stderr)
        counts["sets"] += _kinds(ours) == _kinds(compiled)
        counts["bytes"] += abs(_bytes(ours) - _bytes(compiled)) <= CLOSE * _bytes(compiled)
        counts["each"] += _each(ours) == _each(compiled)
        counts["communicate"] += bool(compiled)
        for kind in _kinds(ours) ^ _kinds(compiled):
            there = "only partitioned" if kind in _kinds(ours) else "only compiled"
            print(f"{name}: {kind[0]} over {', '.join(kind[1])} is {there}", file=sys.stderr)
    total = max(1, counts["programs"])
    figures.add(f"programs x shardings, {asked.target}", total, least=asked.programs * 0.8)
    figures.add("of them communicate", counts["communicate"])
    figures.add("kinds and axes", counts["sets"] / total, least=0.95)
    figures.add("bytes within 2 %", counts["bytes"] / total, least=0.9)
    figures.add("every collective", counts["each"] / total)
    figures.add("Shardy's own: at most, kinds and axes", counts["most"] / total)
    figures.add("Shardy's own: equal", counts["shardys"] / total)
    figures.add("CPU seconds of one", seconds / total, note=f"compiled: {compiles / total:.2f}")


def _latency(asked: Asked, figures: Figures) -> None:
    from streamlit.testing.v1 import AppTest  # agreement is measured without screens too

    layer = {"qkv": (256, 768), "out": (256, 256), "up": (256, 512), "down": (512, 256)}
    specs = {name: P("data", "tensor") for name in ("qkv", "up")}
    specs |= {name: P("tensor", "data") for name in ("out", "down")}
    mesh = abstract_mesh({"data": 2, "tensor": 4})
    params = sharded({"layers": [layer] * asked.layers}, mesh, specs)
    x = sharded({"x": (8, 64, 256)}, mesh, {"x": P("data")})["x"]

    def loss(params: Any, x: Any) -> Any:
        for w in params["layers"]:
            q, k, v = (each.reshape(8, 64, 4, 64) for each in jnp.split(x @ w["qkv"], 3, -1))
            shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8)
            x = x + jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(8, 64, 256) @ w["out"]
            x = x + jax.nn.relu(x @ w["up"]) @ w["down"]
        return (x**2).mean()

    def step(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))

    for name, function in (("forward", loss), ("trained", step)):
        base = taken(written(function, {"params": params, "x": x}), asked.target)
        screen = AppTest.from_file(str(ROOT / "home.py"), default_timeout=600)
        screen.query_params["experiment"] = link.encode(base)
        screen.switch_page("pages/programs.py").run()
        group = next(each for each in screen.selectbox if each.label == "Argument")
        group.select("params/layers/*/up").run()
        # each edit is one of a dim: the first starts processes, the next meets them warm
        edits = [(1, []), (0, []), (1, ["data"]), (0, ["tensor"]), (1, []), (0, ["data"])]
        for number, (dim, axes) in enumerate(edits):
            which = "next" if number else "first"
            field = next(each for each in screen.multiselect if f"Dim {dim}" in each.label)
            start, busy = time.perf_counter(), time.process_time()
            field.set_value(axes).run()
            took, busy = time.perf_counter() - start, time.process_time() - busy
            assert not screen.exception
            made = next(each.value for each in screen.markdown if "compiled" in each.value)
            many = asked.layers > 8
            most = (4.0 if many else 1.5) if which == "first" else (1.0 if many else 0.2)
            figures.add(f"{name}, {which} edit", took, "s", most=most, note=made.strip(":[]"))
            figures.add(f"{name}, {which} edit, the screen's CPU", busy, "s")
            while any("Propagated, not compiled" in each.value for each in screen.markdown):
                time.sleep(0.1)
                screen.run()
            figures.add(f"{name}, {which} edit, partitioned", time.perf_counter() - start, "s")


if __name__ == "__main__":
    measure(main, __doc__, programs=200, seed=0, target="cpu:8", layers=0)

"""Whether what is named as the origin of an axis is: by interventions, planted conflicts, presence over
workloads and strategies, and what the record of the propagation costs a compile.

    python -m bench.origins [--only blames,conflicts,presence,cost] [--target cpu:8|tpu:v5e:2x4] [--part 1/6]

A blame is a value and an axis of it, one step or more from its origin. Of the module before its
propagation the axis is taken from all that is named, or from every place but the origin, and Shardy's own
pass propagates again.
"""

import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

from spmd_core.machine import ENVIRONMENT, dump_folder, get_topology

os.environ |= ENVIRONMENT  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir, passmanager

from bench import explained_steps
from bench.exported_steps import STEPS
from bench.figures import Asked, Figures, measure, of_part
from bench.fresh_findings import FRESH
from bench.intermediate_shardings import _spec, _text
from bench.lost_batches import PLANTED, _lowered, taken
from spmd_core.base import RequestError
from spmd_core.engine.absent.run import predict_experiment
from spmd_core.engine.absent.topology import describe as described, devices_of
from spmd_core.engine.devices import describe
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import Steps, compile_with, execute
from spmd_core.engine.measured.compiled import compile_experiment
from spmd_core.engine.shardings import blamed, compiler_options
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import Collective
from spmd_core.program import ProgramNames, read_collectives
from spmd_core.program.origins.dump import read_dump
from spmd_core.program.origins.graph import CONSTRAINTS, Graph, Op, Value
from spmd_core.program.origins.reach import SameDims
from spmd_core.program.origins.trace import Path as Origin, Tracer, with_written
from spmd_core.workloads import WORKLOADS

MESH, SIZES = ("data", "tensor"), (2, 4)
EACH, CONFLICTS = 8, 30
# JAX 0.10.2 exports no `debug.print`
LIBRARIES = {name: each for name, each in (STEPS | FRESH).items() if "debug.print" not in name}
PASSES = "builtin.module(sdy-propagation-pipeline)"
_SHARDING = re.compile(r"(<@[\w$.-]+, \[)((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)(\])")


# Blames ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blame:
    """A value by the place of its op and result, an axis of it, and what is named as its origin: the
    one that it came from, and what else would put it there.
    """

    op: int
    result: int
    axis: str
    origin: Origin
    also: tuple[Origin, ...]

    def names(self, kind: str, index: int) -> bool:
        """Whether an argument or output is among them."""
        return any((each.kind, each.index) == (kind, index) for each in (self.origin, *self.also))


def blames(figures: Figures, asked: Asked) -> None:
    """Interventions on the origins of random values."""
    gone, kept, far, count, others, unlike, wrong = 0, 0, 0, 0, 0, 0, list[str]()
    for name, before, after in _modules(asked):
        chance = random.Random(f"{asked.seed} {name}")
        graph = with_written(read_dump(after), read_dump(before))
        alone = _propagated(before)
        for blame in _chosen(graph, chance):
            if not _has(graph, alone, blame):
                unlike += 1
                continue
            count, far = count + 1, far + (len(blame.origin.hops) > 1)
            without = (_propagated(_without(before, graph, blame, each)) for each in (True, False))
            removed, is_left = (_has(graph, left, blame) for left in without)
            removed = not removed
            others += len(blame.also)
            gone, kept = gone + removed, kept + is_left
            if not (removed and is_left):
                of = f"{blame.origin.kind} {blame.origin.index}"
                what = "is there without" if not removed else "is not by it alone"
                wrong.append(f"{name}: {blame.axis} of op {blame.op}, by {of}: {what}")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    figures.add(
        "blames",
        count,
        note=f"{far} two or more steps from their origin, {others / max(1, count):.2g} others named beside it; {unlike} more that this pass alone propagates otherwise",
    )
    figures.add("axis gone without all that is named", gone / max(1, count), least=0.95)
    figures.add("axis there by the named origin alone", kept / max(1, count), least=0.95)


def _modules(asked: Asked) -> Iterator[tuple[str, str, str]]:
    """Name, and text before and after propagation: a quarter random products, a quarter decoders, half
    training steps of other libraries.
    """
    half = asked.programs // 2
    steps: list[tuple[str, Callable[[], Any]]] = [
        *((f"random {number}", partial(_random, number)) for number in range(half // 2)),
        *((name, each.exported) for name, each in PLANTED.items()),
        *((f"{name}, constrained", partial(d.exported, True)) for name, d in PLANTED.items()),
    ][:half]
    libraries = [
        each for each in LIBRARIES.items() if "shard_map" not in each[0]
    ]  # no record is written
    steps += libraries[: asked.programs - half]
    for name, made in of_part(steps, asked.part):
        lowered = made()
        if isinstance(lowered, bytes):
            lowered = _lowered(taken(lowered), Steps(lambda phase: None))
        yield name, *_dumped(lowered)


def _random(number: int) -> Any:
    """A random program whose arguments, and some values, are sharded."""
    chance = random.Random(number)
    sizes = tuple(zip(MESH, SIZES, strict=True))
    mesh = Mesh(np.array(jax.devices()).reshape(SIZES), MESH)
    shapes = {f"a{at}": (chance.choice((16, 32)), chance.choice((16, 32))) for at in range(4)}
    _, text = _text(shapes, chance)  # pyrefly: ignore[bad-argument-type]
    lines = list[str]()
    for line in text.splitlines():
        lines.append(line)
        name = line.strip().partition(" = ")[0]
        if re.fullmatch(r"h\d", name) and chance.random() < 0.3:
            lines.append(f"    {name} = held({name})")

    def held(value: Any) -> Any:
        spec = _spec(sizes, value.shape, chance) if value.ndim else P()
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))

    made = execute("\n".join(lines), f"random_{number}.py")
    made["held"] = held
    arguments = [
        jax.ShapeDtypeStruct(
            shape, jnp.float32, sharding=NamedSharding(mesh, _spec(sizes, shape, chance))
        )
        for shape in shapes.values()
    ]
    return jax.jit(made["program"]).trace(*arguments).lower()


def _dumped(lowered: Any) -> tuple[str, str]:
    with dump_folder() as folder:
        compile_with(lowered, compiler_options(folder))
        first = lambda name: next(folder.glob(f"shardy/*/{name}")).read_text()  # noqa: E731
        return first("01.before_propagation.mlir"), first("02.after_propagation.mlir")


def _propagated(text: str) -> Graph:
    """The module as Shardy's pass propagates it."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(PASSES).run(module.operation)
        return read_dump(str(module))


def _ops(graph: Graph) -> list[Op]:
    """The ops that both pipelines have, with an axis and without: this one ends with reshards around
    concatenations, and folds a constraint that says nothing.
    """
    return [op for op in graph.ops if not op.kind.endswith(("constant", *CONSTRAINTS))]


def _axes(value: Value) -> dict[str, int]:
    if value.op and value.op.kind == "stablehlo.concatenate":
        value = next((op.results[0] for op, _ in value.users if op.kind == "sdy.reshard"), value)
    return value.axes


def _has(graph: Graph, left: Graph, blame: Blame) -> bool:
    """Whether a value has an axis in a module that was propagated again, where ops may be folded."""
    ours, theirs = (
        [(op.kind, *(value.shape for value in op.results)) for op in _ops(each)]
        for each in (graph, left)
    )
    at = blame.op
    if ours != theirs:
        blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
        at = next((b.b + at - b.a for b in blocks if b.a <= at < b.a + b.size), -1)
    return at >= 0 and blame.axis in _axes(_ops(left)[at].results[blame.result])


def _chosen(graph: Graph, chance: random.Random) -> list[Blame]:
    """Some values of a module, half of them two or more steps from their origin."""
    tracer, near, far = Tracer(graph), list[Blame](), list[Blame]()
    reach = SameDims(graph, tracer)
    for at, op in enumerate(_ops(graph)):
        for index, value in enumerate(op.results):
            for axis in value.axes:
                path = tracer.path(value, axis)
                if path is not None and path.hops:
                    areas = reach.areas(value, axis)
                    seeds = (seed for area in areas for seed in area.seeds[axis])
                    also = filter(None, (tracer.seed(seed, axis) for seed in seeds))
                    blame = Blame(at, index, axis, path, tuple(also))
                    (far if len(path.hops) > 1 else near).append(blame)
    half = EACH // 2
    chosen = chance.sample(far, min(half, len(far)))
    return chosen + chance.sample(near, min(EACH - len(chosen), len(near)))


def _without(text: str, graph: Graph, blame: Blame, is_named: bool) -> str:
    """The module before propagation, its axis taken from the named origin, or from all others."""
    constraints = [op for op in graph.ops if op.kind in CONSTRAINTS]
    lines, seen = list[str](), 0
    for line in text.splitlines():
        if "func.func" in line and "@main(" in line:
            line = _head(line, blame, is_named)
        elif "sdy.sharding_constraint" in line or "sdy.reshard " in line:
            places = (blame.origin, *blame.also) if is_named else (blame.origin,)
            own = any(each.op is constraints[seen] for each in places)
            line, seen = _taken(line, blame.axis) if own == is_named else line, seen + 1
        lines.append(line)
    return "\n".join(lines)


def _head(line: str, blame: Blame, is_named: bool) -> str:
    inputs, arrow, outputs = line.partition(") -> ")
    parts = [re.split(r"(?=%arg\d+: )", inputs), re.split(r"(?=tensor<)", outputs)]
    for kind, each in zip(("argument", "output"), parts, strict=True):
        for at in range(1, len(each)):
            own = (blame.origin.kind, blame.origin.index) == (kind, at - 1)
            own = own or (is_named and blame.names(kind, at - 1))
            each[at] = _taken(each[at], blame.axis) if own == is_named else each[at]
    return "".join(parts[0]) + arrow + "".join(parts[1])


def _taken(text: str, axis: str) -> str:
    """A text whose shardings have an axis less."""

    def dim(match: re.Match[str]) -> str:
        axes = [each for each in match[1].split(", ") if each and not each.startswith(f'"{axis}"')]
        return "{" + ", ".join(axes) + "}"

    return _SHARDING.sub(
        lambda match: match[1] + re.sub(r"\{([^}]*)\}", dim, match[2]) + match[3], text
    )


# Conflicts ---------------------------------------------------------------------------------------


def conflicts(figures: Figures, asked: Asked) -> None:
    """Planted pairs of origins that disagree, each named by one collective."""
    right, wrong = 0, list[str]()
    mesh = Mesh(np.array(jax.devices()).reshape(SIZES), MESH)
    for number in range(CONFLICTS):
        kind, one, other = _KINDS[number % len(_KINDS)]
        rows = 16 << (number // len(_KINDS))
        known = kind(mesh, rows)
        pairs = [
            ({_named(o) for o in each.origin}, {_named(o) for o in each.against}) for each in known
        ]
        both = any(
            (one in had and other in wanted) or (other in had and one in wanted)
            for had, wanted in pairs
        )
        right += both
        wrong += [f"{kind.__name__}, {rows} rows: {pairs}"] * (not both)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    figures.add(f"conflicts named of {CONFLICTS}", right, least=CONFLICTS)


def _named(origin: Any) -> str:
    return origin.name if origin.kind in ("argument", "output") else origin.kind


def _compiled(mesh: Mesh, function: Any, *arguments: Any, **options: Any) -> tuple[Collective, ...]:
    lowered = jax.jit(function, **options).trace(*arguments).lower()
    sizes = tuple(zip(MESH, SIZES, strict=True))
    with dump_folder() as folder:
        compiled = compile_with(lowered, compiler_options(folder))
        module = read_module(compiled)
        names = ProgramNames("origins.py")
        return blamed(
            read_collectives(module, sizes, file="origins.py"), module, sizes, folder, names
        )


def _given(mesh: Mesh, rows: int, *spec: Any, columns: int = 32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        (rows, columns), jnp.float32, sharding=NamedSharding(mesh, P(*spec))
    )


def argument_and_constraint(mesh: Mesh, rows: int) -> tuple[Collective, ...]:
    """The rows of an argument, and a constraint of the columns."""
    held = NamedSharding(mesh, P(None, "tensor"))

    def program(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.tanh(x), held) * 2

    return _compiled(mesh, program, _given(mesh, rows, "tensor"))


def argument_and_replication(mesh: Mesh, rows: int) -> tuple[Collective, ...]:
    """An argument, and a constraint that replicates."""
    held = NamedSharding(mesh, P())

    def program(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.tanh(x), held) * 2

    return _compiled(mesh, program, _given(mesh, rows, "data"))


def two_arguments(mesh: Mesh, rows: int) -> tuple[Collective, ...]:
    """Two arguments that are added, sharded along different dims."""
    given = _given(mesh, rows, "tensor"), _given(mesh, rows, None, "tensor")
    return _compiled(mesh, lambda x, y: jnp.sin(x) + y, *given)


def batch_and_weight(mesh: Mesh, rows: int) -> tuple[Collective, ...]:
    """A batch and a weight of one matmul over the same axis, as in FSDP."""
    given = _given(mesh, rows, "data"), _given(mesh, 32, None, "data", columns=64)
    return _compiled(mesh, lambda x, w: jnp.tanh(x @ w), *given)


def argument_and_output(mesh: Mesh, rows: int) -> tuple[Collective, ...]:
    """An argument, and the requested sharding of the output."""
    out = NamedSharding(mesh, P(None, "tensor"))
    return _compiled(mesh, jnp.tanh, _given(mesh, rows, "tensor"), out_shardings=out)


_KINDS = (
    (argument_and_constraint, "x", "constraint"),
    (argument_and_replication, "x", "constraint"),
    (two_arguments, "x", "y"),
    (batch_and_weight, "w", "x"),
    (argument_and_output, "x", "output 0"),
)


# Presence and cost -------------------------------------------------------------------------------


def presence(figures: Figures, asked: Asked) -> None:
    """Collectives of every workload and strategy, of exported steps, and for absent targets of decoders
    and serving that have an origin, or a reason why not.
    """
    absent = asked.target.startswith("tpu")
    environment = described(asked.target) if absent else describe(asked.target)
    run = predict_experiment if absent else compile_experiment
    known, total, programs, why, silent = 0, 0, 0, Counter[str](), list[str]()
    for make in of_part([*_experiments(asked.target, absent)], asked.part):
        given = make()
        done = run(given, "run-1", environment, lambda event: None, lambda: False)
        for strategy, outcome in done.result.strategies.items():
            programs += outcome.error is None
            for each in (outcome.prediction or outcome).collectives or ():
                total += 1
                known += bool(each.origin) and each.no_origin is None
                why.update([each.no_origin] if each.no_origin else ())
                of = f"{given.workload}, {strategy}: {each.kind} over {each.axes}, {each.op}"
                if each.no_origin:
                    print(f"{of} at {each.source}: {each.no_origin}", file=sys.stderr)
                elif not each.origin:
                    silent.append(of)
    for sentence in silent:
        print(sentence, file=sys.stderr)
    note = f"of {programs} programs; {known} with every axis; else {dict(why)}"
    figures.add(f"collectives without origin or reason, of {total}", len(silent), most=0, note=note)


def _experiments(target: str, absent: bool) -> Iterator[Callable[[], Experiment]]:
    """Those of each workload, with each dim over the one axis and the next over the other; exported
    steps; and for an absent target a training step of two meshes and one of serving.
    """
    for name, what in WORKLOADS.items():
        dims = [dim.name if hasattr(dim, "name") else dim for dim in getattr(what, "dims", ())]
        for one, other in zip(dims, [*dims[1:], *dims[:1]], strict=True):
            given = {"workload": name, "target": target, "mesh": {"x": 2, "y": 4}}
            given |= {"sharding": {one: "x", other: "y"} if one != other else {one: "x"}}
            for strategies in ({"strategies": ["auto", "explicit", "shard_map"]}, {}):
                with suppress(RequestError):  # neither these dims, nor all strategies
                    yield partial(lambda e: e, parse_experiment(given | strategies))
                    break
    for made in LIBRARIES.values():
        yield partial(lambda made: taken(made(), target), made)
    for mesh in ({"fsdp": 8}, {"fsdp": 2, "tensor": 4}) if absent else ():
        given = {"workload": "decoder", "target": target, "mesh": mesh}
        given |= {"options": {"model": "scaled:1"}, "dims": {"batch": 8, "sequence": 1024}}
        yield partial(parse_experiment, given)
        given = {"workload": "serving_step", "target": target, "mesh": {"data": 2, "tensor": 4}}
        yield partial(parse_experiment, given)


def cost(figures: Figures, asked: Asked) -> None:
    """CPU seconds of a compile with the record against one without, of a training step of 8 unrolled
    attention layers, in turn.
    """
    absent = asked.target.startswith("tpu")
    devices = devices_of(get_topology(asked.target)) if absent else jax.devices()
    mesh = Mesh(np.array(devices).reshape(explained_steps.SIZES), explained_steps.AXES)
    step, shapes = explained_steps.layers(8, 256)
    placed = lambda one: NamedSharding(mesh, one.sharding.spec)  # noqa: E731
    given = jax.tree.map(lambda one: one.update(sharding=placed(one)), shapes)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(asked.turns * 2):
        # lowered anew: what was compiled once is not compiled again
        lowered = jax.jit(lambda *arrays: step(*arrays)).trace(*given).lower()
        with dump_folder() as folder:
            options = compiler_options(folder) if turn % 2 else {}
            start = time.process_time()
            compile_with(lowered, options)
            seconds[bool(turn % 2)].append(time.process_time() - start)
    with_it, without = (float(np.median(seconds[each][1:])) for each in (True, False))
    note, share = f"{without:.2g} CPU s without, {asked.target}", with_it / without
    figures.add("compile with the record against without", share, most=1.1, note=note)


PARTS = {"blames": blames, "conflicts": conflicts, "presence": presence, "cost": cost}


def main(asked: Asked, figures: Figures) -> None:
    for name in asked.only.split(","):
        PARTS[name](figures, asked)


if __name__ == "__main__":
    assert Path(__file__).name == "origins.py"
    measure(
        main,
        __doc__,
        only=",".join(PARTS),
        target="cpu:8",
        seed=0,
        turns=5,
        programs=60,
        part=("1/1", "K/N: of the programs every Nth, from the Kth on; of blames and presence"),
    )

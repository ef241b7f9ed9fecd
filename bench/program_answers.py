"""The answers on exported programs: our own workloads exported against the built-in ones, searches
of badly sharded programs, a search's winner against every candidate compiled, and how long it takes
from a file to its picture.

    python -m bench.program_answers [--only own,bad,exhaustive,speed] [--part K/N]
"""

import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ["TPU_SKIP_MDS_QUERY"] = os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import SPECS, abstract_mesh, sgd_step, written
from bench.figures import Asked, Figures, measure
from bench.search_block import compiled as compiled_candidates
from spmd_core.engine.absent.topology import _standing_for, devices_of
from spmd_core.engine.lower import execute, structs
from spmd_core.experiment import Experiment, experiment_of, parse_experiment
from spmd_core.lab import Lab, Searches
from spmd_core.machine import get_topology
from spmd_core.results import StrategyResult
from spmd_core.script import program_text
from spmd_core.search import read_array_question
from spmd_core.trials import Search
from spmd_core.workloads import Program, findings, parse_plan, programs
from spmd_lab.ui.programs import arrays, treemap

TARGET, SMALL = "tpu:v5e:2x4", "tpu:v5e:2x2"
# that a search makes: by number, since a budget in seconds is another on a machine at work
COMPILES = 20
WARM_S = 10.0  # in which a parser has started
_MESH = {"x": 2, "y": 4}
OWN: dict[str, dict[str, Any]] = {
    "layer": {
        "mesh": _MESH,
        "dims": {"batch": 256, "in": 512, "out": 1024},
        "sharding": {"batch": "x", "in": "y"},
    },
    "mlp": {
        "mesh": _MESH,
        "dims": {"batch": 256, "in": 512, "hidden": 2048, "out": 512},
        "sharding": {"batch": "x", "hidden": "y"},
    },
    "transformer_block": {"mesh": _MESH},
    "decoder": {
        "mesh": {"fsdp": 4, "tensor": 2},
        "model": "scaled:1",
        "layers": 2,
        "batch_per_device": 1,
    },
}
# a mesh of the same axes on four chips, and specs, that somebody hardly meant
BAD: tuple[tuple[dict[str, int], dict[str, Any]], ...] = (
    ({"fsdp": 4, "tensor": 1}, dict.fromkeys(SPECS, P())),
    ({"fsdp": 2, "tensor": 2}, dict.fromkeys(SPECS, P())),
    ({"fsdp": 1, "tensor": 4}, dict.fromkeys(SPECS, P())),
    ({"fsdp": 2, "tensor": 2}, SPECS | {"kernel": P()}),
    ({"fsdp": 4, "tensor": 1}, SPECS | {"kernel": P()}),
    ({"fsdp": 1, "tensor": 4}, SPECS | {"kernel": P(None, "tensor")}),
    ({"fsdp": 2, "tensor": 2}, SPECS | {"kernel": P(None, ("tensor", "fsdp"))}),
    ({"fsdp": 2, "tensor": 2}, SPECS | {"up": P(), "down": P(), "kernel": P("fsdp")}),
    ({"fsdp": 1, "tensor": 4}, SPECS | {"up": P("tensor"), "down": P(None, "tensor")}),
    ({"fsdp": 2, "tensor": 2}, dict.fromkeys(SPECS, P(None, "tensor"))),
)


def own(figures: Figures, part: slice) -> None:
    """Our own workloads, exported and taken, against the built-in ones."""
    lab, equal, other = Lab.open(serve=False), 0, []
    chosen = list(OWN.items())[part]
    for name, fields in chosen:
        asked = {"target": TARGET, **fields}
        experiment = (
            experiment_of(parse_plan(asked))
            if "model" in fields
            else parse_experiment({"workload": name, **asked})
        )
        described = programs.take(_exported(experiment), name)
        given = {"workload": "program_file", "program": described.program, "mesh": described.mesh}
        there = _answer(lab, parse_experiment(given | {"target": TARGET}))
        apart = _apart(_answer(lab, experiment), there)
        equal += not apart
        other += [f"{name}: {apart}"] * bool(apart)
    count = len(chosen)
    figures.add(f"own workloads as the built-in ones, of {count}", equal, least=count, note="; ".join(other))  # fmt: skip


def _exported(experiment: Experiment) -> bytes:
    """The program that the lab shows for an experiment, by `jax.export`."""
    plan = experiment.plan
    text = program_text(experiment_of(plan.with_fitting_blocks) if plan else experiment, "auto")
    with _standing_for(devices_of(get_topology(experiment.target))):
        names = execute(text, "own.py")
        if plan is None:
            shapes = structs(experiment, names)
            return bytes(export.export(names["program"], platforms=["tpu"])(*shapes).serialize())
        batch = text.rpartition("return lower_train_step(CONFIG, mesh, ")[2].partition(")")[0]
        config, mesh, sizes = names["CONFIG"], names["mesh"], json.loads(f"[{batch}]")
        state, tokens = names["abstract_arguments"](config, mesh, *sizes)
        step = names["make_train_step"](names["Model"](config, mesh, kernel=True))
        kept = jax.tree.map(lambda leaf: leaf.sharding, state)
        arguments = {"state": state, "batch": tokens}
        jitted = jax.jit(step, out_shardings=(kept, None))
        return written(lambda state, batch: jitted(state, batch), arguments, ("tpu",), ("state",))


def _answer(lab: Lab, experiment: Experiment) -> StrategyResult:
    run = lab.submit(experiment, compile_only=True)
    lab.wait(run)
    result = lab.facts(run)
    assert result is not None, lab.status(run).error
    found = result.strategies["auto"]
    assert found.status == "ok", found.error
    return found


def _apart(here: StrategyResult, there: StrategyResult) -> str:
    """In what two answers differ; "" where they are equal."""
    kinds = [
        Counter((each.kind, each.axes, each.bytes, each.count) for each in found.collectives or ())
        for found in (here, there)
    ]
    memory = [
        found.memory_bytes and (found.memory_bytes.argument, found.memory_bytes.temp)
        for found in (here, there)
    ]
    seconds = [found.predicted_s and found.predicted_s.estimate for found in (here, there)]
    differing = {"collectives": kinds, "memory": memory, "seconds": seconds}
    return ", ".join(f"{name} {a} {b}" for name, (a, b) in differing.items() if a != b)


def bad(figures: Figures, part: slice) -> None:
    """Programs whose mesh or rules are bad: whether their search finds better."""
    lab, better, same = Lab.open(serve=False), 0, []
    for number, (mesh, specs) in list(enumerate(BAD))[part]:
        described = programs.take(sgd_step(mesh, specs), f"bad {number}")
        given = {"workload": "program_file", "program": described.program, "target": SMALL}
        before = _answer(lab, parse_experiment(given | {"mesh": mesh})).predicted_s
        best = _searched(lab, described.program, 8).answer.winner
        is_better = bool(best and best.seconds and before and best.seconds < before.estimate)
        better += is_better
        same += [str(number)] * (not is_better)
    count = len(BAD[part])
    figures.add(f"bad meshes or rules improved, of {count}", better, least=count, note=", ".join(same))  # fmt: skip


def exhaustive(figures: Figures, part: slice) -> None:
    """A search's winner against every candidate that can run, compiled."""
    lab = Lab.open(serve=False)
    described = programs.take(sgd_step({"fsdp": 2, "tensor": 2}), "exhaustive")
    search = _searched(lab, described.program, COMPILES)
    winner = search.answer.winner
    runnable = [each for each in search.answer.found if each.reason not in ("does not divide", "does not fit", "equal to another by renaming")]  # fmt: skip
    every = [each.seconds for each in compiled_candidates(lab, runnable) if each.seconds]
    assert winner is not None and winner.seconds is not None
    behind = winner.seconds / min(every) - 1
    figures.add("winner behind the best of all compiled", 100 * behind, "%", most=3, note=f"of {len(every)}")  # fmt: skip


def _searched(lab: Lab, program: str, compiles: int) -> Search:
    form = {"workload": "program_file", "program": program, "target": SMALL}
    question = read_array_question(form | {"mesh": None, "specs": None}, None)
    search = Search(lab, Searches(Path(tempfile.mkdtemp())), question, 900.0, compiles=compiles)
    search.run()
    return search


def speed(figures: Figures, part: slice) -> None:
    """Seconds from a file to findings and picture, and those of a core that the lab takes for it."""
    for leaves, is_warm, most in ((400, True, 2.0), (402, False, 5.0), (5_000, True, 10.0)):
        data = _of_leaves(leaves)
        if is_warm:
            programs.prepare()
            time.sleep(WARM_S)
        began, before = time.perf_counter(), _core_s()
        described = programs.take(data, str(leaves))
        program = Program(described, described.mesh)
        findings(program)
        treemap.chart(treemap.tiles(program.arguments()))
        arrays.table(program.arguments())
        parser = "ready" if is_warm else "not started"
        note = f"{_core_s() - before:.2g} s of a core"
        figures.add(f"{leaves:,} arguments to their picture, parser {parser}", time.perf_counter() - began, "s", most=most, note=note)  # fmt: skip


def _core_s() -> float:
    """Seconds of a core of this process and of the children that ended."""
    return sum(os.times()[:4])


def _of_leaves(count: int) -> bytes:
    mesh = abstract_mesh({"fsdp": 4, "tensor": 2})
    leaf = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, P("fsdp")))
    params = {"layers": [{"w": leaf} for _ in range(count // 2)]}

    def step(params: Any, opt_state: Any) -> Any:
        mu = jax.tree.map(lambda m, p: 0.9 * m + p, opt_state["mu"], params)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, mu), {"mu": mu}

    arguments = {"params": params, "opt_state": {"mu": params}}
    return written(step, arguments, donated=("params", "opt_state"))


def main(arguments: Asked, figures: Figures) -> None:
    """Measure what is asked for."""
    first, every = map(int, arguments.part.split("/"))
    for name in arguments.only.split(","):
        measure = {"own": own, "bad": bad, "exhaustive": exhaustive, "speed": speed}[name]
        measure(figures, slice(first - 1, None, every))


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        only="own,bad,exhaustive,speed",
        part=("1/1", "K/N: every Nth, from the Kth on"),
    )

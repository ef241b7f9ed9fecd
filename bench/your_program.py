"""Programs of others, exported and taken: what is found in them, and whether they can be trusted on
another mesh.

    python -m bench.your_program [--only accidents,meshes,…] [--topology] [--part K/N]

accidents: 15 planted, each found before anything is compiled, and none invented on 10 clean
programs. meshes: 30 programs put on another mesh, against the same Python exported with that mesh:
collectives by kind and bytes, and memory, both compiled here on 8 simulated devices. libraries:
steps written with Flax, Equinox, optax and plain JAX, taken or refused with a sentence; with
--topology also compiled for v5e:4x4. doctored: 200 files with changed bytes, each taken or refused
in one sentence. --part: every Nth of a list.
"""

import itertools
import math
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from bench import exported_steps
from bench.exported import MESH, SHAPES, SPECS, abstract_mesh, sgd, sgd_step, sharded, written
from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.lower import execute, structs
from spmd_core.experiment import parse_experiment
from spmd_core.script import program_text
from spmd_core.search.array_question import program_meshes
from spmd_core.workloads import Program, findings, programs

_COLLECTIVE = re.compile(
    r"= (\S+|\(.*?\)) ((?:all-(?:gather|reduce|to-all)|reduce-scatter|collective-permute)(?:-start)?)\("
)
_BYTES = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
_MESHES = ({"fsdp": 8, "tensor": 1}, {"fsdp": 2, "tensor": 4}, {"fsdp": 1, "tensor": 8})
_LAYOUTS: tuple[dict[str, Any], ...] = (
    SPECS,
    SPECS | {"kernel": P()},
    SPECS | {"up": P("fsdp"), "down": P(None, "fsdp")},
    SPECS | {"up": P(None, "tensor"), "down": P("tensor")},
    dict.fromkeys(SPECS, P(("fsdp", "tensor"))),
    dict.fromkeys(SPECS, P()),
    SPECS | {"kernel": P(("tensor", "fsdp"), None)},
    SPECS | {"down": P()},
    SPECS | {"up": P("tensor", "fsdp")},
    SPECS | {"kernel": P(None, "tensor"), "up": P("fsdp")},
)


def kinds_of(data: bytes) -> set[str]:
    """The kinds of findings in a file."""
    described = programs.take(data)
    return {each.kind for each in findings(Program(described, described.mesh))}


def outputs(change: dict[str, Any]) -> dict[str, NamedSharding]:
    """Shardings of all results of `sgd_step`, those of some paths changed."""
    mesh = abstract_mesh(MESH)
    keys = {"embed/kernel": "kernel"} | {
        f"layers/{layer}/{name}": name for layer in range(2) for name in ("up", "down")
    }
    specs = {f"{at}/{key}": SPECS[name] for key, name in keys.items() for at in ("0", "1/mu")}
    return {path: NamedSharding(mesh, spec) for path, spec in (specs | {"2": P()} | change).items()}


def mixed(
    wide: tuple[str, ...], specs: dict[str, Any] = SPECS, odd: dict[str, Any] | None = None
) -> bytes:
    """`sgd_step` in bfloat16, whose parameters named in `wide` are float32, and those of paths in
    `odd` have a spec of their own.
    """
    mesh = abstract_mesh(MESH)

    def placed(path: Any, leaf: Any) -> Any:
        name, where = path[-1].key, jax.tree_util.keystr(path, simple=True, separator="/")
        spec = (odd or {}).get(where, specs[name])
        dtype = jnp.float32 if name in wide else jnp.bfloat16
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=NamedSharding(mesh, spec))

    params = jax.tree_util.tree_map_with_path(placed, sharded(SHAPES, mesh))
    batch = jax.ShapeDtypeStruct((16, 8), jnp.int32, sharding=NamedSharding(mesh, P("fsdp")))
    step = lambda params, moments, batch: sgd(params, moments["mu"], batch)  # noqa: E731
    arguments = {"params": params, "moments": {"mu": params}, "batch": batch}
    return written(step, arguments, donated=("params", "moments"))


ACCIDENTS: tuple[tuple[str, Callable[[], bytes]], ...] = (
    ("replicated", lambda: sgd_step(specs=SPECS | {"kernel": P()})),
    ("replicated", lambda: sgd_step(specs=SPECS | {"up": P(), "down": P()})),
    ("replicated", lambda: sgd_step({"x": 8}, {"up": P("x"), "down": P("x")})),
    ("missing_donation", lambda: sgd_step(donated=())),
    ("missing_donation", lambda: sgd_step(donated=("params",))),
    ("missing_donation", lambda: sgd_step(donated=("moments",))),
    ("resharded_state", lambda: sgd_step(outputs=outputs({"0/embed/kernel": P()}))),
    ("resharded_state", lambda: sgd_step(outputs=outputs({"1/mu/embed/kernel": P("fsdp", "tensor")}))),
    ("resharded_state", lambda: sgd_step(outputs=outputs({"0/embed/kernel": P("tensor")}))),
    ("float32_leak", lambda: mixed(("up",))),
    ("float32_leak", lambda: mixed(("down",))),
    ("float32_leak", lambda: mixed(("up", "down"))),
    ("rule", lambda: mixed((), odd={"layers/1/up": P()})),
    ("rule", lambda: mixed((), odd={"layers/0/down": P("fsdp", "tensor")})),
    ("rule", lambda: mixed((), odd={"layers/1/down": P("tensor")})),
)  # fmt: skip
CLEAN: tuple[Callable[[], bytes], ...] = (
    sgd_step,
    lambda: sgd_step({"x": 8}, {}),
    lambda: sgd_step({"x": 8}, dict.fromkeys(SPECS, P("x"))),
    lambda: sgd_step({"x": 8}, dict.fromkeys(SPECS, P(None, "x"))),
    lambda: sgd_step(specs=dict.fromkeys(SPECS, P(("fsdp", "tensor")))),
    lambda: sgd_step(specs=SPECS | {"up": P("fsdp"), "down": P(None, "fsdp")}),
    lambda: sgd_step(outputs=outputs({})),
    lambda: mixed(()),
    lambda: mixed(("kernel", "up", "down")),
    lambda: sgd_step({"fsdp": 2, "tensor": 4}),
)


def account(program: Any) -> tuple[Counter[tuple[str, str]], list[int]]:
    """What a compiled program communicates, by shape and kind, and the memory that it takes."""
    memory = program.memory_analysis()
    found = Counter((shape, kind) for shape, kind in _COLLECTIVE.findall(program.as_text()))
    return found, [getattr(memory, name) for name in _BYTES]


def compiled(data: bytes, mesh: dict[str, int], target: str = "cpu:8") -> Any:
    """A file's program on a mesh, compiled."""
    given = {"workload": "program_file", "program": programs.take(data).program}
    experiment = parse_experiment(given | {"mesh": mesh, "target": target})
    names = complete(execute(program_text(experiment, "auto"), "program.py"), experiment)
    return names["program"].trace(*structs(experiment, names)).lower().compile()


def accidents(figures: Figures) -> None:
    """Planted accidents, and programs without any."""
    missed = [kind for kind, make in ACCIDENTS if kind not in kinds_of(make())]
    figures.add(
        "planted accidents found, of 15", 15 - len(missed), least=15, note=", ".join(missed)
    )
    invented = [f"{at}: {kinds}" for at, make in enumerate(CLEAN) if (kinds := kinds_of(make()))]
    figures.add("findings invented on 10 clean programs", len(invented), most=0, note="; ".join(invented))  # fmt: skip


def meshes(figures: Figures) -> None:
    """Programs put on another mesh, against their Python exported with it."""
    equal, other = 0, []
    for (at, specs), mesh in itertools.product(enumerate(_LAYOUTS), _MESHES):
        found = account(compiled(sgd_step(MESH, specs), mesh))
        if found == account(compiled(sgd_step(mesh, specs), mesh)):
            equal += 1
        else:
            other.append(f"{at} on {mesh}")
    figures.add("re-meshed as its Python exported with that mesh, of 30", equal, least=30, note="; ".join(other))  # fmt: skip


def libraries(figures: Figures, topology: bool, part: slice) -> None:
    """Steps of other people's libraries."""
    taken, refused, ran = [], [], []
    steps = list(exported_steps.STEPS.items())[part]
    for name, make in steps:
        try:
            data = make()
            described = programs.take(data, name)
            taken.append(name)
        except RequestError as error:
            refused.append(f"{name}: {error}")
            continue
        except Exception as error:  # what the library or JAX itself refuses to export
            refused.append(f"{name} cannot be exported: {' '.join(str(error).split())[:80]}")
            continue
        if topology and "tpu" in described.platforms:
            ran += [name] * _compiles(described)
    count = len(steps)
    figures.add(f"steps of libraries taken, of {count}", len(taken), note="; ".join(refused))
    if topology:
        figures.add(
            "of those compiled for v5e:4x4", len(ran), note=", ".join(set(taken) - set(ran))
        )


def _compiles(described: Any) -> bool:
    from spmd_core.lab import Lab  # its worker owns the compiler

    devices = math.prod(size for _, size in described.mesh) if described.manual_axes else 16
    meshes = list(program_meshes(described, devices))[::-1]
    given = {"workload": "program_file", "program": described.program, "target": "tpu:v5e:4x4"}
    experiment = next(found for mesh in meshes if (found := _fitting(given | {"mesh": mesh})))
    lab = Lab.open(serve=False)
    run = lab.submit(experiment)
    lab.wait(run)
    result = lab.result(run)
    found = result.strategies["auto"] if result else None
    if found is None or found.status != "ok":
        print(described.name, lab.status(run).error, found and found.error, file=sys.stderr)
    return found is not None and found.status == "ok"


def _fitting(given: dict[str, Any]) -> Any:
    """The experiment, None where its dims do not divide over the mesh."""
    try:
        return parse_experiment(given)
    except RequestError:
        return None


def doctored(figures: Figures, count: int, part: slice) -> None:
    """Files with changed bytes."""
    data, rng = sgd_step(), random.Random(0)
    bad = []
    files = list(_changed(data, rng, count))[part]
    for changed in files:
        try:
            programs.take(changed)
        except RequestError as error:
            if "\n" in str(error) or len(str(error)) > 400:
                bad.append(str(error)[:80])
    figures.add(
        f"doctored files that hurt, of {len(files)}", len(bad), most=0, note="; ".join(bad[:3])
    )


def _changed(data: bytes, rng: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        new = bytearray(data)
        if number % 4 == 0:
            del new[rng.randrange(len(new)) :]
        else:
            for _ in range(1 << number % 6):
                new[rng.randrange(len(new))] = rng.randrange(256)
        yield bytes(new)


def main(arguments: Asked, figures: Figures) -> None:
    """Measure what is asked for."""
    first, every = map(int, arguments.part.split("/"))
    part = slice(first - 1, None, every)
    for name in arguments.only.split(","):
        if name == "libraries":
            libraries(figures, arguments.topology, part)
        elif name == "doctored":
            doctored(figures, arguments.files, part)
        else:
            {"accidents": accidents, "meshes": meshes}[name](figures)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        only="accidents,meshes,libraries,doctored",
        topology=False,
        files=(200, "how many are doctored"),
        part=("1/1", "K/N: every Nth, from the Kth on"),
    )

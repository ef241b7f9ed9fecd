"""Shardings of the values inside a program, as they are read after propagation, against `.sharding`
of the same values when the program returns them: random programs on 8 simulated devices.

    python -m bench.intermediate_shardings [--programs 40] [--seed 0] [--json]
"""

import os
import random
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from bench.figures import Asked, Figures, measure
from spmd_core.engine.lower import execute
from spmd_core.engine.shardings import compiled_again
from spmd_core.facts import Shardings

MESHES = ((("x", 2), ("y", 4)), (("x", 4), ("y", 2)), (("x", 8),), (("x", 2), ("y", 2), ("z", 2)))
OPERANDS, STEPS, SIZES = 4, 6, (16, 32, 64)
# Of a value of rank 2 named a, and another b that fits it: the text, and what b must be like
UNARY = (
    "jnp.tanh({a})",
    "{a}.T",
    "jax.nn.softmax({a}, axis=-1)",
    "{a}.sum(0)",
    "{a}.max(1)",
    "{a} * 2 + 1",
    "{a}.reshape(-1, 4, {a}.shape[1])",
    "jnp.concatenate([{a}, {a}], 1)",
    "{a}[: {a}.shape[0] // 2]",
    "jnp.where({a} > 0, {a}, 0)",
    "jnp.cumsum({a}, 0)",
    "jax.lax.scan(lambda c, _: (jnp.sin(c) @ jnp.ones(({a}.shape[1],) * 2), None), {a}, "
    "None, length=3)[0]",
)
BINARY = (
    ("{a} @ {b}", lambda a, b: a[1] == b[0]),
    ("{a} @ {b}.T", lambda a, b: a[1] == b[1]),
    ("{a}.T @ {b}", lambda a, b: a[0] == b[0]),
    ("{a} + {b}", lambda a, b: a == b),
    ("{a} * {b} + {a}", lambda a, b: a == b),
    ("jnp.einsum('ij,kj->ijk', {a}, {b})", lambda a, b: a[1] == b[1]),
)


def main(arguments: Asked, figures: Figures) -> None:
    chance = random.Random(arguments.seed)
    alike, values, compared = 0, 0, 0
    for number in range(arguments.programs):
        wrong, count, of = _program(number, chance)
        alike, values, compared = alike + (not wrong), values + count, compared + of
        for sentence in wrong:
            print(f"program {number}: {sentence}", file=sys.stderr)
    figures.add(
        f"programs of {arguments.programs} of which every value is sharded as returned",
        alike,
        least=arguments.programs,
    )
    figures.add("values compared", compared, least=values, note=f"of {values} that were named")


def _program(number: int, chance: random.Random) -> tuple[list[str], int, int]:
    """What differs in a random program; how many values it names, and how many were compared."""
    mesh = chance.choice(MESHES)
    shapes = {f"a{at}": (chance.choice(SIZES), chance.choice(SIZES)) for at in range(OPERANDS)}
    names, text = _text(shapes, chance)  # pyrefly: ignore[bad-argument-type]
    made = execute(text, f"random_{number}.py")
    devices = jax.make_mesh(
        tuple(size for _, size in mesh),
        tuple(name for name, _ in mesh),
        axis_types=(AxisType.Auto,) * len(mesh),
    )
    arrays = [
        jax.device_put(
            np.ones(shape, np.float32), NamedSharding(devices, _spec(mesh, shape, chance))
        )
        for shape in shapes.values()
    ]
    found = compiled_again(jax.jit(made["program"]).lower(*arrays), mesh, ())
    returned = jax.jit(made["everything"])(*arrays)
    return (*_differences(found, dict(zip(names, returned, strict=True)), devices),)


def _text(shapes: dict[str, tuple[int, ...]], chance: random.Random) -> tuple[list[str], str]:
    """The source of a program that returns its last value, and of one that returns each."""
    known = dict(shapes)
    lines, names = list[str](), list[str]()
    while len(names) < STEPS:
        a, b = (
            chance.choice([name for name, shape in known.items() if len(shape) == 2])
            for _ in range(2)
        )
        fitting = [text for text, fits in BINARY if fits(known[a], known[b])]
        line = chance.choice([*fitting, *fitting, *UNARY]).format(a=a, b=b)
        held = {name: jnp.zeros(shape) for name, shape in known.items()}
        shape = jax.eval_shape(
            lambda values, line=line: eval(line, {"jnp": jnp, "jax": jax, **values}), held
        ).shape
        if len(shape) > 3 or (min(shape) < 8 and len(shape) == 2):
            continue
        name = f"h{len(names)}"
        known[name] = shape
        names.append(name)
        lines.append(f"    {name} = {line}")
    total = " + ".join(f"jnp.sum({name})" for name in names)  # so that nothing is dropped
    head = "import jax\nimport jax.numpy as jnp\n\n\n"
    body = "\n".join(lines)
    given = ", ".join(shapes)
    return names, (
        f"{head}def program({given}):\n{body}\n    return {total}\n\n\n"
        f"def everything({given}):\n{body}\n    return {', '.join(names)}\n"
    )


def _spec(
    mesh: tuple[tuple[str, int], ...], shape: tuple[int, ...], chance: random.Random
) -> PartitionSpec:
    """A random spec: each axis on one of the dims, or none."""
    dims: list[list[str]] = [[] for _ in shape]
    for name, _ in mesh:
        at = chance.randrange(len(shape) + 1)
        if at < len(shape):
            dims[at].append(name)
    return PartitionSpec(*(tuple(axes) or None for axes in dims))


def _differences(
    found: Shardings, returned: dict[str, jax.Array], mesh: jax.sharding.Mesh
) -> tuple[list[str], int, int]:
    if found.reason:
        return [found.reason], len(returned), 0
    # both functions have the same lines: of a scan the step after the loop is missing
    steps = {step.name: step for step in found.steps if not step.inside}
    wrong, compared = list[str](), 0
    for name, array in returned.items():
        step = steps.get(name)
        if step is None or step.spec is None:
            wrong.append(f"{name} was not found")
            continue
        compared += 1
        spec = PartitionSpec(*(axes or None for axes in step.spec))
        if step.shape != array.shape:
            wrong.append(f"{name} has shape {step.shape}, returned {array.shape}")
        elif not NamedSharding(mesh, spec).is_equivalent_to(array.sharding, array.ndim):
            wrong.append(f"{name} is {spec}, returned {array.sharding}: {step.code}")
    return wrong, len(returned), compared


if __name__ == "__main__":
    measure(main, __doc__, programs=40, seed=0)

"""Right programs in bfloat16 and float16 that add up: scatters, segments, cumulative sums, scans and
norms, with JAX, Flax, Equinox and Optax. How many are called wrong on one and eight devices, how
many are judged, and in how many a planted fault is found.

    python -m bench.summing [--part 1/4]

Exits with 1 where a right program is called wrong.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure, of_part
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.lower import execute, structs
from spmd_core.experiment import parse_experiment
from spmd_core.reference import Judgement, Reference
from spmd_core.script import program_text
from spmd_core.workloads import programs

ROWS, WIDTH, GROUPS = 2048, 16, 32
DTYPES = (jnp.bfloat16, jnp.float16)
BY_ROWS = P("x")
Step = Callable[..., Any]


def _values(of: Step, rows: int = ROWS, width: int = WIDTH, spec: Any = BY_ROWS) -> Any:
    """A step of values that are sharded along their rows."""
    return lambda dtype: (lambda values: of(values), {"values": ((rows, width), dtype, spec)})


def _indexed(of: Step, rows: int = ROWS, width: int = WIDTH) -> Any:
    """A step of values and the group of each."""
    given = {"groups": ((rows,), jnp.int32, P("x"))}
    values = lambda dtype: {"values": ((rows, width), dtype, P("x"))}  # noqa: E731
    return lambda dtype: (lambda values, groups: of(values, groups), values(dtype) | given)


def _grouped(of: Step) -> Step:
    """Groups spread over GROUPS by their places, since integers are drawn from few."""
    return lambda values, groups: of(values, (groups + jnp.arange(len(groups))) % GROUPS)


def _embedding(optimizer: Any, tokens: int = 256) -> Any:
    """An optimizer's step on a float32 table that is looked up in 16 bits."""

    def of(dtype: Any) -> Any:
        def loss(table: Any, tokens: Any, target: Any) -> Any:
            return jnp.mean((table.astype(dtype)[tokens] - target) ** 2)

        def step(table: Any, tokens: Any, target: Any) -> Any:
            gradient = jax.grad(loss)(table, tokens, target)
            updates, _ = optimizer.update(gradient, optimizer.init(table), table)
            return optax.apply_updates(table, updates)

        return step, {
            "table": ((64, WIDTH), jnp.float32, P()),
            "tokens": ((64, tokens), jnp.int32, P("x")),
            "target": ((64, tokens, WIDTH), dtype, P("x")),
        }

    return of


def _linen(make: Callable[[Any], nn.Module], shape: tuple[int, ...]) -> Any:
    """The gradient of a module's parameters."""

    def of(dtype: Any) -> Any:
        module = make(dtype)
        struct = jax.ShapeDtypeStruct(shape, dtype)
        params = jax.eval_shape(module.init, jax.random.key(0), struct)

        def step(params: Any, x: Any) -> Any:
            def loss(params: Any) -> Any:
                output: Any = module.apply(params, x)
                return (output.astype(jnp.float32) ** 2).mean()

            return jax.grad(loss)(params)

        placed = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, P()), params)
        return step, {"params": placed, "x": (shape, dtype, P("x"))}

    return of


def _equinox(make: Callable[[Any], Any], shape: tuple[int, ...]) -> Any:
    """The gradient of a module's arrays, mapped over rows."""

    def of(dtype: Any) -> Any:
        model = eqx.filter_eval_shape(make, jax.random.key(0))
        params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

        def step(params: Any, x: Any) -> Any:
            def loss(params: Any) -> Any:
                cast = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
                return (jax.vmap(eqx.combine(cast, static))(x).astype(jnp.float32) ** 2).mean()

            return jax.grad(loss)(params)

        placed = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, P()), params)
        return step, {"params": placed, "x": (shape, dtype, P("x"))}

    return of


class _Language(nn.Module):
    dtype: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        tokens = jnp.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) % 64
        h = nn.Embed(64, 32, dtype=self.dtype)(tokens) + x
        h = h + nn.Dense(32, dtype=self.dtype)(nn.gelu(nn.Dense(64, dtype=self.dtype)(h)))
        return nn.LayerNorm(dtype=self.dtype)(h)


def _scanned(values: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        total = 0.9 * total + row
        return total, total

    return jax.lax.scan(step, jnp.zeros(values.shape[1:], values.dtype), values)[1]


def _accumulated(values: Any) -> Any:
    parts = values.reshape(8, -1, values.shape[-1])
    start = jnp.zeros(values.shape[1:], values.dtype)
    return jax.lax.scan(lambda c, part: (c + part.mean(0), None), start, parts)[0]


def _normalized(values: Any) -> Any:
    return values / jnp.sqrt(jnp.mean(values * values, -1, keepdims=True) + 1e-3)


def _softmax(values: Any) -> Any:
    return jax.nn.softmax(50 * values, axis=0)


def _standard(values: Any) -> Any:
    return (values - values.mean(0)) / jnp.sqrt(values.var(0) + 1e-4)


def _raw(values: Any) -> Any:
    return jax.lax.reduce(values, jnp.zeros((), values.dtype), jax.lax.add, (0,))


def _windows(values: Any) -> Any:
    zero = jnp.zeros((), values.dtype)
    return jax.lax.reduce_window(values, zero, jax.lax.add, (16, 1), (1, 1), "SAME")


def _onto(values: Any, groups: Any) -> Any:
    return jnp.ones((GROUPS, values.shape[1]), values.dtype).at[groups].add(values)


def _mean_of(values: Any, groups: Any) -> Any:
    total = jax.ops.segment_sum(values, groups, GROUPS)
    return total / jax.ops.segment_sum(jnp.ones_like(values), groups, GROUPS)


def _attended(values: Any, groups: Any) -> Any:
    scores = jnp.exp(values - jax.ops.segment_max(values, groups, GROUPS)[groups])
    return scores / jax.ops.segment_sum(scores, groups, GROUPS)[groups]


def _centred(values: Any) -> Any:
    signs = jnp.where(jnp.arange(len(values)) % 2, 1, -1).astype(values.dtype)
    return jnp.cumsum(values * signs[:, None], 0)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "segment_sum": _indexed(_grouped(lambda v, g: jax.ops.segment_sum(v, g, GROUPS))),
    "segment_sum, long": _indexed(_grouped(lambda v, g: jax.ops.segment_sum(v, g // 16, 2))),
    "segment_sum, short": _indexed(_grouped(lambda v, g: jax.ops.segment_sum(v, g, GROUPS)), 256),
    "segment mean": _indexed(_grouped(_mean_of)),
    "segment softmax": _indexed(_grouped(_attended)),
    "at[].add": _indexed(_grouped(lambda v, g: jnp.zeros((GROUPS, WIDTH), v.dtype).at[g].add(v))),
    "at[].add onto ones": _indexed(_grouped(_onto)),
    "bincount of weights": _indexed(
        _grouped(lambda v, g: jnp.bincount(g, v[:, 0], length=GROUPS).astype(v.dtype))
    ),
    "gradient of take": _indexed(
        _grouped(lambda v, g: jax.grad(lambda t: (jnp.take(t, g, 0) * v).sum())(v[:GROUPS]))
    ),
    "cumsum of rows": _values(lambda v: jnp.cumsum(v, 0)),
    "cumsum of columns": _values(lambda v: jnp.cumsum(v, 1), 32, 512),
    "cumsum of a sharded axis": _values(lambda v: jnp.cumsum(v, 1), 16, 512, P(None, "x")),
    "cumsum of both signs": _values(_centred),
    "gradient of cumsum": _values(lambda v: jax.grad(lambda v: (jnp.cumsum(v, 0) * v).mean())(v)),
    "moving sums": _values(_windows),
    "scan": _values(_scanned, 256),
    "microbatches": _values(_accumulated),
    "sum": _values(lambda v: v.sum(0)),
    "sum, bare": _values(_raw),
    "l2 norm": _values(lambda v: jnp.linalg.norm(v, axis=0)),
    "rms norm": _values(_normalized, 64, 256, P(None, "x")),
    "standardized": _values(_standard),
    "softmax": _values(_softmax),
    "optax sgd, embedding": _embedding(optax.sgd(0.1)),
    "optax clipped, embedding": _embedding(
        optax.chain(optax.clip_by_global_norm(1e-4), optax.sgd(1.0))
    ),
    "optax momentum, long": _embedding(optax.sgd(0.1, momentum=0.9), 512),
    "flax embedding": _linen(_Language, (16, 64, 32)),
    "flax layer norm": _linen(lambda dtype: nn.LayerNorm(dtype=dtype), (ROWS, WIDTH)),
    "equinox layer norm": _equinox(lambda key: eqx.nn.LayerNorm(WIDTH), (256, WIDTH)),
    "equinox linear": _equinox(lambda key: eqx.nn.Linear(WIDTH, WIDTH, key=key), (256, WIDTH)),
}


def lost(result: np.ndarray) -> np.ndarray:
    """An eighth of every sum is lost, or of every value."""
    return (result.astype(np.float64) * 7 / 8).astype(result.dtype)


def half(result: np.ndarray) -> np.ndarray:
    """Half of every sum is lost."""
    return (result.astype(np.float64) / 2).astype(result.dtype)


def zeros(result: np.ndarray) -> np.ndarray:
    """Nothing was computed."""
    return np.zeros_like(result)


def exchanged(result: np.ndarray) -> np.ndarray:
    """Halves exchanged along the longest axis."""
    axis = int(np.argmax(result.shape)) if result.ndim else 0
    return np.roll(result, result.shape[axis] // 2, axis) if result.ndim else -result


def doubled(result: np.ndarray) -> np.ndarray:
    """Every sum is counted twice."""
    return (result.astype(np.float64) * 2).astype(result.dtype)


FAULTS = (zeros, doubled, lost, half, exchanged)


def judged(name: str, dtype: Any, devices: int) -> tuple[dict[str, Reference], list[np.ndarray]]:
    """The reference of a program on a mesh of some devices, and what it gives there."""
    mesh = abstract_mesh({"x": devices})
    step, arguments = PROGRAMS[name](dtype)

    def placed(leaf: Any) -> jax.ShapeDtypeStruct:
        shape, dtype, spec = leaf
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    given = jax.tree.map(placed, arguments, is_leaf=_is_array)
    program = programs.take(written(step, given)).program
    fields = {"workload": "program_file", "program": program, "target": f"cpu:{devices}"}
    experiment = parse_experiment(fields | {"mesh": {"x": devices}})
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    found = names["program"].trace(*structs(experiment, names)).lower().compile()
    drawn = names["make_operands"]()
    assert experiment.exported is not None
    right = program_references(experiment.exported, drawn, "cpu", 0)
    given = (jax.device_put(drawn[path], names["placed"][path]) for path in drawn)
    return right, [np.asarray(each) for each in found(*given)]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, tuple) and len(leaf) == 3 and isinstance(leaf[0], tuple)


def verdicts(
    right: dict[str, Reference], results: list[np.ndarray], change: Any = np.asarray
) -> Iterator[Judgement]:
    """The judgement of each result, changed."""
    for reference, result in zip(right.values(), results, strict=True):
        yield reference.judge(change(result))


def main(options: Asked, figures: Figures) -> None:
    cases = [(name, dtype) for name in PROGRAMS for dtype in DTYPES]
    wrong = known = found = imprecise = 0
    chosen = of_part(list(enumerate(cases)), options.part)
    for number, (name, dtype) in chosen:
        told = []
        for devices in (1, 8):
            right, results = judged(name, dtype, devices)
            told.append(list(verdicts(right, results)))
        each = [judgement for verdict in told for judgement in verdict]
        refused = sum(judgement.wrong for judgement in each)
        fault = FAULTS[number // len(DTYPES) % len(FAULTS)]
        is_found = any(judgement.wrong for judgement in verdicts(right, results, fault))
        is_known = all(any(one.correct for one in verdict) for verdict in told)
        loose = sum(judgement.imprecise for judgement in each)
        wrong, known = wrong + (refused > 0), known + (is_known and not refused)
        found, imprecise = found + is_found, imprecise + (loose > 0)
        print(
            f"{name}, {jnp.dtype(dtype).name}: {refused} refused, {loose} imprecise of "
            f"{sum(one.compared for one in each)}, {sum(one.unjudged for one in each)} not judged"
            f"{'' if is_found else f'; {fault.__name__}: not found'}",
            flush=True,
        )
    count = len(chosen)
    figures.add("right programs called wrong", wrong, f"of {count}", most=0)
    figures.add("judged", known, f"of {count}", least=count * 50 / 60)
    figures.add("of these imprecise", imprecise, f"of {count}")
    figures.add("planted faults found", found, f"of {count}", least=count * 55 / 60)


if __name__ == "__main__":
    measure(main, __doc__, part="1/1")

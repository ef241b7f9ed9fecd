"""Bodies of shard_map whose devices compute alike what they could divide, and right ones beside them.

    python -m bench.mapped_accidents

Each is exported by `jax.export`, taken and compiled for 8 simulated devices, over each mesh of MESHES.
`bench.planted_accidents` plants some of them among others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure, of_part
from bench.lost_batches import judged_experiment, taken  # sets XLA's flags: before jax

ROWS, WIDTH = 256, 128
MESHES: dict[str, Mapping[str, int]] = {
    "x=8": {"x": 8},
    "x=4, y=2": {"x": 4, "y": 2},
    "y=4, x=2": {"y": 4, "x": 2},
}
Body = Callable[..., Any]


@dataclass(frozen=True)
class Mapped:
    """A step of one shard_map over a mesh, with the specs of its arguments and of its result."""

    body: Body
    specs: tuple[P, ...]
    out: P
    sizes: Mapping[str, int]
    dtype: Any = jnp.float32

    def __call__(self) -> bytes:
        """The bytes of its file."""
        mesh = abstract_mesh(dict(self.sizes))
        arguments = {
            name: jax.ShapeDtypeStruct(
                (WIDTH, WIDTH) if at else (ROWS, WIDTH),
                self.dtype,
                sharding=NamedSharding(mesh, spec),
            )
            for at, (name, spec) in enumerate(zip(("x", "w", "v"), self.specs, strict=False))
        }

        def mapped(*given: Any) -> Any:
            return jax.shard_map(
                lambda *blocks: self.body(self.sizes["x"], *blocks),
                mesh=mesh,
                in_specs=self.specs,
                out_specs=self.out,
                check_vma=False,
            )(*given)

        steps = {1: lambda x: mapped(x), 2: lambda x, w: mapped(x, w)}
        step = steps.get(len(self.specs), lambda x, w, v: mapped(x, w, v))
        return written(step, arguments)


def _next(x: Any, size: int, by: int = 1) -> Any:
    return lax.ppermute(x, "x", [(at, (at + by) % size) for at in range(size)])


def _zeros(x: Any, w: Any) -> Any:
    return jnp.zeros((ROWS, w.shape[1]), x.dtype)


def _put(size: int, turn: Any, part: Any, out: Any) -> Any:
    at = (lax.axis_index("x") - turn) % size * part.shape[0]
    return lax.dynamic_update_slice(out, part, (at, 0))


def _ring(size: int, x: Any, w: Any) -> Any:
    """A loop of as many turns as devices."""

    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        return _next(x, size), _put(size, at, x @ w, out)

    return lax.fori_loop(0, size, turn, (x, _zeros(x, w)))[1]


def _unrolled(size: int, x: Any, w: Any) -> Any:
    out = _zeros(x, w)
    for at in range(size):
        out = _put(size, at, x @ w, out)
        x = _next(x, size)
    return out


def _peeled(size: int, x: Any, w: Any) -> Any:
    """The first turn is before the loop, so that one permutation fewer runs."""

    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        x = _next(x, size)
        return x, _put(size, at, x @ w, out)

    return lax.fori_loop(1, size, turn, (x, _put(size, 0, x @ w, _zeros(x, w))))[1]


def _two_a_turn(size: int, x: Any, w: Any) -> Any:
    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        out = _put(size, 2 * at, x @ w, out)
        x = _next(x, size)
        out = _put(size, 2 * at + 1, x @ w, out)
        return _next(x, size), out

    return lax.fori_loop(0, size // 2, turn, (x, _zeros(x, w)))[1]


def _both_ways(size: int, x: Any, w: Any) -> Any:
    """Half of each block goes round each way."""

    def turn(at: Any, carried: Any) -> Any:
        left, right, out = carried
        parts = jnp.concatenate([left @ w, right @ w])
        return _next(left, size), _next(right, size, -1), _put(size, at, parts, out)

    halves = jnp.split(x, 2)
    return lax.fori_loop(0, size, turn, (*halves, _zeros(x, w)))[2]


def _layered(size: int, x: Any, w: Any, v: Any) -> Any:
    """Layers of a ring each, whose result enters the next as the blocks of this device."""

    def layer(x: Any, w: Any) -> Any:
        full = jnp.tanh(_ring(size, x, w))
        rows = x.shape[0]
        return lax.dynamic_slice(full, (lax.axis_index("x") * rows, 0), (rows, WIDTH)), None

    return lax.scan(layer, x, jnp.stack([w, v]))[0]


def _chained(size: int, x: Any, w: Any) -> Any:
    """A product of what goes round with what changes each turn, alike on all devices."""

    def turn(at: Any, carried: Any) -> Any:
        x, w, out = carried
        return _next(x, size), jnp.sin(w), _put(size, at, x @ w, out)

    return lax.fori_loop(0, size, turn, (x, w, _zeros(x, w)))[2]


def _attended(size: int, q: Any, k: Any) -> Any:
    """Attention of a ring: keys go round, queries stay; a mask by device, and turns left out."""
    me = lax.axis_index("x")

    def turn(at: Any, carried: Any) -> Any:
        k, out = carried
        source = (me - at) % size
        part = lax.cond(
            source <= me, lambda: jax.nn.softmax(q @ k.T) @ k, lambda: jnp.zeros_like(q)
        )
        return _next(k, size), out + part

    return lax.fori_loop(0, size, turn, (k, jnp.zeros_like(q)))[1]


def _piped(size: int, x: Any, w: Any) -> Any:
    """A pipeline: a stage on each device, the last of which passes nothing on."""
    me = lax.axis_index("x")

    def turn(at: Any, carried: Any) -> Any:
        out = jnp.tanh(jnp.where(me == 0, x, carried) @ w)
        return lax.ppermute(out, "x", [(one, one + 1) for one in range(size - 1)])

    return lax.fori_loop(0, size, turn, x)


def _scattered(size: int, x: Any, w: Any) -> Any:
    """What all devices have alike is summed and divided: its product is each device's own."""
    own = lax.psum_scatter(jnp.sin(x), "x", scatter_dimension=0, tiled=True)
    return own @ w


def _sent(size: int, x: Any, w: Any) -> Any:
    """What all devices have alike is sent otherwise to each."""
    own = lax.all_to_all(x.reshape(size, -1, WIDTH), "x", 0, 0, tiled=False)
    return (own[0] * lax.axis_index("x")) @ w


def _sliced(size: int, x: Any, w: Any) -> Any:
    rows = x.shape[0] // size
    return lax.dynamic_slice(x, (lax.axis_index("x") * rows, 0), (rows, WIDTH)) @ w


def _late(size: int, x: Any, w: Any) -> Any:
    """What differs from device to device reaches the product after four turns."""

    def turn(_: Any, carried: Any) -> Any:
        a, b, c, d, e = carried
        return lax.axis_index("x") * jnp.ones_like(x), a, b, c, e + d @ w

    zeros = jnp.zeros_like(x)
    return lax.fori_loop(0, 9, turn, (zeros, zeros, zeros, zeros, zeros))[4]


def _branched(size: int, x: Any, w: Any) -> Any:
    """Devices that take different branches, one of them without the product."""
    return lax.cond(lax.axis_index("x") == 0, lambda: x @ w, lambda: x) @ w


def _gathered(size: int, x: Any, w: Any) -> Any:
    return lax.all_gather(x, "x", tiled=True) @ w


def _summed(size: int, x: Any, w: Any) -> Any:
    return lax.psum(x, "x") @ w


def _product(size: int, x: Any, w: Any) -> Any:
    return x @ w


def _shifted(size: int, x: Any, w: Any) -> Any:
    """A permutation of what all devices have alike changes nothing."""
    return _next(x, size) @ w


BY_ROWS, BY_COLUMNS, WHOLE = P("x"), P(None, "x"), P()
# body, specs, out_specs; all of its products are repeated over x
REPEATED: dict[str, tuple[Body, tuple[P, ...], P]] = {
    "all of it replicated": (_product, (WHOLE, WHOLE), WHOLE),
    "gathered rows": (_gathered, (BY_ROWS, WHOLE), WHOLE),
    "a sum": (_summed, (BY_ROWS, WHOLE), WHOLE),
    "a permuted whole": (_shifted, (WHOLE, WHOLE), WHOLE),
    "a ring": (_ring, (BY_ROWS, WHOLE), WHOLE),
    "a ring, unrolled": (_unrolled, (BY_ROWS, WHOLE), WHOLE),
    "a ring, peeled": (_peeled, (BY_ROWS, WHOLE), WHOLE),
    "a ring, two a turn": (_two_a_turn, (BY_ROWS, WHOLE), WHOLE),
    "a ring both ways": (_both_ways, (BY_ROWS, WHOLE), WHOLE),
    "rings of layers": (_layered, (BY_ROWS, WHOLE, WHOLE), BY_ROWS),
}
RIGHT: dict[str, tuple[Body, tuple[P, ...], P]] = {
    "rows": (_product, (BY_ROWS, WHOLE), BY_ROWS),
    "gathered rows": (_gathered, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a slice of each": (_sliced, (WHOLE, WHOLE), BY_ROWS),
    "a ring": (_ring, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a ring, unrolled": (_unrolled, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a ring, peeled": (_peeled, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a ring, two a turn": (_two_a_turn, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a ring both ways": (_both_ways, (BY_ROWS, BY_COLUMNS), BY_COLUMNS),
    "a ring of what changes": (_chained, (BY_ROWS, WHOLE), WHOLE),
    "attention": (_attended, (BY_ROWS, BY_ROWS), BY_ROWS),
    "a pipeline": (_piped, (WHOLE, WHOLE), BY_ROWS),
    "a sum that is divided": (_scattered, (WHOLE, WHOLE), BY_ROWS),
    "what is sent": (_sent, (WHOLE, WHOLE), BY_ROWS),
    "what differs late": (_late, (WHOLE, WHOLE), BY_ROWS),
    "a branch of one device": (_branched, (WHOLE, WHOLE), BY_ROWS),
}


def over(mesh: str, given: tuple[Body, tuple[P, ...], P], dtype: Any = jnp.float32) -> Mapped:
    """A body over one of MESHES."""
    return Mapped(*given, MESHES[mesh], dtype)


def repeated(step: Callable[[], bytes], target: str = "cpu:8") -> dict[tuple[str, ...], float]:
    """The axes over which a compiled program repeats work, and times the work."""
    found = judged_experiment(taken(step(), target)).accidents
    return {each.axes: each.work for each in found if each.kind == "repeated_work"}


def elsewhere(mesh: str) -> dict[tuple[str, ...], float]:
    """What every body repeats: it divides nothing over the axis y."""
    return {(axis,): float(size) for axis, size in MESHES[mesh].items() if axis == "y"}


def main(asked: Asked, figures: Figures) -> None:
    """Judge each over each mesh."""
    planted = of_part([(n, m) for n in REPEATED for m in MESHES], asked.part)
    found = [
        (n, m)
        for n, m in planted
        if repeated(over(m, REPEATED[n])) == elsewhere(m) | {("x",): MESHES[m]["x"]}
    ]
    missed = "; ".join(", ".join(each) for each in planted if each not in found)
    title = f"repeated bodies found, of {len(planted)}"
    figures.add(title, len(found), least=len(planted), note=missed)
    right = of_part([(n, m) for n in RIGHT for m in MESHES], asked.part)
    false = [f"{n}, {m}" for n, m in right if repeated(over(m, RIGHT[n])) != elsewhere(m)]
    title = f"right bodies called repeated, of {len(right)}"
    figures.add(title, len(false), most=0, note="; ".join(false))


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "K/N: every Nth, from the Kth on"))

"""Bodies of shard_map that pass blocks around a ring: those that send too much, and right ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written

ROWS, WIDTH, COLUMNS = 2048, 256, 64
BY_ROWS, BY_COLUMNS, WHOLE = P("x"), P(None, "x"), P()
SIZES = {"x": 8}
Body = Callable[..., Any]


@dataclass(frozen=True)
class Ringed:
    """A step of one shard_map of x and w: their specs, that of its result, and its mesh."""

    body: Body
    specs: tuple[P, ...] = (BY_ROWS, BY_COLUMNS)
    out: Any = BY_COLUMNS
    sizes: Mapping[str, int] = None  # type: ignore[assignment]
    dtype: Any = jnp.float32
    columns: int = COLUMNS

    def mapped(self, mesh: Any) -> Callable[..., Any]:
        """The body over a mesh."""
        size = dict(self.sizes or SIZES)["x"]
        return jax.shard_map(
            lambda *blocks: self.body(size, *blocks),
            mesh=mesh,
            in_specs=self.specs,
            out_specs=self.out,
            check_vma=False,
        )

    def __call__(self) -> bytes:
        """The bytes of its file."""
        mesh = abstract_mesh(dict(self.sizes or SIZES))
        shapes = {"x": (ROWS, WIDTH), "w": (WIDTH, self.columns)}
        arguments = {
            name: jax.ShapeDtypeStruct(shape, self.dtype, sharding=NamedSharding(mesh, spec))
            for (name, shape), spec in zip(shapes.items(), self.specs, strict=True)
        }
        return written(lambda x, w: self.mapped(mesh)(x, w), arguments)


def turned(x: Any, size: int, by: int = 1) -> Any:
    return lax.ppermute(x, "x", [(at, (at + by) % size) for at in range(size)])


def zeros(size: int, x: Any, w: Any) -> Any:
    return jnp.zeros((size * x.shape[0], w.shape[1]), x.dtype)


def put(size: int, turn: Any, part: Any, out: Any, by: int = 1) -> Any:
    at = (lax.axis_index("x") - by * turn) % size * part.shape[0]
    return lax.dynamic_update_slice(out, part, (at, 0))


def turn_of(size: int, w: Any, by: int = 1) -> Callable[..., Any]:
    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        return turned(x, size, by), put(size, at, x @ w, out, by)

    return turn


def ring(size: int, x: Any, w: Any) -> Any:
    return lax.fori_loop(0, size, turn_of(size, w), (x, zeros(size, x, w)))[1]


def backwards(size: int, x: Any, w: Any) -> Any:
    return lax.fori_loop(0, size, turn_of(size, w, -1), (x, zeros(size, x, w)))[1]


def by_three(size: int, x: Any, w: Any) -> Any:
    return lax.fori_loop(0, size, turn_of(size, w, 3), (x, zeros(size, x, w)))[1]


def scanned(size: int, x: Any, w: Any) -> Any:
    turn = turn_of(size, w)
    starts = (x, zeros(size, x, w))
    return lax.scan(lambda c, at: (turn(at, c), None), starts, jnp.arange(size))[0][1]


def unrolled(size: int, x: Any, w: Any) -> Any:
    carried = (x, zeros(size, x, w))
    for at in range(size):
        carried = turn_of(size, w)(at, carried)
    return carried[1]


def peeled(size: int, x: Any, w: Any) -> Any:
    """The last product is after the loop, of the block that its last turn brought."""
    x, out = lax.fori_loop(0, size - 1, turn_of(size, w), (x, zeros(size, x, w)))
    return put(size, size - 1, x @ w, out)


def two_a_turn(size: int, x: Any, w: Any) -> Any:
    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        out = put(size, 2 * at, x @ w, out)
        x = turned(x, size)
        return turned(x, size), put(size, 2 * at + 1, x @ w, out)

    return lax.fori_loop(0, size // 2, turn, (x, zeros(size, x, w)))[1]


def both_ways(size: int, x: Any, w: Any) -> Any:
    def turn(at: Any, carried: Any) -> Any:
        left, right, out = carried
        part = jnp.concatenate([left @ w, right @ w])
        return turned(left, size), turned(right, size, -1), put(size, at, part, out)

    return lax.fori_loop(0, size, turn, (*jnp.split(x, 2), zeros(size, x, w)))[2]


def on_the_right(size: int, x: Any, w: Any) -> Any:
    """The larger block is the right operand, transposed."""

    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        start = (lax.axis_index("x") - at) % size * x.shape[0]
        part = lax.dot_general(w, x, (((0,), (1,)), ((), ())))
        return turned(x, size), lax.dynamic_update_slice(out, part, (0, start))

    return lax.fori_loop(0, size, turn, (x, zeros(size, x, w).T))[1]


def in_layers(size: int, x: Any, w: Any) -> Any:
    def layer(w: Any, _: Any) -> Any:
        return w * 2, ring(size, x, w)

    return lax.scan(layer, w, None, length=3)[1][2]


def ahead(size: int, x: Any, w: Any) -> Any:
    """Each turn multiplies what it brings: its last block is the first, at home."""

    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        x = turned(x, size)
        return x, put(size, at + 1, x @ w, out)

    return lax.fori_loop(0, size, turn, (x, zeros(size, x, w)))[1]


def buffered(size: int, x: Any, w: Any) -> Any:
    """Two buffers, both of which are multiplied after the loop."""

    def turn(at: Any, carried: Any) -> Any:
        x, ahead, out = carried
        return ahead, turned(ahead, size), put(size, at, x @ w, out)

    starts = (x, turned(x, size), zeros(size, x, w))
    x, ahead, out = lax.fori_loop(0, size - 2, turn, starts)
    out = put(size, size - 2, x @ w, out)
    return put(size, size - 1, ahead @ w, out)


def returned(size: int, x: Any, w: Any) -> Any:
    """The block that the last turn brought leaves."""
    return lax.fori_loop(0, size - 1, turn_of(size, w), (x, zeros(size, x, w)))[0]


def summed(size: int, x: Any, w: Any) -> Any:
    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        return turned(x, size), out + jnp.tanh(x @ w)

    return lax.fori_loop(0, size, turn, (x, jnp.zeros((x.shape[0], w.shape[1]), x.dtype)))[1]


def misplaced(size: int, x: Any, w: Any) -> Any:
    def turn(at: Any, carried: Any) -> Any:
        x, out = carried
        return turned(x, size), put(size, at + 1, x @ w, out)

    return lax.fori_loop(0, size, turn, (x, zeros(size, x, w)))[1]


def used_within(size: int, x: Any, w: Any) -> Any:
    full = ring(size, x, w)
    return full - full.max(axis=0)


def looked_at(size: int, x: Any, w: Any) -> Any:
    """More is made of the block that goes round than its product."""

    def turn(at: Any, carried: Any) -> Any:
        x, out, most = carried
        most = jnp.maximum(most, x.max())
        return turned(x, size), put(size, at, x @ w, out), most

    starts = (x, zeros(size, x, w), jnp.zeros((), x.dtype))
    _, out, most = lax.fori_loop(0, size, turn, starts)
    return out * most


def piped(size: int, x: Any, w: Any) -> Any:
    """A pipeline: the last device passes nothing on."""

    def turn(at: Any, x: Any) -> Any:
        out = jnp.tanh(x * w[0, 0])
        return lax.ppermute(out, "x", [(one, one + 1) for one in range(size - 1)])

    return lax.fori_loop(0, size, turn, x)


def until(size: int, x: Any, w: Any) -> Any:
    """As many turns as the values make it."""

    def turn(carried: Any) -> Any:
        x, total = carried
        return turned(x, size), total + lax.psum((x @ w).sum(), "x")

    return lax.while_loop(lambda c: c[1] < 9, turn, (x, jnp.zeros((), x.dtype)))[1]

"""Steps with errors of Explicit axes, as people report them on trackers: of `bench.explicit_errors`."""

HEAD = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "tensor"))


def a(*shape, spec=(), dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def step():
    return f, args

"""
SNIPPETS = {
    "matmul over a sharded dim": """
def f(x, up, down):
    return jax.nn.relu(x @ up) @ down

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(64, 32, spec=("tensor",))
""",
    "einsum of fsdp weights": """
def f(x, w):
    return jnp.einsum("bsd,df->bsf", x, w)

args = a(8, 6, 32, spec=("data", None, "tensor")), a(32, 64, spec=("tensor", "data"))
""",
    "embedding sharded over the vocabulary": """
def f(table, tokens):
    return table[tokens] * 2.0

args = a(64, 32, spec=("tensor",)), a(8, 6, spec=("data",), dtype=jnp.int32)
""",
    "embedding by take, features sharded": """
def f(table, tokens):
    return jnp.tanh(jnp.take(table, tokens, axis=0))

args = a(64, 32, spec=(None, "tensor")), a(8, 6, spec=("data",), dtype=jnp.int32)
""",
    "scatter-add of gradients": """
def f(table, tokens, updates):
    return table.at[tokens].add(updates)

args = a(64, 32, spec=("tensor",)), a(16, spec=("data",), dtype=jnp.int32), a(16, 32, spec=("data",))
""",
    "split heads": """
def f(x):
    b, s, d = x.shape
    return x.reshape(b, s, 3, d // 3) + 1.0

args = (a(8, 6, 96, spec=("data", None, "tensor")),)
""",
    "merge sharded dims": """
def f(x, w):
    b, s, d = x.shape
    return jnp.tanh(x.reshape(b, s * d) @ w)

args = a(8, 6, 32, spec=("data", None, "tensor")), a(192, 16)
""",
    "concatenate": """
def f(x, y):
    return jnp.concatenate([x, y], axis=1) * 2.0

args = a(8, 16, spec=("data",)), a(8, 16, spec=("data", "tensor"))
""",
    "add of other specs": """
def f(x, y):
    return x + y * 2.0

args = a(8, 16, spec=("data",)), a(8, 16, spec=("tensor",))
""",
    "scan from zeros": """
def f(x, w):
    def body(carry, _):
        return jnp.tanh(carry + x @ w), carry.sum()

    return lax.scan(body, jnp.zeros((8, 32)), None, length=4)

args = a(8, 32, spec=("data",)), a(32, 32)
""",
    "scan over time, a state of two": """
def f(xs, w):
    def cell(state, x):
        h, c = state
        c = 0.5 * c + jnp.tanh(x @ w + h)
        return (jax.nn.sigmoid(c), c), h

    (h, c), ys = lax.scan(cell, (jnp.zeros((8, 16)), jnp.zeros((8, 16))), xs)
    return h, c, ys

args = a(5, 8, 16, spec=(None, "data")), a(16, 16, spec=(None, "tensor"))
""",
    "cond of other types": """
def f(flag, x):
    return lax.cond(flag > 0, lambda x: x * 2.0, lambda x: jnp.zeros(x.shape), x)

args = a(dtype=jnp.int32), a(8, 16, spec=("data",))
""",
    "convolution": """
def f(images, kernel):
    return lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

args = a(8, 8, 8, 16, spec=("data", None, None, "tensor")), a(3, 3, 16, 32, spec=(None, None, "tensor"))
""",
    "sort over a sharded dim": """
def f(x):
    return jnp.sort(x, axis=-1)

args = (a(8, 16, spec=("data", "tensor")),)
""",
    "cumsum over the sequence": """
def f(x):
    return jnp.cumsum(x, axis=1) / 2.0

args = (a(8, 16, spec=("data", "tensor")),)
""",
    "dynamic slice": """
def f(cache, start):
    return lax.dynamic_slice_in_dim(cache, start, 3, axis=1)

args = a(8, 16, 32, spec=("data", "tensor")), a(dtype=jnp.int32)
""",
    "one-hot loss over a sharded vocabulary": """
def f(h, w, labels):
    logits = h @ w
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)
    return -picked.mean()

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(16, spec=("data",), dtype=jnp.int32)
""",
    "layer norm of sharded features": """
def f(x, scale, w):
    centered = x - x.mean(-1, keepdims=True)
    y = centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * scale
    return y @ w

args = a(16, 32, spec=("data", "tensor")), a(32, spec=("tensor",)), a(32, 64, spec=("tensor",))
""",
    "attention, heads over tensor": """
def f(x, wq, wk, wv, wo):
    b, s, d = x.shape
    q, k, v = ((x @ w).reshape(b, s, 4, 8) for w in (wq, wk, wv))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 8**-0.5
    mask = jnp.tril(jnp.ones((s, s), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return x + mixed.reshape(b, s, 32) @ wo

args = (a(8, 6, 32, spec=("data",)), *[a(32, 32, spec=(None, "tensor"))] * 3, a(32, 32, spec=("tensor",)))
""",
    "gradients of a two-layer loss": """
def loss(params, x, y):
    h = jnp.tanh(x @ params["up"])
    return ((h @ params["down"] - y) ** 2).mean()

def f(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

params = {"up": a(32, 64, spec=("data", "tensor")), "down": a(64, 32, spec=("tensor", "data"))}
args = params, a(16, 32, spec=("data",)), a(16, 32, spec=("data",))
""",
    "vmap over a sharded batch": """
def predict(x, w, v):
    return jnp.tanh(x @ w) @ v

def f(xs, w, v):
    return jax.vmap(predict, in_axes=(0, None, None))(xs, w, v)

args = a(8, 6, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(64, 32, spec=("tensor",))
""",
    "states of the optimizer sharded otherwise": """
def f(params, mu, grads):
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, mu), mu

args = {"w": a(32, 64, spec=("data",))}, {"w": a(32, 64, spec=("tensor",))}, {"w": a(32, 64, spec=("data",))}
""",
    "dropout": """
def f(x, w):
    keep = jax.random.bernoulli(jax.random.key(0), 0.9, (16, 64))
    h = x @ w
    return jnp.where(keep, h / 0.9, 0.0) @ w.T

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
    "custom_vjp": """
@jax.custom_vjp
def product(x, w):
    return x @ w

def forward(x, w):
    return x @ w, (x, w)

def backward(kept, g):
    x, w = kept
    return g @ w.T, x.T @ g

product.defvjp(forward, backward)

def f(x, w):
    return jax.grad(lambda w: (product(x, w) ** 2).sum())(w)

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
    "a constraint that asserts": """
def f(x, w):
    h = lax.with_sharding_constraint(x @ w, P("data", None))
    return h * 2.0

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
    "remat in a scan over layers": """
def f(x, stack):
    @jax.checkpoint
    def block(x, w):
        return x + jnp.tanh(x @ w["up"]) @ w["down"]

    def loss(stack):
        return lax.scan(lambda x, w: (block(x, w), None), x, stack)[0].mean()

    return jax.grad(loss)(stack)

stack = {"up": a(3, 32, 64, spec=(None, None, "tensor")), "down": a(3, 64, 32, spec=(None, "tensor"))}
args = a(16, 32, spec=("data",)), stack
""",
    "a while loop": """
def f(x, w):
    def body(state):
        i, y = state
        return i + 1, jnp.tanh(y + x @ w)

    return lax.while_loop(lambda state: state[0] < 3, body, (0, jnp.zeros((16, 32))))[1]

args = a(16, 32, spec=("data",)), a(32, 32)
""",
    "where of other specs": """
def f(x, y):
    return jnp.where(x > 0, x, y)

args = a(8, 16, spec=("data",)), a(8, 16, spec=("tensor",))
""",
    "top-k routing": """
def f(x, router):
    scores, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    return scores / scores.sum(-1, keepdims=True), chosen

args = a(16, 32, spec=("data",)), a(32, 8, spec=(None, "tensor"))
""",
    "a helper that two lines call": """
def project(x, w):
    return x @ w

def f(x, up, down, head):
    h = jax.nn.gelu(project(x, up))
    return project(project(h, down).sum(1), head)

args = a(8, 6, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(64, 32, spec=("tensor",)), a(32, 16, spec=("data",))
""",
}
# Further ones, written after the patch was: of threads on gathers, cumulative sums, heads, packed
# tokens, samplers and optimizers under Explicit axes.
FURTHER = {
    "einsum with two contracted dims": """
def f(x, w):
    return jnp.einsum("bshk,hkd->bsd", x, w) + 1.0

args = a(8, 6, 4, 16, spec=("data", None, "tensor")), a(4, 16, 32, spec=("tensor", None, "data"))
""",
    "a column of a sharded array": """
def f(x):
    return x[:, 1] * 2.0 + x[:, -1]

args = (a(16, 8, spec=("data", "tensor")),)
""",
    "argmax over a sharded vocabulary": """
def f(x, w):
    return jnp.argmax(x @ w, axis=-1) + 1

args = a(8, 32, spec=("data", "tensor")), a(32, 64, spec=("tensor", None))
""",
    "merge batch and sequence, then experts": """
def f(x, w):
    tokens = x.reshape(-1, x.shape[-1])
    return jnp.einsum("td,edf->etf", tokens, w)

args = a(8, 4, 32, spec=("data", "tensor")), a(4, 32, 16, spec=("tensor",))
""",
    "grouped queries by repeat": """
def f(q, k):
    k = jnp.repeat(k, 4, axis=2)
    return jnp.einsum("bshk,bthk->bhst", q, k)

args = a(8, 6, 8, 16, spec=("data", None, "tensor")), a(8, 6, 2, 16, spec=("data", None, "tensor"))
""",
    "tile and stack": """
def f(x, y):
    return jnp.stack([jnp.tile(x, (1, 2)), y], axis=0)

args = a(8, 16, spec=("data", "tensor")), a(8, 32, spec=("data",))
""",
    "a cache written at a position": """
def f(cache, new, at):
    return lax.dynamic_update_slice(cache, new, (0, at, 0))

args = (
    a(8, 16, 32, spec=("data", "tensor")),
    a(8, 1, 32, spec=("data", None, "tensor")),
    a(dtype=jnp.int32),
)
""",
    "vmap of a product over a sharded axis": """
def f(x, w):
    return jax.vmap(lambda row: jnp.tanh(row @ w))(x)

args = a(8, 6, 32, spec=("data", None, "tensor")), a(32, 64, spec=("tensor",))
""",
    "segment sums of packed tokens": """
def f(x, segments):
    return jax.ops.segment_sum(x, segments, num_segments=8)

args = a(16, 32, spec=("data", "tensor")), a(16, spec=("data",), dtype=jnp.int32)
""",
    "switch of branches": """
def f(x, w, at):
    same, turned = lambda x: x @ w, lambda x: jnp.roll(x, 1, axis=0) @ w
    return lax.switch(at, [same, turned], x)

args = a(8, 32, spec=("data", "tensor")), a(32, 32, spec=("tensor",)), a(dtype=jnp.int32)
""",
    "flatten before a classifier": """
def f(x, w):
    return jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ w)

args = a(8, 4, 4, 8, spec=("data", None, None, "tensor")), a(128, 16, spec=("tensor",))
""",
    "a cache written by positions": """
def f(cache, new, at):
    return cache.at[jnp.arange(cache.shape[0]), at].set(new)

args = (
    a(8, 16, 32, spec=("data", None, "tensor")),
    a(8, 32, spec=("data", "tensor")),
    a(8, spec=("data",), dtype=jnp.int32),
)
""",
    "logits of labels": """
def f(logits, labels):
    return logits[jnp.arange(labels.shape[0]), labels].mean()

args = a(16, 64, spec=("data", "tensor")), a(16, spec=("data",), dtype=jnp.int32)
""",
    "tokens to experts by a mask": """
def f(x, mask):
    return jnp.einsum("td,tec->ecd", x, mask) * 2.0

args = a(16, 32, spec=("data", "tensor")), a(16, 4, 8, spec=("data",))
""",
    "weights over the axis of the batch": """
def f(x, w, b):
    return jax.nn.gelu(x @ w + b)

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "data")), a(64)
""",
    "a scan over chunks of a sharded sequence": """
def f(x, w):
    chunks = jnp.moveaxis(x.reshape(8, 4, 2, 32), 1, 0)

    def body(carry, chunk):
        carry = carry + (chunk @ w).sum(1)
        return carry, carry

    return lax.scan(body, jnp.zeros((8, 16)), chunks)

args = a(8, 8, 32, spec=("data", "tensor")), a(32, 16)
""",
}

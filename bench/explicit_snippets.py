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
# As in threads of JAX, Equinox, Haliax, MaxText, Flax and Marin on `ShardingTypeError`, of other
# classes: indices that are sharded, contractions, maps and scans, closures, libraries, custom rules.
REPORTED = {
    "gradient through a gather by sharded indices": """
def f(table, ids, v):
    out, back = jax.vjp(lambda table: jnp.sum(table[ids, :], axis=-1), table)
    return out, back(v)

args = a(64, 32), a(16, spec=("data",), dtype=jnp.int32), a(16, spec=("data",))
""",
    "gram matrix over the batch": """
def f(x):
    return x.T @ x / x.shape[0]

args = (a(16, 32, spec=("data", "tensor")),)
""",
    "a sum over a dim that two axes shard": """
def f(x, y):
    return jnp.einsum("ji,j->i", x, y)

args = a(16, 32, spec=(("data", "tensor"),)), a(16, spec=(("data", "tensor"),))
""",
    "take by indices of two sharded dims": """
def f(table, ids):
    return jax.nn.silu(table[ids]) * 0.5

args = a(64, 32), a(8, 6, spec=("data", "tensor"), dtype=jnp.int32)
""",
    "heads that the axis does not divide": """
def f(x, w):
    b, s, _ = x.shape
    heads = (x @ w).reshape(b, s, 5, 16)
    mixed = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", heads, heads), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", mixed, heads).reshape(b, s, 80)

args = a(8, 6, 32, spec=("data",)), a(32, 80, spec=(None, "tensor"))
""",
    "optimizer of a library, states sharded otherwise": """
import optax
optimizer = optax.adam(1e-3)

def f(params, state, x, y):
    def loss(params):
        return ((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value

params = {"up": a(32, 64, spec=(None, "tensor")), "down": a(64, 32, spec=("tensor",))}
apart = {"up": a(32, 64, spec=("data", "tensor")), "down": a(64, 32, spec=("tensor", "data"))}
held = jax.eval_shape(optimizer.init, params)
state = (held[0]._replace(mu=apart, nu=apart), *held[1:])
args = params, state, a(16, 32, spec=("data",)), a(16, 32, spec=("data",))
""",
    "lax.map over a sharded batch": """
def f(x, w):
    return lax.map(lambda row: jnp.tanh(row @ w), x)

args = a(8, 6, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
    "associative scan over a sharded sequence": """
def f(gates, x):
    def combine(one, other):
        return one[0] * other[0], one[1] * other[0] + other[1]

    return lax.associative_scan(combine, (gates, x), axis=1)[1]

args = a(8, 16, 4, spec=("data", "tensor")), a(8, 16, 4, spec=("data", "tensor"))
""",
    "vmap that names a mesh axis": """
def layer(x, w):
    return lax.with_sharding_constraint(jnp.tanh(x @ w), P(None, "tensor"))

def f(x, w):
    return jax.vmap(layer, in_axes=(0, None), spmd_axis_name="data")(x, w)

args = a(8, 6, 32, spec=("data",)), a(32, 64, spec=("tensor",))
""",
    "shard_map of other specs inside": """
def f(x, w):
    h = x @ w
    centered = jax.shard_map(
        lambda h: h - lax.pmean(h, "data"), mesh=mesh, in_specs=P("data"), out_specs=P("data"))(h)
    return centered * 2.0

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
    "custom_vjp with a sharded bias": """
@jax.custom_vjp
def shifted(x, bias):
    return x + bias

def forward(x, bias):
    return shifted(x, bias), None

def backward(_, g):
    return g, g.sum(0)

shifted.defvjp(forward, backward)

def f(x, bias):
    return jax.grad(lambda b: (shifted(x, b) ** 2).sum())(bias)

args = a(16, 32, spec=("data",)), a(32, spec=("tensor",))
""",
    "rows written in a loop": """
def f(x, w):
    def body(i, out):
        return out.at[i].set(jnp.tanh(x[i] @ w))

    return lax.fori_loop(0, 8, body, jnp.zeros((8, 64)))

args = a(8, 32, spec=("data", "tensor")), a(32, 64, spec=("tensor",))
""",
    "order by a sharded score": """
def f(scores, x):
    order = jnp.argsort(scores, axis=-1)
    return jnp.take_along_axis(x, order[:, :, None], axis=1)

args = a(8, 16, spec=("data", "tensor")), a(8, 16, 4, spec=("data", "tensor"))
""",
    "split of one projection": """
def f(x, w):
    q, k, v = jnp.split(x @ w, 3, axis=-1)
    return jax.nn.softmax(q @ k.swapaxes(-1, -2), axis=-1) @ v

args = a(8, 6, 32, spec=("data",)), a(32, 96, spec=(None, "tensor"))
""",
    "both dims contracted": """
def f(x, y):
    return lax.dot_general(x, y, (((1, 2), (1, 0)), ((), ())))

args = a(8, 16, 32, spec=("data", "tensor")), a(32, 16, 4, spec=(None, "tensor"))
""",
    "rows of a slice set": """
def f(x, y):
    return x.at[:, 2:6].set(y) + 1.0

args = a(8, 16, 4, spec=("data", "tensor")), a(8, 4, 4, spec=("data",))
""",
    "cond in a scan": """
def f(x, ws):
    def body(h, w):
        h = lax.cond(h.sum() > 0, lambda h: jnp.tanh(h @ w), lambda h: h, h)
        return h, h.mean()

    return lax.scan(body, x, ws)

args = a(16, 32, spec=("data",)), a(3, 32, 32, spec=(None, None, "tensor"))
""",
    "distances of all pairs": """
def f(x):
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)

args = (a(16, 32, spec=("data",)),)
""",
    "contrastive logits": """
def f(images, texts):
    logits = images @ texts.T
    return -jnp.diagonal(jax.nn.log_softmax(logits, axis=-1)).mean()

args = a(16, 32, spec=("data",)), a(16, 32, spec=("data",))
""",
    "attention over a sharded sequence": """
def f(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

args = (a(8, 16, 2, 8, spec=("data", "tensor")),) * 3
""",
    "a list of outputs concatenated": """
def f(x, ws):
    outs = []
    for w in ws:
        outs.append(x @ w)
    return jnp.concatenate(outs, axis=-1)

args = a(16, 32, spec=("data",)), [a(32, 16, spec=(None, "tensor")), a(32, 16, spec=(None, "data")), a(32, 16)]
""",
    "tokens sent to slots of experts": """
def f(x, experts, slots):
    sent = jnp.zeros((4, 8, 32)).at[experts, slots].add(x)
    return sent[experts, slots]

args = a(16, 32, spec=("data",)), a(16, spec=("data",), dtype=jnp.int32), a(16, spec=("data",), dtype=jnp.int32)
""",
    "groups by ragged products": """
def f(x, w, sizes):
    return jax.nn.relu(lax.ragged_dot(x, w, sizes))

args = a(16, 32, spec=("data",)), a(4, 32, 64, spec=(None, None, "tensor")), a(4, dtype=jnp.int32)
""",
    "median over a sharded dim": """
def f(x):
    return jnp.median(x, axis=0) + jnp.quantile(x, 0.9, axis=0)

args = (a(16, 32, spec=("data", "tensor")),)
""",
    "cholesky of a sharded matrix": """
def f(x):
    return jnp.linalg.cholesky(x @ x.T + 100.0 * jnp.eye(16))

args = (a(16, 32, spec=("data", "tensor")),)
""",
    "masked mean by where and sum": """
def f(x, lengths):
    mask = jnp.arange(x.shape[1])[None, :] < lengths[:, None]
    kept = jnp.where(mask[..., None], x, 0.0)
    return kept.sum(1) / lengths[:, None]

args = a(8, 16, 32, spec=("tensor", "data")), a(8, spec=("data",), dtype=jnp.int32)
""",
    "a class that holds its weights": """
import dataclasses

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Block:
    up: jax.Array
    down: jax.Array

    def __call__(self, x):
        h = x @ self.up
        x += jax.nn.gelu(h) @ self.down
        return x

def f(blocks, x):
    for block in blocks:
        x = block(x)
    return x

block = Block(a(32, 64, spec=("data", "tensor")), a(64, 32, spec=("tensor", "data")))
args = [block, block], a(16, 32, spec=("data",))
""",
    "operands by a star": """
def f(*operands):
    return jnp.einsum("bd,df,fe->be", *operands)

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(64, 32, spec=("tensor",))
""",
    "a ring buffer by modulo": """
def f(buffer, new, at):
    buffer = lax.dynamic_update_index_in_dim(buffer, new, at % buffer.shape[0], axis=0)
    return buffer, lax.dynamic_index_in_dim(buffer, at, axis=0, keepdims=False)

args = a(16, 8, 32, spec=("tensor", "data")), a(8, 32, spec=("data",)), a(dtype=jnp.int32)
""",
    "microbatches by reshape and scan": """
def f(params, x):
    def loss(params, x):
        return ((x @ params) ** 2).mean()

    def body(total, batch):
        return total + jax.grad(loss)(params, batch), None

    return lax.scan(body, jnp.zeros_like(params), x.reshape(4, 4, 32))[0]

args = a(32, 64, spec=(None, "tensor")), a(16, 32, spec=("data",))
""",
    "dynamic loss scale by select": """
def f(grads, scale):
    finite = jnp.isfinite(grads["a"]).all() & jnp.isfinite(grads["b"]).all()
    merged = grads["a"] + grads["b"].T
    return jnp.where(finite, merged / scale, jnp.zeros_like(merged))

args = {"a": a(32, 32, spec=("data", "tensor")), "b": a(32, 32, spec=("data", "tensor"))}, a()
""",
    "loss over chunks of logits by map": """
def f(h, w, labels):
    def chunk(one):
        hidden, label = one
        logits = hidden @ w
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=-1).mean()

    return lax.map(chunk, (h.reshape(4, 4, 32), labels.reshape(4, 4))).mean()

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor")), a(16, spec=("data",), dtype=jnp.int32)
""",
    "jit inside with its own specs": """
@functools.partial(jax.jit, out_shardings=NamedSharding(mesh, P("data", "tensor")))
def inner(x, w):
    return jnp.tanh(x @ w)

def f(x, w):
    return inner(x, w) @ w.T

args = a(16, 32, spec=("data",)), a(32, 64, spec=(None, "tensor"))
""",
}

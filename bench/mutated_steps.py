"""Eight training steps as text, with mutations of their shardings, donations and element types, and
with edits that change none of these.
"""

from dataclasses import dataclass

HEAD = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

MESH = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)


def array(shape, *spec, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*spec)))


def keep(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P(*spec)))

"""
Edit = tuple[tuple[str, str], ...]  # what is replaced, and by what


@dataclass(frozen=True)
class Mutated:
    """A step: its text, mutations with what the failure has to name, and harmless edits."""

    text: str
    mutations: tuple[tuple[Edit, str], ...]
    harmless: tuple[Edit, ...]
    is_nested: bool = False


def _edit(*words: str) -> Edit:
    return tuple(zip(words[::2], words[1::2], strict=True))


_COMMENT = _edit("def loss(", "# The loss of a batch.\n# It is a mean.\n\n\ndef loss(")

MLP = Mutated(
    """
def loss(params, x):
    h = jnp.tanh(x @ params["up"])
    y = h @ params["down"]
    scale = params["scale"]
    return ((y * scale) ** 2).mean()


def train(params, x):
    gradients = jax.grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


step = jax.jit(train, donate_argnames=("params",))


def arguments():
    up = array((128, 512), "fsdp", "tensor")
    down = array((512, 128), "tensor", "fsdp")
    scale = array((128,))
    x = array((64, 128), "fsdp")
    return {"up": up, "down": down, "scale": scale}, x
""",
    (
        (
            _edit('up = array((128, 512), "fsdp", "tensor")', 'up = array((128, 512), "fsdp")'),
            "params/up",
        ),
        (
            _edit(
                'down = array((512, 128), "tensor", "fsdp")',
                'down = array((512, 128), "fsdp", "tensor")',
            ),
            "params/down",
        ),
        (_edit('x = array((64, 128), "fsdp")', 'x = array((64, 128), ("fsdp", "tensor"))'), "x"),
        (_edit(', donate_argnames=("params",)', ""), "params/"),
        (
            _edit(
                'up = array((128, 512), "fsdp", "tensor")',
                'up = array((128, 512), "fsdp", "tensor", dtype=jnp.bfloat16)',
            ),
            "params/up",
        ),
    ),
    (
        _COMMENT,
        _edit("    h = ", "    hidden = ", "y = h @", "y = hidden @"),
        _edit(
            '    h = jnp.tanh(x @ params["up"])\n    y = h @ params["down"]\n    scale = params["scale"]\n',
            '    scale = params["scale"]\n    h = jnp.tanh(x @ params["up"])\n    y = h @ params["down"]\n',
        ),
        _edit('"up"', '"w_up"', '"down"', '"w_down"'),
        _edit("def loss", "def mean_square", "jax.grad(loss)", "jax.grad(mean_square)"),
    ),
)

ATTENTION = Mutated(
    """
def attend(params, x):
    q, k, v = (jnp.einsum("bsd,dhe->bshe", x, params[name]) for name in ("q", "k", "v"))
    scores = jnp.einsum("bshe,bthe->bhst", q, k)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = keep(jnp.einsum("bhst,bthe->bshe", weights, v), "fsdp", None, "tensor", None)
    return jnp.einsum("bshe,hed->bsd", mixed, params["out"])


def loss(params, x):
    with jax.named_scope("attention"):
        y = attend(params, x)
    return (y * y).mean()


def train(params, x):
    gradients = jax.grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


step = jax.jit(train, donate_argnames=("params",))


def arguments():
    head = lambda: array((64, 4, 16), "fsdp", "tensor", None)
    params = {"q": head(), "k": head(), "v": head(), "out": array((4, 16, 64), "tensor", None, "fsdp")}
    x = array((16, 32, 64), "fsdp")
    return params, x
""",
    (
        (_edit('"k": head()', '"k": array((64, 4, 16), "fsdp", None, None)'), "params/k"),
        (
            _edit(
                'array((4, 16, 64), "tensor", None, "fsdp")',
                'array((4, 16, 64), "tensor", "fsdp", None)',
            ),
            "params/out",
        ),
        (
            _edit(
                '"fsdp", None, "tensor", None)\n    return',
                '"fsdp", "tensor", None, None)\n    return',
            ),
            "mixed = keep",
        ),
        (_edit('x = array((16, 32, 64), "fsdp")', 'x = array((16, 32, 64), None, "fsdp")'), "x"),
        (_edit('donate_argnames=("params",)', 'donate_argnames=("x",)'), "params/"),
    ),
    (
        _COMMENT,
        _edit("mixed", "values"),
        _edit('"q": head(), "k": head(), "v": head(), ', '"v": head(), "k": head(), "q": head(), '),
        _edit("def attend", "def attention", "attend(params", "attention(params"),
        _edit("    scores = jnp", "    # over all pairs of positions\n\n    scores = jnp"),
    ),
)

SCAN = Mutated(
    """
def layer(x, w):
    h = jax.nn.relu(x @ w["up"])
    x = x + h @ w["down"]
    return keep(x, "fsdp", None), None


def loss(params, x):
    x, _ = jax.lax.scan(layer, x, params["layers"])
    logits = x @ params["head"]
    return (logits ** 2).mean()


def train(params, x):
    value, gradients = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


step = jax.jit(train, donate_argnames=("params",))


def arguments():
    layers = {
        "up": array((4, 64, 256), None, "fsdp", "tensor"),
        "down": array((4, 256, 64), None, "tensor", "fsdp"),
    }
    head = array((64, 128), "fsdp", "tensor")
    x = array((32, 64), "fsdp")
    return {"layers": layers, "head": head}, x
""",
    (
        (
            _edit(
                '"up": array((4, 64, 256), None, "fsdp", "tensor")',
                '"up": array((4, 64, 256), None, "fsdp", None)',
            ),
            "params/layers/up",
        ),
        (
            _edit(
                '"down": array((4, 256, 64), None, "tensor", "fsdp")',
                '"down": array((4, 256, 64), "fsdp", "tensor", None)',
            ),
            "params/layers/down",
        ),
        (_edit('keep(x, "fsdp", None)', 'keep(x, None, "fsdp")'), "model.py"),
        (
            _edit(
                'head = array((64, 128), "fsdp", "tensor")',
                'head = array((64, 128), "fsdp", "tensor", dtype=jnp.bfloat16)',
            ),
            "params/head",
        ),
        (_edit(', donate_argnames=("params",)', ""), "params/"),
    ),
    (
        _COMMENT,
        _edit(
            '    h = jax.nn.relu(x @ w["up"])\n    x = x + h @ w["down"]\n',
            '    x = x + jax.nn.relu(x @ w["up"]) @ w["down"]\n',
        ),
        _edit('"layers"', '"blocks"'),
        _edit("def layer(x, w)", "def block(x, w)", "scan(layer,", "scan(block,"),
        _edit("logits = x @", "scores = x @", "(logits ** 2)", "(scores ** 2)"),
    ),
    is_nested=True,
)

ADAM = Mutated(
    """
def loss(params, x):
    h = jnp.tanh(x @ params["mlp"]["up"])
    return ((h @ params["mlp"]["down"]) ** 2).mean()


def update(state, gradients):
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["opt"]["mu"], gradients)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["opt"]["nu"], gradients)
    params = jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), state["params"], mu, nu)
    return {"params": params, "opt": {"mu": mu, "nu": nu}, "count": state["count"] + 1}


def train(state, x):
    return update(state, jax.grad(loss)(state["params"], x))


step = jax.jit(train, donate_argnames=("state",))


def weights(up=("fsdp", "tensor"), down=("tensor", "fsdp"), dtype=jnp.float32):
    return {"mlp": {"up": array((128, 256), *up, dtype=dtype), "down": array((256, 128), *down, dtype=dtype)}}


def arguments():
    params = weights()
    opt = {"mu": weights(), "nu": weights()}
    count = array((), dtype=jnp.int32)
    return {"params": params, "opt": opt, "count": count}, array((64, 128), "fsdp")
""",
    (
        (_edit('"nu": weights()', '"nu": weights(up=("fsdp", None))'), "state/opt/nu/mlp/up"),
        (
            _edit('"mu": weights(), "nu"', '"mu": weights(down=(None, "fsdp")), "nu"'),
            "state/opt/mu/mlp/down",
        ),
        (
            _edit('"mu": weights(), "nu"', '"mu": weights(dtype=jnp.bfloat16), "nu"'),
            "state/opt/mu/mlp/",
        ),
        (_edit(', donate_argnames=("state",)', ""), "state/"),
        (
            _edit("    params = weights()\n", '    params = weights(up=("tensor", "fsdp"))\n'),
            "state/params/mlp/up",
        ),
    ),
    (
        _COMMENT,
        _edit('"mu"', '"first"', '"nu"', '"second"'),
        _edit("    mu = jax", "    # moments\n    mu = jax"),
        _edit(
            '"params": params, "opt": opt, "count": count',
            '"count": count, "opt": opt, "params": params',
        ),
        _edit("def update", "def adam", "return update(", "return adam("),
    ),
    is_nested=True,
)

MODULES = Mutated(
    """
import functools
from dataclasses import dataclass
from typing import Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["up", "down"], meta_fields=[])
@dataclass
class Mlp:
    up: Any
    down: Any

    def __call__(self, x):
        h = jax.nn.gelu(x @ self.up)
        return h @ self.down


@functools.partial(jax.tree_util.register_dataclass, data_fields=["mlp", "scale"], meta_fields=[])
@dataclass
class Block:
    mlp: Mlp
    scale: Any

    def __call__(self, x):
        y = self.mlp(x * self.scale)
        return keep(x + y, "fsdp", None)


def loss(model, x):
    for number, block in enumerate(model["blocks"]):
        with jax.named_scope(f"block_{number}"):
            x = block(x)
    return (x * x).mean()


def train(model, x):
    gradients = jax.grad(loss)(model, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, model, gradients)


step = jax.jit(train, donate_argnames=("model",))


def block(up=("fsdp", "tensor"), dtype=jnp.float32):
    mlp = Mlp(array((64, 256), *up, dtype=dtype), array((256, 64), "tensor", "fsdp"))
    return Block(mlp, array((64,)))


def arguments():
    blocks = [block(), block(), block(), block()]
    x = array((64, 64), "fsdp")
    return {"blocks": blocks}, x
""",
    (
        (
            _edit(
                "[block(), block(), block(), block()]",
                '[block(), block(), block(up=("fsdp", None)), block()]',
            ),
            "model/blocks/2/mlp/up",
        ),
        (
            _edit(
                "[block(), block(), block(), block()]",
                "[block(), block(), block(), block(dtype=jnp.bfloat16)]",
            ),
            "model/blocks/3/mlp/up",
        ),
        (
            _edit('"tensor", "fsdp"))\n    return Block', '"tensor", None))\n    return Block'),
            "mlp/down",
        ),
        (_edit('keep(x + y, "fsdp", None)', 'keep(x + y, "fsdp", "tensor")'), "model.py"),
        (
            _edit("return Block(mlp, array((64,)))", 'return Block(mlp, array((64,), "fsdp"))'),
            "/scale",
        ),
    ),
    (
        _COMMENT,
        _edit("    up: Any\n", "    up: Any  # gate and value\n"),
        _edit(
            '"mlp"',
            '"feed_forward"',
            "mlp: Mlp",
            "feed_forward: Mlp",
            "self.mlp(",
            "self.feed_forward(",
        ),
        _edit(
            "class Mlp",
            "class FeedForward",
            "mlp: Mlp",
            "mlp: FeedForward",
            "= Mlp(",
            "= FeedForward(",
        ),
        _edit(
            "        h = jax.nn.gelu(x @ self.up)\n        return h @ self.down\n",
            "        return jax.nn.gelu(x @ self.up) @ self.down\n",
        ),
    ),
    is_nested=True,
)

MANUAL = Mutated(
    """
def rows(x, w):
    y = x @ w
    return jax.lax.psum(y, "tensor")


def forward(params, x):
    h = jnp.tanh(x @ params["up"])
    over = (P("fsdp", "tensor"), P("tensor", None))
    return jax.shard_map(rows, mesh=MESH, in_specs=over, out_specs=P("fsdp", None))(h, params["down"])


def evaluate(params, x):
    y = forward(params, x)
    return y, (y * y).mean()


step = jax.jit(evaluate)


def arguments():
    up = array((64, 256), None, "tensor")
    down = array((256, 64), "tensor", None)
    x = array((64, 64), "fsdp")
    return {"up": up, "down": down}, x
""",
    (
        (
            _edit(
                'jax.lax.psum(y, "tensor")',
                'jax.lax.psum_scatter(y, "tensor", scatter_dimension=1, tiled=True)',
                'out_specs=P("fsdp", None)',
                'out_specs=P("fsdp", "tensor")',
            ),
            "psum_scatter",
        ),
        (
            _edit(
                'down = array((256, 64), "tensor", None)', 'down = array((256, 64), None, "tensor")'
            ),
            "params/down",
        ),
        (
            _edit(
                'up = array((64, 256), None, "tensor")', 'up = array((64, 256), "fsdp", "tensor")'
            ),
            "params/up",
        ),
        (_edit("    y = x @ w\n", "    y = (x @ w).astype(jnp.float16)\n"), "psum"),
        (_edit("jax.jit(evaluate)", "jax.jit(evaluate, donate_argnums=(1,))"), "x"),
    ),
    (
        _edit("def rows", "# One device's rows.\ndef rows"),
        _edit(
            "    y = x @ w\n    return jax.lax.psum(y,",
            "    partial = x @ w\n    return jax.lax.psum(partial,",
        ),
        _edit(
            '    h = jnp.tanh(x @ params["up"])\n    over = (P("fsdp", "tensor"), P("tensor", None))\n',
            '    over = (P("fsdp", "tensor"), P("tensor", None))\n    h = jnp.tanh(x @ params["up"])\n',
        ),
        _edit("def forward", "def apply", "= forward(", "= apply("),
        _edit("(params, x)", "(weights, x)", "params[", "weights["),
    ),
)

VOCABULARY = Mutated(
    """
def loss(params, tokens):
    x = keep(params["embedding"][tokens], "fsdp", None, None)
    h = jax.nn.silu(x @ params["up"])
    x = x + h @ params["down"]
    logits = keep(x @ params["head"], "fsdp", None, "tensor")
    scores = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(scores, tokens[..., None], -1).mean()


def train(params, tokens):
    value, gradients = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


step = jax.jit(train, donate_argnames=("params",))


def arguments():
    params = {
        "embedding": array((512, 64), "tensor", "fsdp", dtype=jnp.bfloat16),
        "up": array((64, 256), "fsdp", "tensor", dtype=jnp.bfloat16),
        "down": array((256, 64), "tensor", "fsdp", dtype=jnp.bfloat16),
        "head": array((64, 512), "fsdp", "tensor", dtype=jnp.bfloat16),
    }
    tokens = array((16, 32), "fsdp", dtype=jnp.int32)
    return params, tokens
""",
    (
        (
            _edit(
                '"embedding": array((512, 64), "tensor", "fsdp"',
                '"embedding": array((512, 64), None, "fsdp"',
            ),
            "params/embedding",
        ),
        (
            _edit(
                'keep(x @ params["head"], "fsdp", None, "tensor")',
                'keep(x @ params["head"], "fsdp", None, None)',
            ),
            "logits = keep",
        ),
        (
            _edit(
                'keep(params["embedding"][tokens], "fsdp", None, None)',
                'params["embedding"][tokens]',
            ),
            "model.py",
        ),
        (
            _edit(
                '"head": array((64, 512), "fsdp", "tensor", dtype=jnp.bfloat16)',
                '"head": array((64, 512), "fsdp", "tensor")',
            ),
            "params/head",
        ),
        (_edit('tokens = array((16, 32), "fsdp"', "tokens = array((16, 32), None"), "tokens"),
    ),
    (
        _COMMENT,
        _edit("logits", "outputs"),
        _edit(
            '        "embedding": array((512, 64), "tensor", "fsdp", dtype=jnp.bfloat16),\n',
            "",
            '        "head"',
            '        "embedding": array((512, 64), "tensor", "fsdp", dtype=jnp.bfloat16),\n        "head"',
        ),
        _edit('"embedding"', '"table"'),
        _edit("tokens", "ids"),
    ),
)

ACCUMULATION = Mutated(
    """
def loss(params, x):
    h = jnp.tanh(x @ params["up"])
    return ((h @ params["down"]) ** 2).mean()


def add(carry, x):
    gradients = jax.grad(loss)(carry["params"], x)
    total = jax.tree.map(jnp.add, carry["total"], gradients)
    return {"params": carry["params"], "total": total}, None


def train(state, batch):
    zeros = jax.tree.map(jnp.zeros_like, state["params"])
    carry, _ = jax.lax.scan(add, {"params": state["params"], "total": zeros}, batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], carry["total"])
    params = jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], momentum)
    return {"params": params, "momentum": momentum}


step = jax.jit(train, donate_argnames=("state",))


def weights(up=("fsdp", "tensor"), dtype=jnp.float32):
    return {"up": array((64, 256), *up, dtype=dtype), "down": array((256, 64), "tensor", "fsdp", dtype=dtype)}


def arguments():
    params = weights()
    momentum = weights()
    batch = array((4, 32, 64), None, "fsdp")
    return {"params": params, "momentum": momentum}, batch
""",
    (
        (
            _edit("    momentum = weights()\n", '    momentum = weights(up=(None, "tensor"))\n'),
            "state/momentum/up",
        ),
        (
            _edit("    momentum = weights()\n", "    momentum = weights(dtype=jnp.bfloat16)\n"),
            "state/momentum/",
        ),
        (
            _edit(
                'batch = array((4, 32, 64), None, "fsdp")',
                'batch = array((4, 32, 64), "fsdp", None)',
            ),
            "batch",
        ),
        (_edit(', donate_argnames=("state",)', ""), "state/"),
        (
            _edit("    params = weights()\n", '    params = weights(up=("tensor", "fsdp"))\n'),
            "state/params/up",
        ),
    ),
    (
        _COMMENT,
        _edit('"total"', '"sums"'),
        _edit("momentum", "velocity"),
        _edit(
            '    gradients = jax.grad(loss)(carry["params"], x)\n    total = jax.tree.map(jnp.add, carry["total"], gradients)\n',
            '    total = jax.tree.map(jnp.add, carry["total"], jax.grad(loss)(carry["params"], x))\n',
        ),
        _edit("def add", "def accumulate", "scan(add,", "scan(accumulate,"),
    ),
    is_nested=True,
)

STEPS = {
    "mlp": MLP,
    "attention": ATTENTION,
    "scan": SCAN,
    "adam": ADAM,
    "modules": MODULES,
    "manual": MANUAL,
    "vocabulary": VOCABULARY,
    "accumulation": ACCUMULATION,
}

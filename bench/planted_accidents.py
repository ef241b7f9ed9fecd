"""Accidents of sharding that people make, planted one at a time in a right training or decoding step:
which are found, by the file alone or once it is compiled.

    python -m bench.planted_accidents [--part K/N]

Each step is exported by `jax.export`, taken and compiled for 8 simulated
devices, those of ON_TPU for a v5e too. The steps without an accident have no finding. `python -m
bench.lost_batches` plants ten batches that are lost by propagation alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from bench import mapped_accidents
from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure, of_part
from bench.lost_batches import judged_experiment, taken  # sets XLA's flags: before jax
from spmd_core.workloads import findings

ROWS, LENGTH, VOCABULARY, WIDTH, LAYERS = 32, 32, 512, 256, 4
MESH = abstract_mesh({"data": 4, "model": 2})
SPECS = {
    "emb": P("data", "model"),
    "head": P("data", "model"),
    "up": P("data", "model"),
    "down": P("model", "data"),
}
SHAPES = {
    "emb": (VOCABULARY, WIDTH),
    "head": (WIDTH, VOCABULARY),
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
}
ROWWISE, CACHE = P("data"), P(None, "data", None, "model")
KEPT, LOGITS = P("data", None, None), P("data", "model")
BOTH = P(("data", "model"), None, None)
EXPERTS = {"router": P(), "up": P("data", None, "model"), "down": P("data", "model", None)}
BY_MODEL = {"router": P(), "up": P("model"), "down": P("model")}
ONES = np.float32(2.0) * np.ones((), np.float32)  # no Python number: it widens bfloat16
TABLE = np.linspace(0, 1, 2048 * WIDTH, dtype=np.float32).reshape(2048, WIDTH)
Layer = Callable[[Any, Any], Any]


def sharding(spec: P) -> NamedSharding:
    """On the mesh of all steps."""
    return NamedSharding(MESH, spec)


def kept(x: Any, spec: P) -> Any:
    """The value, constrained."""
    return jax.lax.with_sharding_constraint(x, sharding(spec))


def mlp(x: Any, w: Any) -> Any:
    """A layer."""
    return x + jax.nn.relu(x @ w["up"]) @ w["down"]


def layered(x: Any, stacked: Any, layer: Layer = mlp) -> Any:
    """Layers one after another: a scan where they are stacked, else a loop that is unrolled."""
    if isinstance(stacked, list):
        for each in stacked:
            x = layer(x, each)
        return x
    return jax.lax.scan(lambda x, w: (layer(x, w), None), x, stacked)[0]


def scores(params: Any, tokens: Any) -> Any:
    """Logits of a batch of tokens."""
    return layered(kept(params["emb"][tokens], KEPT), params["layers"]) @ params["head"]


def loss(params: Any, tokens: Any, scores: Any = scores) -> Any:
    """Cross-entropy."""
    logits = jax.nn.log_softmax(scores(params, tokens).astype(jnp.float32))
    return -jnp.take_along_axis(logits, tokens[..., None], -1).mean()


@dataclass(frozen=True)
class Step:
    """A training step by momentum and a second moment; `specs` and `moments` are by the last two
    parts of a path, or one.
    """

    loss: Callable[[Any, Any], Any] = loss
    specs: Mapping[str, P] = field(default_factory=SPECS.copy)
    moments: Mapping[str, Mapping[str, P]] = field(default_factory=dict)
    is_stacked: bool = True
    dtype: Any = jnp.float32
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    batch: P = ROWWISE
    rows: int = ROWS
    donated: tuple[str, ...] = ("params", "state")
    leaves: Mapping[str, P] = field(default_factory=dict)  # by the path of an output, from its end
    has_average: bool = False

    def exported(self) -> bytes:
        """The bytes of its file."""
        params = self.tree({})
        names = ("mu", "nu", *(["average"] if self.has_average else []))
        state = {name: self.tree(self.moments.get(name, {})) for name in names}
        given = (self.rows, LENGTH)
        tokens = jax.ShapeDtypeStruct(given, jnp.int32, sharding=sharding(self.batch))
        arguments = {"params": params, "state": state, "tokens": tokens}
        outputs = self._outputs(arguments) if self.leaves else None
        return written(self.step, arguments, donated=self.donated, outputs=outputs)

    def tree(self, specs: Mapping[str, P]) -> Any:
        """Parameters, or what the optimizer keeps of each."""

        def array(name: str, layer: int | None = None) -> jax.ShapeDtypeStruct:
            given = {**self.specs, **specs}
            spec = given.get(f"{layer}/{name}", given[name])
            stacks = layer is None and name in ("up", "down")
            shape = ((LAYERS,) if stacks else ()) + SHAPES[name]
            spec = P(None, *spec) if stacks and len(spec) else spec
            dtype = self.dtypes.get(name, self.dtype)
            return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding(spec))

        layers: Any = {name: array(name) for name in ("up", "down")}
        if not self.is_stacked:
            layers = [{n: array(n, at) for n in ("up", "down")} for at in range(LAYERS)]
        return {"emb": array("emb"), "head": array("head"), "layers": layers}

    def step(self, params: Any, state: Any, tokens: Any) -> Any:
        """New parameters, new state, and the loss."""
        value, gradients = jax.value_and_grad(self.loss)(params, tokens)
        mu = jax.tree.map(lambda m, g: (0.9 * m + g).astype(m.dtype), state["mu"], gradients)
        nu = jax.tree.map(lambda m, g: (0.9 * m + g * g).astype(m.dtype), state["nu"], gradients)
        params = jax.tree.map(
            lambda p, m, v: p - (0.1 * m / (jnp.sqrt(v) + 1e-3)).astype(p.dtype), params, mu, nu
        )
        new = {"mu": mu, "nu": nu}
        if self.has_average:
            new["average"] = jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, state["average"], params)
        return params, new, value

    def _outputs(self, arguments: Any) -> dict[str, NamedSharding]:
        """The shardings of results: as they came, but for `leaves`."""
        given = {"0": arguments["params"], "1": arguments["state"]}
        paths = {
            jax.tree_util.keystr(path, simple=True, separator="/"): leaf.sharding
            for path, leaf in jax.tree_util.tree_flatten_with_path(given)[0]
        } | {"2": sharding(P())}
        for end, spec in self.leaves.items():
            paths |= {path: sharding(spec) for path in paths if path.endswith(end)}
        return paths


def with_scores(scores: Callable[[Any, Any], Any], **rest: Any) -> Step:
    """A training step on other logits."""
    return Step(loss=lambda params, tokens: loss(params, tokens, scores), **rest)


def embedded(change: Callable[[Any], Any], layer: Layer = mlp, **rest: Any) -> Step:
    """A training step with a change to what is embedded, or to its layers."""
    return with_scores(
        lambda params, tokens: (
            layered(change(params["emb"][tokens]), params["layers"], layer) @ params["head"]
        ),
        **rest,
    )


def on_weights(change: Callable[[Any], Any]) -> Step:
    """A training step with a change to its stacked weights before the scan."""
    return with_scores(
        lambda params, tokens: (
            layered(kept(params["emb"][tokens], KEPT), change(params["layers"])) @ params["head"]
        )
    )


def same(x: Any) -> Any:
    """The value, not constrained."""
    return x


def by_rows(loop: Callable[[Callable[[Any], Any], Any], Any]) -> Step:
    """A training step whose loss is a loop over parts of the batch, with tensor parallelism."""
    of = embedded(same).loss
    return Step(
        loss=lambda params, tokens: loop(lambda some: of(params, some), tokens), specs=TENSOR
    )


def widened(x: Any, w: Any) -> Any:
    """A layer after a norm that leaves its input in float32."""
    x = x.astype(jnp.float32)
    x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return mlp(x, w)


def dropped(x: Any, w: Any) -> Any:
    """A layer whose constraint drops the batch that its products keep."""
    return mlp(kept(x, P(None, None, "model")), w)


def by_sequence(x: Any, w: Any) -> Any:
    """A layer of sequence parallelism: its input is gathered along the sequence, its output is
    sharded over it again.
    """
    return kept(mlp(kept(x, KEPT), w), P("data", "model", None))


def contrasted(params: Any, tokens: Any) -> Any:
    """A loss that compares each row with all rows, which it gathers."""
    x = layered(kept(params["emb"][tokens], KEPT), params["layers"]).mean(1)
    alike = x @ kept(x, P()).T
    return -jnp.diagonal(jax.nn.log_softmax(alike.astype(jnp.float32))).mean()


def by_hand(is_whole: bool) -> Step:
    """A training step under shard_map over both axes, which gathers its weights itself: all of them
    before the scan, or a layer's inside it.
    """
    both, specs = ("data", "model"), dict.fromkeys(SPECS, P(("data", "model")))
    gather = lambda w, dim=0: jax.lax.all_gather(w, both, axis=dim, tiled=True)  # noqa: E731

    def local(params: Any, tokens: Any) -> Any:
        layers, layer = params["layers"], lambda x, w: mlp(x, jax.tree.map(gather, w))
        if is_whole:
            layers, layer = jax.tree.map(lambda w: gather(w, 1), layers), mlp
        x = layered(gather(params["emb"])[tokens], layers, layer)
        logits = jax.nn.log_softmax(x @ gather(params["head"]))
        taken = jnp.take_along_axis(logits, tokens[..., None], -1)
        return -jax.lax.pmean(taken.mean(), both)

    def loss(params: Any, tokens: Any) -> Any:
        own = {**params, "layers": dict.fromkeys(params["layers"], P(None, both))}
        own |= {name: P(both) for name in ("emb", "head")}
        given = {"mesh": MESH, "in_specs": (own, P(both)), "out_specs": P()}
        return jax.shard_map(local, check_vma=False, **given)(params, tokens)

    return Step(loss=loss, specs=specs, batch=P(both))


def mapped(x: Any, w: Any) -> Any:
    """A layer under shard_map, to which the batch is given as it is replicated."""
    specs = (P(), P(None, "model"), P("model", None))
    by_hand = jax.shard_map(
        lambda x, up, down: jax.lax.psum(jax.nn.relu(x @ up) @ down, "model"),
        mesh=MESH,
        in_specs=specs,
        out_specs=P(),
        check_vma=False,
    )
    return x + by_hand(x, w["up"], w["down"])


def decoder(cache_spec: P = CACHE, donated: tuple[str, ...] = ("cache",)) -> bytes:
    """A decoding step: one token of each row, with a cache of keys."""
    params = Step().tree({})
    shape = (LAYERS, ROWS, 64, WIDTH)
    cache = {"k": jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding(cache_spec))}
    tokens = jax.ShapeDtypeStruct((ROWS,), jnp.int32, sharding=sharding(P("data")))

    def step(params: Any, cache: Any, tokens: Any) -> Any:
        def layer(x: Any, given: Any) -> Any:
            w, keys = given
            keys = jax.lax.dynamic_update_slice(keys, x[:, None], (0, 3, 0))
            x = x + jnp.einsum(
                "bs,bsd->bd", jax.nn.softmax(jnp.einsum("bd,bsd->bs", x, keys)), keys
            )
            return mlp(x, w), keys

        x = kept(params["emb"][tokens], P("data", None))
        x, keys = jax.lax.scan(layer, x, (params["layers"], cache["k"]))
        return x @ params["head"], {"k": keys}

    arguments = {"params": params, "cache": cache, "tokens": tokens}
    outputs = {"0": sharding(LOGITS), "1/k": sharding(cache_spec)}
    return written(step, arguments, donated=donated, outputs=outputs)


def grouped() -> bytes:
    """A step of attention whose 2 heads of keys are fewer than the devices of their axis."""
    groups, heads, wide = 2, 8, 32
    mesh = abstract_mesh({"data": 2, "model": 4})
    of = lambda *spec: NamedSharding(mesh, P(*spec))  # noqa: E731

    def attend(params: Any, x: Any) -> Any:
        queries = jnp.einsum("bsd,dhk->bshk", x, params["q"])
        queries = queries.reshape(*x.shape[:2], groups, heads // groups, wide)
        keys = jnp.einsum("bsd,dgk->bsgk", x, params["k"])
        chances = jax.nn.softmax(jnp.einsum("bsghk,btgk->bghst", queries, keys))
        made = jnp.einsum("bghst,btgk->bsghk", chances, keys)
        return jnp.einsum("bshk,hkd->bsd", made.reshape(*x.shape[:2], heads, wide), params["o"])

    shapes = {"q": (WIDTH, heads, wide), "k": (WIDTH, groups, wide), "o": (heads, wide, WIDTH)}
    specs = {"q": (None, "model"), "k": (), "o": ("model",)}
    arrays = {name: jax.ShapeDtypeStruct(shapes[name], jnp.float32, sharding=of(*specs[name])) for name in shapes}  # fmt: skip
    x = jax.ShapeDtypeStruct((ROWS, LENGTH, WIDTH), jnp.float32, sharding=of("data"))
    return written(attend, {"params": arrays, "x": x})


def experts(rows_spec: P = ROWWISE, batch: P = KEPT, over: Mapping[str, P] = EXPERTS) -> bytes:
    """A training step of experts over the batch's axis, to which products dispatch the tokens."""
    count, room = 8, LENGTH // 4
    shapes = {
        "router": (WIDTH, count),
        "up": (count, WIDTH, LENGTH),
        "down": (count, LENGTH, WIDTH),
    }

    def made(params: Any, x: Any) -> Any:
        chances = jax.nn.softmax(x @ params["router"])
        to = jax.nn.one_hot(chances.argmax(-1), count)
        place = (jnp.cumsum(to, 1) * to - 1).astype(jnp.int32)
        sent = to[..., None] * jax.nn.one_hot(place, room)
        rows = kept(jnp.einsum("gsec,gsd->egcd", sent, x), rows_spec)
        rows = jax.nn.relu(jnp.einsum("egcd,edf->egcf", rows, params["up"]))
        rows = kept(jnp.einsum("egcf,efd->egcd", rows, params["down"]), rows_spec)
        back = sent * (chances * to).sum(-1)[..., None, None]
        return kept(x + jnp.einsum("gsec,egcd->gsd", back, rows), batch)

    def step(params: Any, x: Any) -> Any:
        slope = jax.grad(lambda params: ((made(params, x) - x) ** 2).mean())(params)
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, slope)

    arrays = {name: jax.ShapeDtypeStruct(shapes[name], jnp.float32, sharding=sharding(over[name])) for name in shapes}  # fmt: skip
    x = jax.ShapeDtypeStruct((ROWS, LENGTH, WIDTH), jnp.float32, sharding=sharding(batch))
    return written(step, {"params": arrays, "x": x}, donated=("params",))


def convolved(spec: P) -> bytes:
    """A training step of three convolutions over images that are sharded by their rows."""

    def loss(params: Any, x: Any) -> Any:
        for at, w in enumerate(params):
            labels = ("NHWC", "HWIO", "NHWC")
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=labels))  # fmt: skip
            x = kept(x, spec) if at == 1 else x
        return (x**2).mean()

    weights = [jax.ShapeDtypeStruct((3, 3, 32, 32), jnp.float32, sharding=sharding(P()))] * 3
    x = jax.ShapeDtypeStruct((ROWS, 32, 32, 32), jnp.float32, sharding=sharding(LOGITS))
    step = lambda params, x: jax.tree.map(lambda w, g: w - g, params, jax.grad(loss)(params, x))  # noqa: E731
    return written(step, {"params": weights, "x": x}, donated=("params",))


def averaged(spec: P) -> bytes:
    """A step of data parallelism with a moment that is constrained, and no sharding of results."""
    given = {name: jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=sharding(P())) for name in ("w", "m")}  # fmt: skip
    x = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32, sharding=sharding(P(("data", "model"))))

    def step(state: Any, x: Any) -> Any:
        slope = jax.grad(lambda w: ((x @ w) ** 2).mean())(state["w"])
        moment = kept(0.9 * state["m"] + slope, spec)
        return {"w": state["w"] - 0.1 * kept(moment, P()), "m": moment}

    return written(step, {"state": given, "x": x}, donated=("state",))


def forward(logits: P) -> bytes:
    """Logits of a batch."""
    tokens = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32, sharding=sharding(P("data")))
    arguments = {"params": Step().tree({}), "tokens": tokens}
    return written(lambda params, tokens: {"logits": scores(params, tokens)}, arguments, outputs={"logits": sharding(logits)})  # fmt: skip


def gradients(spec: P) -> bytes:
    """The gradient of the loss, with the head's as given."""
    tokens = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32, sharding=sharding(P("data")))
    arguments = {"params": Step().tree({}), "tokens": tokens}
    outputs = {
        "emb": sharding(SPECS["emb"]),
        "head": sharding(spec),
        "layers/up": sharding(P(None, *SPECS["up"])),
        "layers/down": sharding(P(None, *SPECS["down"])),
    }
    step = lambda params, tokens: jax.grad(loss)(params, tokens)  # noqa: E731
    return written(step, arguments, outputs=outputs)


def summed(spec_of: Callable[[jax.ShapeDtypeStruct], P]) -> bytes:
    """A step by gradients that are summed over microbatches, each sum constrained."""
    given = BASE.tree({})
    tokens = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32, sharding=sharding(ROWWISE))

    def step(params: Any, tokens: Any) -> Any:
        def turn(sums: Any, some: Any) -> Any:
            gradients = jax.grad(loss)(params, some)
            return jax.tree.map(lambda s, g, w: kept(s + g, spec_of(w)), sums, gradients, given), {}

        parts = tokens.reshape(ROWS // 8, 8, LENGTH).swapaxes(0, 1)
        sums, _ = jax.lax.scan(turn, jax.tree.map(jnp.zeros_like, params), parts)
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, sums)

    return written(step, {"params": given, "tokens": tokens}, donated=("params",))


FSDP = {"emb": P("data"), "head": P("data"), "up": P("data"), "down": P("data")}
REPLICATED = dict.fromkeys(SPECS, P())
TENSOR = {
    "emb": P(None, "model"),
    "head": P(None, "model"),
    "up": P(None, "model"),
    "down": P("model", None),
}
HALF = Step(dtype=jnp.bfloat16)
LISTED = Step(is_stacked=False)
_loop = lambda of, parts: jax.lax.scan(lambda sum, some: (sum + of(some), None), 0.0, parts)[0]  # noqa: E731
BASE = Step()

# What is planted, and the kinds of which one has to be found
PLANTED: dict[str, tuple[Step | Callable[[], bytes], tuple[str, ...]]] = {
    "a matrix replicated": (replace(BASE, specs=SPECS | {"up": P()}), ("replicated",)),
    "the embedding replicated": (replace(BASE, specs=SPECS | {"emb": P()}), ("replicated",)),
    "the head replicated": (replace(BASE, specs=SPECS | {"head": P()}), ("replicated",)),
    "both moments replicated": (
        replace(BASE, moments={"mu": REPLICATED, "nu": REPLICATED}),
        ("rule", "replicated"),
    ),
    "one moment replicated": (replace(BASE, moments={"nu": REPLICATED}), ("rule",)),
    "an average replicated": (
        replace(BASE, has_average=True, moments={"average": REPLICATED}),
        ("rule", "replicated"),
    ),
    "a layer transposed": (
        replace(LISTED, specs=SPECS | {"1/up": P("model", "data")}),
        ("rule",),
    ),
    "a layer replicated": (
        replace(LISTED, specs=SPECS | {"2/down": P()}),
        ("rule", "replicated"),
    ),
    "parameters not donated": (replace(BASE, donated=("state",)), ("missing_donation",)),
    "moments not donated": (replace(BASE, donated=("params",)), ("missing_donation",)),
    "a parameter leaves replicated": (
        replace(BASE, leaves={"0/head": P()}),
        ("resharded_state",),
    ),
    "a moment leaves transposed": (
        replace(BASE, leaves={"1/mu/emb": P("model", "data")}),
        ("resharded_state",),
    ),
    "a float32 embedding": (replace(HALF, dtypes={"emb": jnp.float32}), ("float32_leak",)),
    "a float32 head": (replace(HALF, dtypes={"head": jnp.float32}), ("float32_leak",)),
    "a cache not donated": (lambda: decoder(donated=()), ("missing_donation",)),
    "a cache replicated": (lambda: decoder(P()), ("replicated",)),
    "logits leave replicated": (lambda: forward(P()), ("replicated_output",)),
    "a gradient leaves replicated": (
        lambda: gradients(P()),
        ("replicated_output", "resharded_state"),
    ),
    "the batch not divided": (embedded(same, specs=TENSOR, batch=P()), ("repeated_work",)),
    "FSDP without a sharded batch": (
        embedded(same, batch=P(), rows=512),
        ("replicated_batch",),
    ),
    "a weight across": (
        embedded(same, specs=TENSOR | {"down": P(None, "model")}),
        ("crossed_weight",),
    ),
    "an axis not used": (replace(BASE, specs=FSDP), ("repeated_work",)),
    "a constraint to replicated": (
        embedded(lambda x: kept(x, P())),
        ("lost_batch", "repeated_work"),
    ),
    "a constraint to replicated before a loop": (
        embedded(lambda x: kept(x, P()), specs=TENSOR),
        ("dropped_batch",),
    ),
    "a constraint over another axis": (
        embedded(lambda x: kept(x, P("model", None, None))),
        ("lost_batch", "repeated_work"),
    ),
    "a constraint in a layer": (
        embedded(lambda x: kept(x, KEPT), dropped),
        ("dropped_batch",),
    ),
    "widened by a constant": (
        embedded(lambda x: kept(x, KEPT) * ONES, dtype=jnp.bfloat16),
        ("wide_products",),
    ),
    "widened by a norm": (
        embedded(lambda x: kept(x.astype(jnp.float32), KEPT), widened, dtype=jnp.bfloat16),
        ("wide_products",),
    ),
    "microbatches that take devices apart": (
        by_rows(lambda of, tokens: _loop(of, tokens.reshape(8, ROWS // 8, LENGTH))),
        ("repeated_work", "lost_batch"),
    ),
    "a map over rows": (
        by_rows(lambda of, tokens: jax.lax.map(lambda row: of(row[None]), tokens).mean()),
        ("repeated_work", "lost_batch"),
    ),
    "a batch under shard_map as P()": (
        embedded(same, mapped, specs=TENSOR),
        ("repeated_work", "lost_batch"),
    ),
    "a table in the program": (
        embedded(lambda x: kept(x + jnp.asarray(TABLE)[jnp.arange(LENGTH) * 3], KEPT)),
        ("constant",),
    ),
    "weights gathered by hand before the scan": (by_hand(True), ("gathered_whole",)),
    "gradients summed replicated": (lambda: summed(lambda _: P()), ("replicated_carry",)),
    "images gathered by their rows": (lambda: convolved(P("data")), ("repeated_work",)),
    "a ring over a replicated weight": (
        mapped_accidents.over("x=8", mapped_accidents.REPEATED["a ring"]),
        ("repeated_work",),
    ),
    "gathered rows in a shard_map": (
        mapped_accidents.over("x=8", mapped_accidents.REPEATED["gathered rows"]),
        ("repeated_work",),
    ),
    "a moment leaves as constrained": (lambda: averaged(P("data")), ("resharded_donation",)),
    "weights replicated before the scan": (
        on_weights(lambda weights: jax.tree.map(lambda w: kept(w, P()), weights)),
        ("gathered_whole",),
    ),
}
CLEAN: dict[str, Step | Callable[[], bytes]] = {
    "plain": BASE,
    "bfloat16": HALF,
    "a list of layers": LISTED,
    "an average": replace(BASE, has_average=True),
    "decoding": decoder,
    "forward": lambda: forward(P("data", None, "model")),
    "tensor parallelism": embedded(same, specs=TENSOR),
    "a small batch that is replicated": embedded(same, batch=P()),
    "a batch that a constraint shards": replace(BASE, batch=P(), rows=512),
    "sequence parallelism of both": replace(
        embedded(lambda x: kept(x, P("data", "model", None)), by_sequence, specs=TENSOR),
        batch=P("data", "model"),
    ),
    "grouped queries": grouped,
    "sequence parallelism": embedded(lambda x: kept(x, P("data", "model", None)), by_sequence),
    "experts over the batch's axis": experts,
    "experts over an axis of the batch": lambda: experts(
        P("model", "data", None, None), BOTH, BY_MODEL
    ),
    "images by their rows": lambda: convolved(P("data", "model")),
    "a moment leaves as it enters": lambda: averaged(P()),
    "a contrastive loss": replace(BASE, loss=contrasted),
    "gathered by hand": by_hand(False),
    "a ring": mapped_accidents.over("x=8", mapped_accidents.RIGHT["a ring, peeled"]),
    "attention in a ring": mapped_accidents.over("x=8", mapped_accidents.RIGHT["attention"]),
    "gradients": lambda: gradients(SPECS["head"]),
    "gradients summed sharded": lambda: summed(lambda leaf: leaf.sharding.spec),
    "microbatches": by_rows(
        lambda of, tokens: _loop(of, tokens.reshape(ROWS // 8, 8, LENGTH).swapaxes(0, 1))
    ),
}
ON_TPU = (
    "the batch not divided",
    "a constraint over another axis",
    "widened by a norm",
    "gradients summed replicated",
    "weights replicated before the scan",
)


def found(given: Step | Callable[[], bytes], target: str = "cpu:8") -> set[str]:
    """The kinds of the findings of a step, by its file and once it is compiled."""
    data = given.exported() if isinstance(given, Step) else given()
    experiment = taken(data, target)
    assert experiment.exported is not None
    judged = judged_experiment(experiment)
    kinds = {each.kind for each in findings(experiment.exported)}
    lost = {"lost_batch"} if judged.lost_batch else set[str]()
    return {*kinds, *lost, *(each.kind for each in judged.accidents if not each.is_minor)}


def main(asked: Asked, figures: Figures) -> None:
    """Judge each that is planted, then those that are right."""
    chosen, kinds = of_part(list(PLANTED.items()), asked.part), dict[str, set[str]]()
    for name, (given, _) in chosen:
        kinds[name] = found(given)
        print(f"{name}: {', '.join(sorted(kinds[name]))}", flush=True)
    missed = [f"{n}: {sorted(kinds[n])}" for n, (_, some) in chosen if not kinds[n] & {*some}]
    figures.add(
        f"accidents found, of {len(chosen)}",
        len(chosen) - len(missed),
        least=len(chosen),
        note="; ".join(missed),
    )
    on_tpu = [name for name, (given, some) in chosen if name in ON_TPU and not found(given, "tpu:v5e:2x4") & {*some}]  # fmt: skip
    figures.add("of these not found on v5e", len(on_tpu), most=0, note="; ".join(on_tpu))
    false = {name: found(given) for name, given in of_part(list(CLEAN.items()), asked.part)}
    note = "; ".join(f"{name}: {sorted(some)}" for name, some in false.items() if some)
    figures.add(f"right steps with a finding, of {len(false)}", sum(map(bool, false.values())), most=0, note=note)  # fmt: skip


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "K/N: every Nth, from the Kth on"))

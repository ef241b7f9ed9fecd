"""Decoders whose activations lose the batch, as FSDP over two axes does without constraints.

    python -m bench.lost_batches

Each of 10 programs is a scan over layers, exported by `jax.export`, taken and compiled for 8
simulated devices, 4 of them for a v5e too; the same with its embedding constrained has no such
finding. Parameters are sharded over two axes, the batch over the first of them.
"""

import os
from dataclasses import dataclass
from typing import Any

from spmd_core.machine import ENVIRONMENT, dump_folder

os.environ |= ENVIRONMENT  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure
from spmd_core.engine.absent.topology import lower_experiment
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.lower import Steps, compile_with, execute, structs
from spmd_core.engine.shardings import compiler_options, judged_of
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.facts import Judged, LostBatch
from spmd_core.script import program_text
from spmd_core.workloads import programs

ROWS, LENGTH, VOCABULARY = 32, 32, 512


@dataclass(frozen=True)
class Decoder:
    """A decoder's training step by SGD: `sizes` of the mesh, the batch over its first axis."""

    sizes: tuple[tuple[str, int], ...] = (("data", 4), ("model", 2))
    width: int = 256
    layers: int = 4
    is_checkpointed: bool = False
    dtype: Any = jnp.float32
    is_tied: bool = True
    has_attention: bool = False

    def exported(self, is_constrained: bool = False) -> bytes:
        """The bytes of its file; `is_constrained`: the embedding keeps the batch."""
        mesh = abstract_mesh(dict(self.sizes))
        rows, columns = (name for name, _ in self.sizes)

        def array(shape: tuple[int, ...], spec: P, dtype: Any = self.dtype) -> Any:
            return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

        wide, inner = P(None, rows, columns), P(None, columns, rows)
        params = {
            "emb": array((VOCABULARY, self.width), P(rows, columns)),
            "up": array((self.layers, self.width, 4 * self.width), wide),
            "down": array((self.layers, 4 * self.width, self.width), inner),
        }
        if not self.is_tied:
            params["head"] = array((self.width, VOCABULARY), P(rows, columns))
        if self.has_attention:
            params["qkv"] = array((self.layers, self.width, 3 * self.width), wide)
        kept = NamedSharding(mesh, P(rows, None, None)) if is_constrained else None
        step = lambda params, tokens: self._step(params, tokens, kept)  # noqa: E731
        tokens = array((ROWS, LENGTH), P(rows), jnp.int32)
        return written(step, {"params": params, "tokens": tokens}, donated=("params",))

    def _step(self, params: Any, tokens: Any, kept: Any) -> Any:
        value, gradients = jax.value_and_grad(self._loss)(params, tokens, kept)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    def _loss(self, params: Any, tokens: Any, kept: Any) -> Any:
        x = params["emb"][tokens]
        x = x if kept is None else jax.lax.with_sharding_constraint(x, kept)
        stacked = {name: params[name] for name in ("up", "down", "qkv") if name in params}
        layer = jax.checkpoint(_layer) if self.is_checkpointed else _layer
        x, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, stacked)
        logits = x @ (params["emb"].T if self.is_tied else params["head"])
        scores = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(scores, tokens[..., None], -1).mean()


def _layer(x: Any, w: Any) -> Any:
    if "qkv" in w:
        q, k, v = jnp.split(x @ w["qkv"], 3, axis=-1)
        scores = jax.nn.softmax(jnp.einsum("bsd,btd->bst", q, k) / 16)
        x = x + jnp.einsum("bst,btd->bsd", scores, v)
    return x + jax.nn.relu(x @ w["up"]) @ w["down"]


PLANTED: dict[str, Decoder] = {
    "plain": Decoder(),
    "rematerialized": Decoder(is_checkpointed=True),
    "attention": Decoder(has_attention=True),
    "bfloat16": Decoder(dtype=jnp.bfloat16),
    "own head": Decoder(is_tied=False),
    "fsdp x tensor": Decoder((("fsdp", 4), ("tensor", 2))),
    "2 x 4": Decoder((("data", 2), ("model", 4))),
    "wide": Decoder(width=512, layers=2),
    "attention, own head": Decoder(has_attention=True, is_tied=False, layers=2),
    "bfloat16, rematerialized": Decoder(dtype=jnp.bfloat16, is_checkpointed=True, layers=8),
}
ON_TPU = ("plain", "rematerialized", "attention", "fsdp x tensor")


def taken(data: bytes, target: str = "cpu:8") -> Experiment:
    """The experiment of a file as it was exported."""
    described = programs.take(data)
    given = {"workload": "program_file", "program": described.program, "target": target}
    return parse_experiment(given | {"mesh": dict(described.mesh)})


def judged(data: bytes, target: str = "cpu:8") -> tuple[Experiment, LostBatch | None]:
    """The experiment of a file, and where its compiled program loses the batch."""
    experiment = taken(data, target)
    return experiment, judged_experiment(experiment).lost_batch


def judged_experiment(experiment: Experiment) -> Judged:
    """What is known against the compiled program of an experiment."""
    with dump_folder() as folder:
        steps = Steps(lambda phase: None)
        lowered = _lowered(experiment, steps)
        compile_with(lowered, compiler_options(folder))
        return judged_of(experiment, folder)


def _lowered(experiment: Experiment, steps: Steps) -> Any:
    if experiment.place.is_absent:
        return lower_experiment(experiment, "auto", steps).lowered
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    return names["program"].trace(*structs(experiment, names)).lower()


def main(asked: Asked, figures: Figures) -> None:
    """Judge each, and with its batch kept: by the file itself, and by what the finding names."""
    missed, false, left = list[str](), list[str](), list[str]()
    for name, decoder in PLANTED.items():
        experiment, lost = judged(decoder.exported())
        missed += [] if lost else [name]
        false += [name] if judged(decoder.exported(is_constrained=True))[1] else []
        if lost and lost.places:
            specs = {f"@{each.source}": _json(each.spec) for each in lost.places[:1]}
            left += [name] if judged_experiment(experiment.vary(specs=specs)).lost_batch else []
    on_tpu = [n for n in ON_TPU if judged(PLANTED[n].exported(), "tpu:v5e:2x4")[1] is None]
    count = len(PLANTED)
    figures.add("lost batches found, of 10", count - len(missed), least=10, note=", ".join(missed))
    figures.add("found on v5e, of 4", 4 - len(on_tpu), least=4, note=", ".join(on_tpu))
    figures.add("false, with the embedding constrained", len(false), most=0, note=", ".join(false))
    figures.add("lost still, with the line that is named constrained", len(left), most=0, note=", ".join(left))  # fmt: skip


def _json(spec: tuple[tuple[str, ...], ...]) -> list[Any]:
    return [list(axes) or None for axes in spec]


if __name__ == "__main__":
    measure(main, __doc__)

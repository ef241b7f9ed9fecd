"""A program that loses its batch is found once it is compiled, and the line that is named keeps it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.fresh_findings import convolutions
from bench.lost_batches import PLANTED, judged, judged_experiment, taken
from spmd_core.advice.programs import lost_batch_words
from spmd_core.advice.remedies import change_words
from spmd_core.base import RequestError
from spmd_core.facts import Collective
from spmd_core.trials.remedies.arrays import candidates

pytestmark = pytest.mark.usefixtures("read_here")
PLAIN = PLANTED["plain"]


@pytest.fixture(scope="module")
def line():
    source = Path(judged.__code__.co_filename).read_text().splitlines()
    return next(number for number, each in enumerate(source, 1) if 'params["emb"][tokens]' in each)


def test_what_loses_the_batch_is_named_with_the_line_that_keeps_it(line):
    experiment, lost = judged(PLAIN.exported())
    assert lost is not None
    assert lost.axes == ("data",)
    assert lost.share > 0.5
    assert lost.places[0].source == f"lost_batches.py:{line}"
    words = lost_batch_words(lost)
    assert words.startswith(
        f"the batch is lost over `data` at {lost.source}, named there by argument `"
    )
    fix = f"the value of lost_batches.py:{line} to P('data', None, None)"
    assert words.endswith(f"; constrain {fix}")
    reduced = Collective(kind="all-reduce", axes=("data",), bytes=1, count=1)
    first = candidates(experiment, "auto", reduced, lost=lost)[0]
    pasted = "x = jax.lax.with_sharding_constraint(x, P('data', None, None))"
    changed = f"constrain the value of lost_batches.py:{line}, about as `{pasted}` does"
    assert change_words(experiment, first.changes) == changed
    assert judged_experiment(first.experiment).lost_batch is None


@pytest.mark.newer_whole
def test_the_line_that_is_named_keeps_the_batch_of_a_step_that_is_rematerialized():
    experiment, lost = judged(PLANTED["rematerialized"].exported())
    assert lost is not None
    specs = {f"@{each.source}": [list(axes) or None for axes in each.spec] for each in lost.places}
    assert judged_experiment(experiment.vary(specs=specs)).lost_batch is None


@pytest.mark.newer_whole
def test_a_batch_that_is_kept_is_no_finding():
    assert judged(PLAIN.exported(is_constrained=True))[1] is None


@pytest.mark.newer_whole
def test_convolutions_lose_the_batch_in_their_gradients_unless_it_is_kept():
    _, lost = judged(convolutions(is_kept=False))
    assert lost is not None and lost.axes == ("fsdp",) and lost.share > 0.2
    assert judged(convolutions())[1] is None


def _accumulated(is_kept):
    """Gradients over microbatches: rows that a loop takes are those of one device unless kept."""
    mesh = abstract_mesh({"data": 4, "model": 2})
    array = lambda shape, *spec: jax.ShapeDtypeStruct(  # noqa: E731
        shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec))
    )

    def step(w, x):
        loss = lambda w, rows: (jnp.tanh(rows @ w["up"]) @ w["down"]).mean()  # noqa: E731
        parts = x.reshape(4, 1024, 256)
        if is_kept:
            parts = jax.lax.with_sharding_constraint(parts, NamedSharding(mesh, P(None, "data")))
        add = lambda total, rows: (  # noqa: E731
            jax.tree.map(jnp.add, total, jax.grad(loss)(w, rows)),
            None,
        )
        return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, w), parts)[0]

    w = {"up": array((256, 512), None, "model"), "down": array((512, 256), "model")}
    return written(step, {"w": w, "x": array((4096, 256), "data")})


@pytest.mark.newer_whole
def test_a_loop_over_microbatches_loses_the_batch_unless_its_rows_are_kept():
    _, lost = judged(_accumulated(is_kept=False))
    assert lost is not None and lost.axes == ("data",) and lost.share > 0.2
    assert judged(_accumulated(is_kept=True))[1] is None


@pytest.mark.parametrize(
    ("value", "spec", "sentence"),
    [
        ("@other.py:3", [None], "names no line of the program's files"),
        ("@lost_batches.py:x", [None], "names no line of the program's files"),
        ("@lost_batches.py:3", ["batch"], "is not in the mesh"),
        ("@lost_batches.py:3", ["data", "data"], "is used twice"),
    ],
)
def test_a_value_that_cannot_be_constrained_is_refused(value, spec, sentence):
    with pytest.raises(RequestError, match=sentence):
        taken(PLAIN.exported()).vary(specs={value: spec})


def test_a_line_without_such_a_value_is_refused_when_it_is_lowered():
    changed = taken(PLAIN.exported()).vary(specs={"@lost_batches.py:1": ["data"]})
    with pytest.raises(RequestError, match="finds no array of rank 1 on that line"):
        judged_experiment(changed)

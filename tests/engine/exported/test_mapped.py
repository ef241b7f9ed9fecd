"""Inside of a shard_map, products that each device of an axis computes alike are found, and no others."""

import jax.numpy as jnp
import pytest

from bench import mapped_accidents as mapped
from bench.lost_batches import judged_experiment, taken
from spmd_core.advice.programs import accident_words

pytestmark = pytest.mark.usefixtures("read_here")
BOTH = "x=4, y=2"


@pytest.mark.parametrize("name", mapped.REPEATED)
def test_products_that_are_alike_along_an_axis_are_found(name):
    step = mapped.over(BOTH, mapped.REPEATED[name])
    assert mapped.repeated(step) == {("x",): 4.0, ("y",): 2.0}


@pytest.mark.parametrize("name", mapped.RIGHT)
def test_products_of_what_differs_along_an_axis_are_not(name):
    """Those along y, over which nothing is divided, are: the body was read."""
    assert mapped.repeated(mapped.over(BOTH, mapped.RIGHT[name])) == {("y",): 2.0}


@pytest.mark.newer_whole
@pytest.mark.parametrize("mesh", [each for each in mapped.MESHES if each != BOTH])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_ring_is_judged_on_each_mesh_in_each_dtype(mesh, dtype):
    others = mapped.elsewhere(mesh)
    wrong = mapped.repeated(mapped.over(mesh, mapped.REPEATED["a ring"], dtype))
    assert wrong == others | {("x",): mapped.MESHES[mesh]["x"]}
    assert mapped.repeated(mapped.over(mesh, mapped.RIGHT["a ring"], dtype)) == others


def test_what_a_map_repeats_is_no_useful_work_and_is_told_with_its_line():
    """8 devices compute the same product: 7 of 8 FLOPs do nothing new."""
    found = judged_experiment(taken(mapped.over("x=8", mapped.REPEATED["a ring"])()))
    (accident,) = found.accidents
    whole = 8 * 2 * mapped.ROWS * mapped.WIDTH**2
    assert found.mapped_flops == pytest.approx(whole * 7 / 8)
    assert accident.in_map
    assert accident.source.startswith("mapped_accidents.py:")
    words = accident_words(accident)
    assert f"at {accident.source} in a shard_map: 8 times the work, 88% of" in words
    assert words.endswith("; divide an operand over `x` in in_specs, and the result in out_specs")

"""One step of an optimizer over eight devices against one that `shard_map` writes out by hand: values,
bytes that are sent, FLOPs.
"""

import numpy as np
import pytest

from bench.optimizers import BY_HAND, FLOPS_OFF, NEAR, SHAPES, both

pytestmark = pytest.mark.this_python


@pytest.mark.parametrize("name", BY_HAND)
def test_an_update_is_that_of_a_program_written_for_each_device(name):
    (found, sent, flops), (expected, sent_by_hand, flops_by_hand) = both(name, SHAPES[0])
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=NEAR, atol=NEAR)
    assert sent == sent_by_hand and bool(sent) == (name != "lion")
    assert flops == pytest.approx(flops_by_hand, rel=FLOPS_OFF)

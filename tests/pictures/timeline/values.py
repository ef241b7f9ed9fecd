"""Timelines to test with, of small compiled programs."""

from spmd_core.facts import Prediction
from spmd_core.machine import get_topology
from spmd_core.pictures import Timeline, timeline_of
from spmd_core.time import predict
from spmd_core.time.cost.comm import Cluster
from tests.time.cost.programs import LOOP


def timeline(text: str = LOOP) -> Timeline:
    """Of a loop of 10 gathers beside matmuls, on 16 x 16 chips of v5e."""
    return predicted(text)[1]


def predicted(text: str) -> tuple[Prediction, Timeline]:
    """The prediction of such a loop, and its timeline."""
    places = tuple((i, j, 0, 0, 0) for i in range(16) for j in range(16))
    kept = []
    found = predict(
        text,
        Cluster(get_topology("tpu:v5e:16x16"), places),
        {},
        (("x", 256),),
        keep=lambda *walk: kept.append(timeline_of(*walk)),
    )
    return found, kept[0]


# a matmul of few rows after the gather: reading its weights takes longer than multiplying
THIN = LOOP.replace(
    "  %after = ",
    "  %thin = bf16[16,4096]{1,0:T(8,128)(2,1)} convolution(%w, %end), dim_labels=bf_io->bf, "
    'metadata={op_name="jit(step)/while/body/layer/gate/dot_general"}\n  %after = ',
)
# a sum in the place of the matmul that hides the gather: the chip waits for the rest of it
EXPOSED = LOOP.replace("convolution(%u, %u), dim_labels=bf_io->bf", "add(%u, %u)")

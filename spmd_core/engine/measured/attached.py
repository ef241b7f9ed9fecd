"""Prices a program that was compiled for attached TPUs, beside the measurement: what the cost model
estimates for the same text.
"""

from collections.abc import Sequence
from typing import Any

from spmd_core.engine.absent.topology import coordinates, memory_account
from spmd_core.results import Collective, Prediction
from spmd_core.time import Keep, Useful, cluster_of, predict

TPU = "tpu"
UNKNOWN = Useful()


def price(
    trial_mesh: tuple[tuple[str, int], ...],
    compiled: Any,
    used: Sequence[Any],
    every: Sequence[Any],
    collectives: tuple[Collective, ...] | None = None,
    keep: Keep | None = None,
    useful: Useful = UNKNOWN,
) -> Prediction | str | None:
    """The prediction of a compiled program on devices `used` (in its order) of `every` attached
    one; a note why there is none, None off TPUs.

    `collectives` are those of the program as they were read, which the prediction lists with their
    cost; `keep` is given the walk through the schedule; `useful` is what MFU counts.
    A measurement never fails for the sake of its prediction: whatever goes wrong here becomes the
    note.
    """
    if not every or every[0].platform != TPU or getattr(every[0], "coords", None) is None:
        return None
    try:
        cluster = cluster_of(every[0].device_kind, coordinates(every), coordinates(used))
        return predict(
            compiled.as_text(),
            cluster,
            memory_account(compiled),
            trial_mesh,
            useful,
            collectives=collectives,
            keep=keep,
        )
    except Exception as error:
        return " ".join(str(error).split())[:300] or type(error).__name__

"""Prices a program that was compiled for attached TPUs or GPUs, beside the measurement: what the
cost model estimates for the same text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from spmd_core.engine.devices import coordinates
from spmd_core.engine.lower import memory_account
from spmd_core.facts import Collective, Prediction
from spmd_core.machine import Coordinates
from spmd_core.time import Keep, Useful, cluster_of, predict

TPU, GPU = "tpu", "gpu"
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
    one; a note why there is none, None off TPUs and GPUs.

    `collectives` are those of the program as they were read, which the prediction lists with their
    cost; `keep` is given the walk through the schedule; `useful` is what MFU counts.
    A measurement never fails for the sake of its prediction: whatever goes wrong here becomes the
    note.
    """
    if not every or every[0].platform not in (TPU, GPU):
        return None
    if every[0].platform == TPU and getattr(every[0], "coords", None) is None:
        return None
    try:
        at = places(every)
        cluster = cluster_of(
            every[0].device_kind, list(at.values()), [at[each.id] for each in used]
        )
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


def places(every: Sequence[Any]) -> dict[int, Coordinates]:
    """Device id -> (x, y, z, core, slice); for a GPU the index in its NVLink domain, and the
    domain: JAX's slice, or the host where JAX has none.
    """
    if every[0].platform == TPU:
        return dict(zip((each.id for each in every), coordinates(every), strict=True))
    at: dict[int, Coordinates] = {}
    taken: Counter[int] = Counter()
    for each in sorted(every, key=lambda each: each.id):
        given = getattr(each, "slice_index", None)
        domain = int(each.process_index if given is None else given)
        at[each.id] = (taken[domain], 0, 0, 0, domain)
        taken[domain] += 1
    return at

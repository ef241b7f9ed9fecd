"""Bounds by which a wide search leaves out meshes, and policies of a mesh, against each of its
policies estimated: any model on any chips and mesh, drawn at random.

    python -m bench.search_bounds [--draws 200]
"""

import random
from collections.abc import Iterator

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError
from spmd_core.plan import PRESETS
from spmd_core.search import models, read_question
from spmd_core.search.bounds import first_held
from spmd_core.search.spaces.model_points import MeshPoint, points_of
from spmd_core.time import MeshEstimates

CHIPS = ("v5e:16", "v5p:16", "v6e:16", "tpu7x:16", "v4:64", "v5e:256", "v6e:4x4*2", "tpu7x:64")
GPUS = ("h100:8", "h100:64", "b200:16", "a100:16")
SEQUENCES = (2048, 4096, 8192, 32_768, 131_072)
NEARLY = 1 - 1e-6  # sums in another order


def points(seed: int, most: int = 6) -> list[MeshPoint]:
    """Some points of a drawn question of which a device may hold a plan."""
    draws = random.Random(f"bounds {seed}")
    while True:
        asked = {
            "model": draws.choice([*PRESETS]),
            "chips": [draws.choice(CHIPS if seed % 3 else GPUS)],
            "sequence": draws.choice(SEQUENCES),
            "batch_per_device": draws.choice((0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)),
            "plan": draws.choice(({}, {"dropless": True}, {"microbatches": 2})),
        }
        try:
            every = [*points_of(read_question(asked))]
        except RequestError:
            continue
        drawn = draws.sample(every, min(len(every), 40 * most))
        if held := [each for each in drawn if first_held([each])][:most]:
            return held


def broken(point: MeshPoint) -> Iterator[str]:
    """What a bound of a point denies of its policies, in words."""
    bounds = first_held([point])
    assert bounds is not None
    if bounds.least_work * NEARLY > bounds.least:
        yield f"work {bounds.least_work:g} above all of it {bounds.least:g}: {point}"
    most, rows = point.question.limit(point.topology), list(models._tried(point, {}))
    for each in rows:
        if each.seconds and each.seconds / each.tokens < NEARLY * bounds.least:
            yield f"{each.name}: {each.seconds / each.tokens:g} below {bounds.least:g}"
    for each in rows:
        if each.step and each.fits != "no":
            plan = each.step.plan
            if not MeshEstimates(plan).may_fit(plan, most):
                yield f"{each.name}: {each.fits} fits, and was left out"


def main(asked: Asked, figures: Figures) -> None:
    """Draw questions, and hold every policy of some of their points to its bounds."""
    looked, wrong = 0, list[str]()
    for seed in range(asked.draws):
        for point in points(seed):
            looked += 1
            wrong += broken(point)
    for each in wrong[:20]:
        print(each, flush=True)
    figures.add("points that a device may hold", looked, least=asked.draws)
    figures.add("policies that a bound denies", len(wrong), most=0)


if __name__ == "__main__":
    measure(main, __doc__, draws=200)

"""Whether remedies, Next and Search agree: 40 plans drawn at random, by estimates alone.

Of each plan: what Next proposes, the first change of remedies, and the best of a search over the
same chips, batch and sequence. A contradiction is: Next has nothing while remedies list a plan that
takes at least 3 % less time; remedies know a faster plan than Next of as many tokens; the search's
best takes longer per token than what Next proposes, which is in its space.
"""

import math
import random
from collections.abc import Iterator

from bench.figures import Asked, Figures, measure
from bench.memory_random import MODELS
from spmd_core.advice.results import next_plan
from spmd_core.base import RequestError
from spmd_core.machine import get_topology
from spmd_core.plan import Plan
from spmd_core.search import best_neighbors, models, read_question
from spmd_core.search.chips import named_meshes
from spmd_core.time import estimate_step
from spmd_core.trials.remedies.plans import candidates
from spmd_core.workloads import parse_plan

PLANS, WORTH, ALIKE = 40, 0.97, 1.001
TARGETS = ("v5e:4x4", "v5e:4x8", "v5p:2x2x2", "v5p:2x4x4", "v6e:4x4", "v6e:4x8", "tpu7x:2x2x2")


def drawn(seed: int) -> Plan:
    """The plan of a seed that fits."""
    draws = random.Random(f"neighborhood {seed}")
    while True:
        target = f"tpu:{draws.choice(TARGETS)}"
        meshes = list(named_meshes(get_topology(target).devices, ("data", "fsdp", "tensor"), 2))
        try:
            plan = parse_plan(
                {
                    "target": target,
                    "model": draws.choice(MODELS),
                    "mesh": draws.choice(meshes),
                    "sequence": draws.choice((2048, 4096)),
                    "batch_per_device": draws.choice((1, 2, 4)),
                    "remat": draws.choice(("full", "full", "minimal")),
                }
            )
        except RequestError:
            continue
        if estimate_step(plan).fits and not plan.kernel_refusal:
            return plan


def searched(plan: Plan) -> float:
    """Seconds of the best plan of a search over the same chips, batch and sequence."""
    asked = {
        "model": plan.model,
        "chips": [plan.topology.name],
        "global_batch": round(plan.batch),
        "sequence": plan.sequence,
    }
    question = read_question(asked)
    ranked = tuple(models.candidates(question))
    fitting = (each.seconds for each in ranked if each.is_ranked and each.fits == "yes")
    return min((seconds for seconds in fitting if seconds is not None), default=float("inf"))


def contradictions(plan: Plan) -> Iterator[str]:
    """Each as words."""
    prediction = estimate_step(plan)
    own = prediction.predicted_s
    assert own is not None
    proposed = next_plan(plan, prediction)
    same = [seconds for seconds, other in best_neighbors(plan) if other.tokens == plan.tokens]
    fastest = min(same, default=float("inf")) * plan.tokens
    known = [
        each.seconds
        for collective in prediction.collectives[:1]
        for each in candidates(plan, collective)
        if each.seconds < math.inf
    ]
    has_faster = proposed is not None and proposed.rule == "better_plan"
    if not has_faster and known and min(known) < WORTH * own.estimate:
        yield f"Next has nothing faster, remedies {min(known):.4g} s of {own.estimate:.4g}"
    if known and fastest > ALIKE * min(known):
        yield f"remedies {min(known):.4g} s, the neighborhood {fastest:.4g} s"
    if (best := searched(plan)) > ALIKE * min(fastest, own.estimate):
        yield f"search {best:.4g} s, neighborhood {fastest:.4g} s, itself {own.estimate:.4g} s"


def main(asked: Asked, figures: Figures) -> None:
    bad = 0
    for seed in range(asked.plans):
        plan = drawn(seed)
        told = list(contradictions(plan))
        bad += bool(told)
        mesh = ",".join(f"{name}={size}" for name, size in plan.mesh)
        for words in told:
            print(f"{seed} {plan.target} {plan.model} {mesh} {plan.remat}: {words}", flush=True)
    figures.add(f"plans of {asked.plans} with a contradiction", bad, most=0)


if __name__ == "__main__":
    measure(main, __doc__, plans=PLANS)

"""Plans one change away: the neighborhood that Next and remedies ask, inside a search's space."""

from spmd_core.facts import Collective
from spmd_core.search import best_neighbors, models, read_question
from spmd_core.search.neighborhood import neighbors
from spmd_core.time import estimate_step
from spmd_core.trials.remedies.plans import candidates
from spmd_core.workloads import parse_plan

PLAN = parse_plan(
    {
        "target": "tpu:v5e:4x4",
        "model": "scaled:1",
        "mesh": {"fsdp": 8, "tensor": 2},
        "batch_per_device": 2,
        "remat": "full",
    }
)


def test_any_axis_goes_into_any_other_and_each_name_is_tried():
    found = list(neighbors(PLAN))
    assert len(set(found)) == len(found) and PLAN not in found
    meshes = [dict(each.mesh) for each in found]
    for mesh in (
        {"data": 2, "fsdp": 4, "tensor": 2},
        {"fsdp": 16},
        {"data": 8, "tensor": 2},
        {"fsdp": 4, "tensor": 4},
        {"fsdp": 8, "sequence": 2},
    ):
        assert mesh in meshes
    assert {each.remat for each in found} == {"none", "minimal", "full"}
    policies = {(each.save, each.offload) for each in found}
    for name in ("query", "out", "attention", "mlp_down"):
        assert ((name,), ()) in policies and ((), (name,)) in policies
    assert {each.batch for each in found} == {PLAN.batch, 2 * PLAN.batch, PLAN.batch // 2}


def test_next_remedies_and_a_search_agree_on_the_neighbors_of_a_plan():
    small = PLAN.model_copy(update={"target": "tpu:v5e:2x4", "mesh": (("fsdp", 4), ("tensor", 2))})
    best = best_neighbors(small)
    assert best[0][0] < estimate_step(small).predicted_s.estimate / small.tokens
    reduced = Collective(kind="all-reduce", axes=("tensor",), bytes=1, count=1)
    tried = candidates(small, reduced)
    same = [other for _, other in best if other.tokens == small.tokens]
    assert tried[0].experiment.plan == same[0]
    question = read_question(
        {
            "model": "scaled:1",
            "chips": ["v5e:2x4"],
            "batch_per_device": 2,
            "plan": {"microbatches": 1},
        }
    )
    winner = min(
        (each for each in models.candidates(question) if each.is_ranked and each.fits == "yes"),
        key=lambda each: each.seconds,
    )
    assert winner.seconds <= tried[0].seconds * (1 + 1e-9)

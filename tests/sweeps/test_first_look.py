"""What a few estimates show of a question, before it is searched."""

import pytest

from spmd_core.search import (
    BATCHES,
    REMATS,
    SAME,
    best_neighbors,
    candidate_of,
    models,
    read_array_question,
    read_question,
)
from spmd_core.sweeps import TrainingQuestion, best_mesh, first_look, train, ways_out
from spmd_core.sweeps.first_look import MOST_LOOKED
from tests.cover import whole

pytestmark = pytest.mark.slow
SMALL = {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["full"]}
ARRAYS = {
    "workload": "mlp",
    "target": "cpu:8",
    "dims": {"batch": 64, "in": 64, "hidden": 64, "out": 64},
    "mesh": None,
    "sharding": None,
    "strategies": ["auto"],
}


def test_a_look_has_the_estimates_of_the_search_itself():
    small = {"chips": ["v5e:2x4"], "global_batch": 16, "offload": False}
    question = read_question(SMALL | small)
    look = first_look(question)
    every = {each.name: each for each in models.candidates(question)}
    assert look.winner is not None and 0 < len(look.found) < MOST_LOOKED + 100
    for each in look.found:
        assert every[each.name].seconds == each.seconds and each.stage in ("estimated", "pruned")
    least = min(e.seconds for e in look.found if e.fits == "yes" and e.seconds)
    assert least <= look.winner.seconds <= (1 + SAME) * least


EIGHT = {"model": "llama-3.1-8b", "chips": ["v5p:8"]}


def test_each_number_is_that_of_one_candidate():
    look = first_look(read_question(EIGHT))
    numbers, names = ([getattr(each, what) for each in look.found] for what in ("number", "name"))
    assert len({*numbers}) == len({*names}) == len(look.found)


def test_other_meshes_are_looked_at_under_the_options_of_the_best():
    look = first_look(read_question(EIGHT))
    options = look.winner.step.policy.options
    assert options, "else nothing is tested"
    tried = {each.step.of_mesh.mesh for each in look.found if each.step}
    under = {
        each.step.of_mesh.mesh for each in look.found if each.step and each.step.policy.options
    }
    assert tried == under and len(under) > 9
    other = next(
        each[0].candidate for each in look.shardings if "sequence=8" in each[0].candidate.name
    )
    assert other.step.policy.options == options, "its best is under them too"


def test_a_look_has_the_best_plan_though_it_may_not_fit():
    asked = {"model": "mixtral-8x7b", "chips": ["v6e:32"]}
    look = first_look(read_question(asked))
    form = {"model": "mixtral-8x7b", "sequence": look.question.sequence}
    for per_device in (1.0, 8.0):
        best = best_mesh(form, "tpu:v6e:32", 32 * per_device, REMATS)
        found = [each for each in look.found if each.plan == best.plan]
        assert found or not best.fits
    assert any(each.plan and each.plan.offload for each in look.found)


def test_what_fits_only_with_offload_is_offloaded_in_a_look():
    question = {
        "model": "llama-3.1-8b",
        "chips": ["v6e:4x8"],
        "global_batch": 256,
        "sequence": 8192,
    }
    look = first_look(read_question(question))
    assert look.winner is not None and look.winner.plan.offload
    without = first_look(read_question(question | {"offload": False}))
    assert without.winner.plan.microbatches and days(without.winner) > days(look.winner)


def test_a_look_at_what_is_not_sure_to_fit_names_the_nearest_and_the_space():
    asked = {"model": "mixtral-8x7b", "chips": ["v5e:64"], "sequence": 8192}
    look = first_look(read_question(asked))
    assert look.winner is None and look.ranking[0].candidate.fits == "likely"
    assert look.space > 10 * len(look.found), "others may be sure to"


def test_each_kind_of_chip_is_in_a_look_and_a_space_that_is_too_wide_is_not():
    look = first_look(read_question(SMALL | {"chips": ["v5e:4", "v5e:16", "v5p:8"]}))
    assert {each.chips for each in look.found} == {16, 8}
    free = first_look(read_question({key: SMALL[key] for key in ("model", "chips", "remat")}))
    assert {each.plan.batch_per_device for each in free.found if each.plan} == {1.0, 8.0}
    wide = {"model": "mixtral-8x7b", "chips": ["v5p:8960"], "slices": "any"}
    assert first_look(read_question(wide)) is None or first_look(read_question(wide)).found


@pytest.mark.parametrize("dims", [ARRAYS["dims"], {"batch": 8, "in": 8, "hidden": 8, "out": 8}])
def test_a_computation_has_a_look_too(dims):
    look = first_look(read_array_question(ARRAYS | {"dims": dims}))
    assert look.winner is not None and look.counts["measured"] == look.counts["compiled"] == 0


def days(each):
    return 1e12 / 86400 * each.seconds / each.tokens


@pytest.mark.parametrize(
    ("model", "kind", "chips"),
    [
        ("llama-3.1-70b", "v5e", 128),
        pytest.param("llama-3.1-8b", "v5e", 256, marks=whole),
        ("llama-3.1-8b", "v5p", 8),
        pytest.param("mixtral-8x7b", "v5e", 128, marks=whole),
    ],
)
def test_a_look_is_no_slower_than_the_plan_of_a_training_run_on_the_same_chips(model, kind, chips):
    """Of plans that are sure to fit: with the batch of a training run, else with fewer tokens a step."""
    form = {"model": model, "sequence": 8192}
    asked = TrainingQuestion(form, 1e12, 512, (kind,), chips)
    (row,) = train(asked).rows
    ways = () if row.is_sure else ways_out(asked, row.plan)
    known = [row.run] * row.is_sure
    known += [e.run for e in ways if e.is_sure and e.plan.topology == row.plan.topology]
    look = first_look(read_question(form | {"chips": [f"{kind}:{chips}"]}))
    least = min((run.days.estimate for run in known), default=1e9)
    assert look.winner and days(look.winner) <= (1 + SAME) * least
    near = best_neighbors(look.winner.plan)
    inside = [
        (seconds, plan)
        for seconds, plan in near
        if plan.batch_per_device in BATCHES and candidate_of(look.question, plan)
    ]
    least = look.winner.seconds / look.winner.tokens
    assert all(seconds >= (1 - SAME) * least for seconds, _ in inside), "a descent ends there"


def test_other_meshes_are_looked_at_under_the_policy_that_a_descent_ends_with():
    look = first_look(
        read_question({"model": "llama-3.1-8b", "chips": ["v5e:256"], "sequence": 8192})
    )
    policy, batch = look.winner.step.policy, look.winner.plan.batch_per_device
    assert policy.offload, "else the look without offload has it"
    under = {e.step.of_mesh.mesh for e in look.found if e.step and e.step.policy == policy}
    meshes = {
        each.step.of_mesh.mesh
        for each in look.found
        if each.step and each.plan.batch_per_device == batch and each.is_ranked
    }
    assert len(under) > 9 and meshes <= under


def test_what_fits_only_in_microbatches_is_in_a_look_at_so_many_sequences():
    asked = {"model": "mixtral-8x7b", "chips": ["v5e:128"], "sequence": 8192, "global_batch": 512}
    look = first_look(read_question(asked))
    assert look.winner and look.winner.plan.microbatches and look.winner.plan.batch == 512

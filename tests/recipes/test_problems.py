"""Problems: every question parses, and its text says what the instant estimate says."""

import pytest

from spmd_core.advice import nearest_words
from spmd_core.experiment.link import decode, link_path, screen_of
from spmd_core.recipes import RECIPES, groups, problems
from spmd_core.recipes.variations import variation_of
from spmd_core.time import estimate_step, nearest_fit
from spmd_core.words import parts

PLANS = [recipe.name for recipe in problems.RECIPES if recipe.claims]


def estimated(experiment):
    plan = experiment.plan
    return plan, estimate_step(plan)


def pace(experiment):
    """Estimated seconds of a sequence."""
    plan, found = estimated(experiment)
    return found.predicted_s.estimate / plan.batch


def share(experiment, part):
    found = estimated(experiment)[1]
    return parts(found)[part] / found.predicted_s.estimate


def test_there_are_ten_before_the_course():
    assert next(iter(groups())) == problems.GROUP and len(groups()[problems.GROUP]) == 10
    assert len(PLANS) == 9 and "why_all_gather" not in PLANS


@pytest.mark.parametrize("name", PLANS)
def test_a_problem_claims_what_the_estimate_says(name):
    recipe = RECIPES[name]
    varied, claims = variation_of(recipe), recipe.claims
    plan, found = estimated(recipe.experiment)
    assert screen_of(recipe.experiment) == screen_of(varied) == "predict"
    assert decode(link_path(varied)) == varied
    assert (found.fits, estimated(varied)[1].fits) == (claims.fits, claims.varied_fits)
    assert bool(claims.nearest) is not found.fits
    assert claims.nearest in (nearest_words(plan, nearest_fit(plan)) if claims.nearest else "")
    if claims.varied_is_faster is not None:
        assert (pace(varied) < pace(recipe.experiment)) is claims.varied_is_faster


@pytest.mark.parametrize("name", PLANS)
def test_its_numbers_are_made_of_the_plan(name):
    recipe = RECIPES[name]
    here, varied = recipe.numbers(variation_of(recipe))
    found = estimated(recipe.experiment)[1]
    assert f"{found.memory_bytes.peak / 2**30:.1f} GiB" in here and here != varied
    assert (f"at {found.mfu_causal:.1%} causal MFU" in here) is found.fits
    assert ("moments are" in here) is recipe.shows_moments


def test_what_the_texts_say_beyond_the_claims():
    of = {name: RECIPES[name].experiment for name in PLANS}
    tensor = variation_of(RECIPES["fsdp_or_tensor"])
    exposed = share(of["fsdp_or_tensor"], "exposed over fsdp")
    assert f"{exposed:.0%} of the step" in RECIPES["fsdp_or_tensor"].look_at
    more = {"dims": {"batch": 1024, "sequence": 1024}}
    assert pace(of["fsdp_or_tensor"].vary(**more)) < pace(tensor.vary(**more))
    eight = variation_of(RECIPES["scaling_out"])
    assert pace(of["scaling_out"]) / pace(eight) < 7
    larger = estimated(eight.vary(dims={"batch": 4096, "sequence": 2048}))[1]
    assert larger.mfu == pytest.approx(estimated(of["scaling_out"])[1].mfu, rel=0.1)
    assert share(of["long_context"], "attention kernels") > 0.5
    assert share(variation_of(RECIPES["long_context"]), "attention kernels") > 0.85
    split = variation_of(RECIPES["long_context"]).vary(
        mesh={"fsdp": 16, "sequence": 4}, dims={"batch": 16, "sequence": 131072}
    )
    peaks = [estimated(each)[1].memory_bytes.peak for each in (of["long_context"], split)]
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)
    saved = of["remat_or_offload"].vary(options={"model": "llama-2-70b", "remat": "minimal"})
    assert not estimated(saved)[1].fits
    mfu = estimated(of["mfu_left"])[1].mfu
    assert 0.40 < mfu < 0.45 and 0.35 < share(of["mfu_left"], "attention kernels") < 0.45


def test_why_all_gather_changes_to_nothing_communicated():
    varied = variation_of(RECIPES["why_all_gather"])
    assert varied.overrides == () and RECIPES["why_all_gather"].experiment.overrides

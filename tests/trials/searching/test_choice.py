"""What a search rules out by what it knows, and what it tries next."""

from dataclasses import replace

import pytest

from bench.values import ENVIRONMENT
from spmd_core.facts import Estimate
from spmd_core.results import INEXPRESSIBLE, Result
from spmd_core.search import Answer, Space, models, read_array_question, read_question
from spmd_core.surveys import search as words
from spmd_core.trials.searching import choice as choosing
from spmd_core.trials.searching.behind import (
    DRAWN,
    MARGIN,
    REASON,
    Trust,
    estimate_s,
    rejudged,
    trust,
)
from spmd_core.trials.searching.choice import CandidateChoice
from spmd_core.trials.searching.outcomes import answered

SPEC = {
    "workload": "mlp",
    "target": "tpu:v5e:4x4",
    "mesh": None,
    "sharding": None,
    "strategies": ["auto"],
}
QUESTION = read_array_question(SPEC)


def candidates():
    return list(Space(QUESTION, 2).candidates())


def compiled(candidate, share):
    """As if its program took this share of its estimate."""
    seconds = share * estimate_s(candidate)
    return replace(
        candidate, stage="compiled", predicted=Estimate(low=seconds, estimate=seconds, high=seconds)
    )


def test_how_far_below_its_estimate_a_program_was():
    left = [each for each in candidates() if each.stage == "estimated"]
    assert trust(left, 0) is None
    known = trust([compiled(left[0], 1.5), compiled(left[1], 0.8), *left[2:]], 2)
    assert known == Trust(2, 2, pytest.approx(0.8)) and known.limit == pytest.approx(0.8 / MARGIN)


def test_what_is_too_far_above_is_ruled_out_and_comes_back_where_an_estimate_proves_wrong():
    every = candidates()
    left = [each for each in every if each.stage == "estimated"]
    best = min(map(estimate_s, left))
    out = rejudged(every, Trust(30, DRAWN, 1.0), best)
    limit = MARGIN * best
    assert {each.number for each in out} == {
        each.number for each in left if estimate_s(each) > limit
    }
    assert out and all(each.stage == "pruned" and each.reason == REASON for each in out)
    assert "of 30 compiled candidates, 20 of them drawn at random" in words.rule_words(
        out[0].detail
    )
    for each in out:
        every[each.number] = each
    assert rejudged(every, Trust(30, DRAWN, 1.0), best) == []
    near = sorted(map(estimate_s, out))[len(out) // 2]
    back = rejudged(every, Trust(31, DRAWN, limit / near), best)
    assert 0 < len(back) < len(out)
    assert all(
        each.stage == "estimated"
        and each.reason is None
        and not each.detail
        and estimate_s(each) <= 1.001 * near
        for each in back
    )


def test_nothing_is_ruled_out_by_estimates_before_enough_were_drawn(monkeypatch):
    monkeypatch.setattr(choosing, "DRAWN", 4)
    found = [replace(each, bound_s=None) for each in candidates()]
    chosen, runs = CandidateChoice(QUESTION, 10**4, draws=True), 0
    best = min(estimate_s(each) for each in found if each.stage == "estimated")
    while not (ruled := chosen.ruled_out(found)):
        for each in chosen.next(Answer(QUESTION, len(found), tuple(found), False)):
            found[each.number] = compiled(each, 1.0)
        runs += 1
    known = Answer(QUESTION, len(found), tuple(found), False).standards
    assert len(chosen._drawn) == 4 and runs <= len(known) + 2 * 4
    assert all(each.reason == REASON and estimate_s(each) > MARGIN * best for each in ruled)
    again = CandidateChoice(QUESTION, 10**4, draws=True)
    assert again._order == chosen._order  # of the question alone


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:4x4"])
def test_the_standard_shardings_come_first(target):
    question = read_array_question(SPEC | {"target": target})
    found = list(Space(question, 2).candidates())
    chosen = CandidateChoice(question, len(found), draws=target != "cpu:8")
    answer = Answer(question, len(found), tuple(found), False)
    standard = {each.candidate.point.key for each in answer.standards if each.candidate}
    assert len(standard) > 2
    tried = {chosen.next(answer)[0].point.key for _ in standard}
    assert tried == standard
    assert chosen.next(answer)[0].point.key not in standard


def test_attached_devices_and_other_goals_draw_nothing():
    found = candidates()
    found = [
        compiled(each, 1.0) if each.stage == "estimated" and each.number % 2 else each
        for each in found
    ]
    for choice in (
        CandidateChoice(QUESTION, 10**4, draws=False),
        CandidateChoice(read_array_question(SPEC, minimize="memory"), 10**4, draws=True),
    ):
        choice.next(Answer(QUESTION, len(found), tuple(found), False))
        assert not choice._drawn
        assert not {each.reason for each in choice.ruled_out(found)} & {REASON}


def test_what_is_ruled_out_by_estimates_is_said_apart():
    found = candidates()
    best = min(each.seconds for each in found if each.stage == "estimated")
    for each in rejudged(found, Trust(30, DRAWN, 1.0), best):
        found[each.number] = each
    answer = Answer(QUESTION, len(found), tuple(found), True)
    count = answer.pruned[REASON]
    assert f"{count:,} only by their estimates, which is no proof" in words.state_words(answer)
    assert f"{count:,} are estimated far above the best" in words.space_words(answer)


def test_a_sharding_that_a_strategy_cannot_write_is_ruled_out_and_has_not_failed():
    each = candidates()[0]
    found = Result.model_validate(
        {
            "run": "20260101-000000-abcdef",
            "experiment": each.experiment,
            "environment": ENVIRONMENT,
            "strategies": {
                each.strategy: {
                    "status": "error",
                    "error": {"kind": INEXPRESSIBLE, "message": "needs whole rows"},
                }
            },
        }
    )
    (ruled_out,) = answered([each], found)
    assert (ruled_out.stage, ruled_out.detail) == ("pruned", "needs whole rows")
    said = words.space_words(Answer(QUESTION, 1, [ruled_out], True))
    assert said.endswith("Ruled out: 1 cannot be written under their strategy.")


def test_the_best_of_another_target_stays_in_the_table():
    """A chip that is slower may cost less: only its own compiled plans rule its estimates out."""
    asked = {"model": "scaled:1", "chips": ["v5e:4", "v6e:4"], "global_batch": 16}
    asked |= {"offload": False}
    question = read_question(asked)
    found = list(models.candidates(question))
    every = Answer(question, len(found), found, True)
    seconds = 0.1 * every.winner.seconds
    known_s = Estimate(low=seconds, estimate=seconds, high=seconds)
    fast = replace(every.winner, stage="compiled", predicted=known_s)
    known = [fast if each.number == fast.number else each for each in found]
    out = CandidateChoice(question, len(found), draws=False).ruled_out(known)
    assert {each.target for each in out} == {fast.target}
    left = [each for each in known if each.number not in {pruned.number for pruned in out}]
    assert (
        Answer(question, len(left), left, True).best_by_target.keys() == every.best_by_target.keys()
    )
